"""What the templates for Holdfast's own workers have in common."""

from typing import Final

from holdfast.runtimes.descriptor import (
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
from holdfast.runtimes.runnable import problem_of

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
