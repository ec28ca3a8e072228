"""How a data grid that tells of its partitions becomes as small as a person declared it.

A person may make it as small as they like, also smaller than any recommendation ever would; what
they do not get is all of it at once. One member leaves at a time: one that is not ready whenever it
is its turn, and a ready one only while every partition is healthy and led by the same leader for a
while, and was heard of since the last one left. Where the grid does not get well again the rest of
its members stay. What grows, goes away as a whole, or does not tell, is nobody's to guard.

Who left, and when that was seen, is remembered in the status as every other try is.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes.evaluation import Tries
from holdfast.runtimes.observed import Child, Known, Observed, listing_of
from holdfast.runtimes.quorum import one_step, unled, unwell
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.spec import ODGM_REPLICAS
from holdfast.runtimes.status import ApplyCode, Tried
from holdfast.runtimes.workload import Workload

REASON: Final = "Shrinking"
ONE_AT_A_TIME: Final = "one member leaves at a time"

SOON_MS: Final = 1_000
"""When to look again at what time alone will bring on."""

LATER_MS: Final = 15_000
"""The same at what may take longer: whatever is told meanwhile has it looked at as well."""


class Guarded(Struct, frozen=True, gc=False):
    """What is to be held against the children: the data grid in the size it was told. `step` is
    what it is told next, None while nobody may leave; `why` says so in words, empty where nothing
    is guarded."""

    workloads: tuple[Workload, ...]
    step: Workload | None = None
    why: str = ""


def guard(
    resource: Resource,
    workloads: tuple[Workload, ...],
    observed: Observed,
    tries: Tries,
    *,
    now: Instant,
) -> Guarded:
    """Every workload as it is declared, but a data grid that has to shrink: that a step at a
    time."""
    workload = next((each for each in workloads if each.partition_check is not None), None)
    child = None if workload is None else _child(workload, observed)
    if workload is None or child is None or not 0 < workload.replicas < child.desired:
        return Guarded(workloads)
    told = child.desired
    why, wait_ms = _held(resource, workload, child, observed, tries, now)
    kept = replace(workload, replicas=told)
    guarded = tuple(kept if each is workload else each for each in workloads)
    said = f"{told} replicas, {workload.replicas} declared: "
    if why:
        tries.remind(wait_ms)
        return Guarded(guarded, None, f"{said}{why}")
    tries.kept[_leaves(workload)] = Tried(count=1, last_at=now)
    step = replace(workload, replicas=one_step(told, workload.replicas))
    return Guarded(guarded, step, f"{said}{ONE_AT_A_TIME}")


def _held(
    resource: Resource,
    workload: Workload,
    child: Child,
    observed: Observed,
    tries: Tries,
    now: Instant,
) -> tuple[str, int]:
    """Why nobody may leave now, and when to look again; nothing where one may."""
    told = child.desired
    leaves, left = tries.tried(_leaves(workload)), tries.tried(_left(workload))
    if leaves is not None:
        tries.kept[_leaves(workload)] = leaves
    applied = resource.status.apply
    is_applied = applied.generation == resource.generation and applied.code is ApplyCode.OK
    is_new = not is_applied or child.revision != workload.revision
    if is_new or child.leaving or child.current > told:
        return ONE_AT_A_TIME, SOON_MS
    if leaves is not None:
        # What was told while it left says nothing of how the grid stands without it.
        left = left or Tried(count=1, last_at=now)
        tries.kept[_left(workload)] = left
    if child.ready < told:
        return "", 0
    enforced = resource.status.enforced.get(ODGM_REPLICAS)
    changed_at = max(left.last_at if left else NEVER, enforced.at if enforced else NEVER)
    partitions, telling = observed.partitions, observed.telling
    if why := unwell(partitions, declared=workload.partitions, doubt=telling.doubt):
        return f"it waits, {why}", LATER_MS
    if telling.told_at <= changed_at:
        return "it waits to hear of the partitions since the last change", SOON_MS
    if why := unled(partitions, steady_ms=_steady_ms(resource), now=now):
        return f"it waits, {why}", SOON_MS
    return "", 0


def _steady_ms(resource: Resource) -> int:
    odgm = resource.spec.odgm
    asked = odgm.partition_health if odgm is not None else None
    return int(asked.leader_steady) if asked is not None else 0


def _child(workload: Workload, observed: Observed) -> Child | None:
    for kind in workload.kinds:
        listing = listing_of(observed, kind)
        for child in listing.children if isinstance(listing, Known) else ():
            if child.name == workload.name and not child.is_deleting:
                return child
    return None


def _leaves(workload: Workload) -> str:
    return f"leaves/{workload.name}"


def _left(workload: Workload) -> str:
    return f"left/{workload.name}"
