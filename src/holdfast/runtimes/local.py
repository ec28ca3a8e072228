"""What the templates for Holdfast's own workers have in common."""

from typing import Final

from holdfast.runtimes.descriptor import (
    Problem,
    ReadinessRule,
    TemplateDescriptor,
    endpoints_ready,
    name_by_key,
    name_of_odgm,
    odgm_ready,
    replicas_ready,
    select_by_owner,
    url_unknown,
)
from holdfast.runtimes.observed import ManagedKind
from holdfast.runtimes.rendering import Style, renderer
from holdfast.runtimes.spec import Function, Odgm, Spec

MANAGED: Final = (
    ManagedKind.DEPLOYMENT,
    ManagedKind.SERVICE,
    ManagedKind.ODGM_DEPLOYMENT,
    ManagedKind.ODGM_SERVICE,
)

READINESS: Final = (
    ReadinessRule(ManagedKind.DEPLOYMENT, replicas_ready),
    ReadinessRule(ManagedKind.SERVICE, endpoints_ready, contributes_to_available=False),
    ReadinessRule(ManagedKind.ODGM_DEPLOYMENT, odgm_ready),
    ReadinessRule(ManagedKind.ODGM_SERVICE, endpoints_ready, contributes_to_available=False),
)


def descriptor_of(template: str, style: Style) -> TemplateDescriptor:
    """A template whose children are service jobs."""
    return TemplateDescriptor(
        id=template,
        managed=MANAGED,
        readiness=READINESS,
        supports_odgm=True,
        render=renderer(style),
        problem_of=problem_of,
        function_namer=name_by_key,
        odgm_namer=name_of_odgm,
        label_selector=select_by_owner,
        url_of=url_unknown,
    )


def problem_of(spec: Spec) -> Problem | None:
    """A worker starts a program: everything needs a command, and nothing an image."""
    named: list[tuple[str, Function | Odgm]] = [
        (f"spec.functions[{index}]", function) for index, function in enumerate(spec.functions)
    ]
    if spec.odgm is not None and spec.odgm.enabled:
        named.append(("spec.odgm", spec.odgm))
    for path, component in named:
        if not component.command:
            told = f'template {spec.template} runs programs: say which, as ["python3", …]'
            return Problem(f"{path}.command", told)
        if component.image:
            return Problem(f"{path}.image", f"template {spec.template} runs programs, not images")
    return None
