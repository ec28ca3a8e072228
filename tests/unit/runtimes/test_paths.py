"""By which child replicas are enforced, and what a failure is called."""

import pytest

from holdfast.runtimes.observed import Child, Known, Listing, ManagedKind, Observed, Unknown
from holdfast.runtimes.paths import PATHS, Way, Ways, failure_of
from holdfast.runtimes.status import ApplyCode

ALL = tuple(path.kind for path in PATHS)


def a_child(kind: ManagedKind, *, key: str = "hello", is_deleting: bool = False) -> Child:
    return Child(
        kind=kind, name=key, owner="greeter", function_key=key, desired=2, is_deleting=is_deleting
    )


def seen(**listings: Listing) -> Observed:
    empty: dict[ManagedKind, Listing] = {kind: Known() for kind in ALL}
    return Observed(children=empty | {ManagedKind[kind]: found for kind, found in listings.items()})


HPA = Known((a_child(ManagedKind.HPA),))
KNATIVE = Known((a_child(ManagedKind.KNATIVE_SERVICE),))
DEPLOYMENT = Known((a_child(ManagedKind.DEPLOYMENT),))


@pytest.mark.parametrize(
    ("listings", "field"),
    [
        ({"HPA": HPA, "KNATIVE_SERVICE": KNATIVE, "DEPLOYMENT": DEPLOYMENT}, "spec.minReplicas"),
        (
            {"KNATIVE_SERVICE": KNATIVE, "DEPLOYMENT": DEPLOYMENT},
            "spec.template.metadata.annotations[autoscaling.knative.dev/minScale]",
        ),
        ({"DEPLOYMENT": DEPLOYMENT}, "spec.replicas"),
    ],
)
def test_002_101_102_103_an_autoscaler_goes_before_knative_and_that_before_a_deployment(
    listings: dict[str, Listing], field: str
) -> None:
    way = Ways(seen(**listings)).of(ALL, "hello")
    assert isinstance(way, Way)
    assert way.path.field == field


def test_only_kinds_the_workload_has_are_ways_to_it() -> None:
    kinds = (ManagedKind.DEPLOYMENT, ManagedKind.SERVICE)
    way = Ways(seen(HPA=Unknown("no"), DEPLOYMENT=DEPLOYMENT)).of(kinds, "hello")
    assert isinstance(way, Way)
    assert way.path.kind is ManagedKind.DEPLOYMENT


def test_what_was_not_seen_is_not_passed_over() -> None:
    observed = seen(HPA=Unknown("timed out"), DEPLOYMENT=DEPLOYMENT)
    assert Ways(observed).of(ALL, "hello") == Unknown("timed out")


def test_a_child_of_another_function_or_on_its_way_out_is_no_way() -> None:
    other = Known((a_child(ManagedKind.DEPLOYMENT, key="bye"),))
    leaving = Known((a_child(ManagedKind.DEPLOYMENT, is_deleting=True),))
    assert Ways(seen(DEPLOYMENT=other)).of(ALL, "hello") is None
    assert Ways(seen(DEPLOYMENT=leaving)).of(ALL, "hello") is None


@pytest.mark.parametrize(
    ("code", "was_fallback", "reason", "message"),
    [
        (
            ApplyCode.CONFLICT,
            False,
            "EnforceConflict",
            "Field manager ownership conflict applying enforcement: x",
        ),
        (ApplyCode.INVALID, False, "EnforceInvalid", "Invalid enforcement value x"),
        (ApplyCode.FAILED, False, "EnforceFailed", "x"),
        (ApplyCode.FAILED, True, "EnforceFallbackFailed", "Fallback path failed: x"),
    ],
)
def test_resolution_002_8_a_failed_enforcement_has_its_own_reason(
    code: ApplyCode, was_fallback: bool, reason: str, message: str
) -> None:
    assert failure_of(code, "x", was_fallback=was_fallback) == (reason, message)
