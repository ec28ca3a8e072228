"""What a template says of itself: enough to watch, judge, name, find and clean up its children.

A descriptor is static. The evaluator knows templates by their descriptors alone, which is why a
new template is a new file and nothing else.
"""

from collections.abc import Callable

from msgspec import Struct

from holdfast.runtimes.observed import Child, ManagedKind, Observed
from holdfast.runtimes.quorum import unwell, unwhole
from holdfast.runtimes.resource import OWNER_LABEL, Resource
from holdfast.runtimes.spec import Spec
from holdfast.runtimes.workload import Workload

NAME_JOINT = "--"
"""Stands between a class and what belongs to it. No name contains it, so no two children of two
classes can come to the same one."""


class Problem(Struct, frozen=True, gc=False):
    """What is wrong with a manifest, and in which field."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ReadinessResult(Struct, frozen=True, gc=False):
    """Whether a child is ready, and why not, or what is still to come. `is_unknown`: not ready as
    far as is known, and it is too early to say."""

    is_ready: bool
    reason: str = ""
    message: str = ""
    is_unknown: bool = False


class ReadinessRule(Struct, frozen=True):
    """How to judge children of one kind, and whether the runtime waits for them."""

    kind: ManagedKind
    evaluator: Callable[[Workload, Child, Observed], ReadinessResult]
    contributes_to_available: bool = True


class TemplateDescriptor(Struct, frozen=True, kw_only=True):
    """One template. `function_namer` takes the class and the key of a function, nothing else, so
    that a name never changes while others come and go. `url_of` predicts where a service of that
    name is reached; empty where only the registry knows."""

    id: str
    managed: tuple[ManagedKind, ...]
    readiness: tuple[ReadinessRule, ...]
    supports_odgm: bool
    render: Callable[[Resource], tuple[Workload, ...]]
    problem_of: Callable[[Spec], Problem | None]
    function_namer: Callable[[str, str], str]
    odgm_namer: Callable[[str], str]
    label_selector: Callable[[str], tuple[str, str]]
    url_of: Callable[[str], str]


def name_by_key(class_name: str, function_key: str) -> str:
    return f"{class_name}{NAME_JOINT}{function_key}"


def name_of_odgm(class_name: str) -> str:
    # No function can have this name: none of their keys begins with a hyphen.
    return f"{class_name}{NAME_JOINT}-odgm"


def select_by_owner(class_name: str) -> tuple[str, str]:
    return OWNER_LABEL, class_name


def url_unknown(_name: str) -> str:
    return ""


READY = ReadinessResult(True)


def replicas_ready(workload: Workload, child: Child, _observed: Observed) -> ReadinessResult:
    """A Deployment is ready with as many ready replicas of the newest revision as are required,
    and none of an older one beside them."""
    wanted = workload.replicas
    if child.revision != workload.revision or child.desired != wanted:
        return ReadinessResult(False, "Outdated", "the newest revision is not rolled out yet")
    if child.updated < workload.required or child.updated < min(child.current, wanted):
        message = f"{child.updated} of {wanted} replicas updated"
        return ReadinessResult(False, "RollingOut", _with(message, child.problems))
    if child.ready < wanted:
        is_enough = child.ready >= workload.required
        reason = "Scaling" if is_enough else "ReplicasNotReady"
        message = f"{child.ready} of {wanted} replicas ready"
        return ReadinessResult(is_enough, reason, _with(message, child.problems))
    return READY


def odgm_ready(workload: Workload, child: Child, observed: Observed) -> ReadinessResult:
    """The data grid is ready with its replicas, and with every partition where it tells of them.
    One that is to tell and does not is not ready; so are replicas alone, where none is to."""
    result = replicas_ready(workload, child, observed)
    if not result.is_ready or not workload.replicas:
        return result
    if observed.partitions is not None:
        why = unwhole(observed.partitions, workload.partitions)
        return ReadinessResult(False, "PartitionUnhealthy", why) if why else result
    if workload.partition_check is None:
        return result
    why = unwell(None, doubt=observed.telling.doubt)
    return ReadinessResult(
        False, "PartitionsUnknown", why, is_unknown=observed.telling.is_awaited
    )


def endpoints_ready(_workload: Workload, child: Child, _observed: Observed) -> ReadinessResult:
    """A Service is ready when somebody stands behind it."""
    if child.ready or not child.desired:
        return READY
    return ReadinessResult(False, "NoEndpoints", "nobody takes requests yet")


def _with(message: str, problems: tuple[str, ...]) -> str:
    return f"{message}: {'; '.join(problems)}" if problems else message
