"""What was told about a runtime, found again in what was written down of it."""

from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes.actions import EmitEvent
from holdfast.runtimes.happenings import KEPT, Happenings
from holdfast.runtimes.recalling import told_between
from holdfast.runtimes.status import (
    NEW,
    AppliedRecommendation,
    Enforced,
    Phase,
    Stability,
    Status,
)
from holdfast.testing.model_runtime import ModelRuntime, a_resource, declared, function


def stood(*phases: Phase, does: str = "serve") -> list[Status]:
    runtime = ModelRuntime(a_resource(declared(functions=[function("hello", does)])))
    found = [NEW]
    for phase in phases:
        runtime.reach(phase)
        found.append(runtime.resource.status)
    return found


def reasons(before: Status, after: Status) -> list[str]:
    return [each.reason for each in told_between(before, after, 1)]


def test_a_change_of_phase_is_told_with_its_reason_and_the_same_again_is_not():
    new, up = stood(Phase.AVAILABLE)
    assert reasons(new, up) == ["Available"]
    assert reasons(up, up) == []
    applying, progressing = replace(up, phase=Phase.APPLYING), replace(up, phase=Phase.PROGRESSING)
    assert reasons(applying, progressing) == ["Applied", "AwaitingReadiness"]
    _, down = stood(Phase.DEGRADED, does="crash")
    (told,) = told_between(up, down, 1)
    assert told.is_warning
    assert (told.reason, "restart count" in told.message) == ("CrashLoop", True)


def test_enforcements_and_what_they_wait_for_are_told():
    applied = AppliedRecommendation(
        component="function", dimension="replicas", target=3, basis="rps", confidence=1.0,
        function_key="hello",
    )  # fmt: skip
    after = replace(NEW, last_applied_recommendations=(applied,))
    (told,) = told_between(NEW, after, 1)
    assert (told.reason, told.message) == ("NFRApplied", "replicas/hello is 3 (rps)")
    failed = replace(NEW, enforced={"replicas": Enforced(failures=1, reason="EnforceFailed")})
    assert reasons(NEW, failed) == ["NFRApplyFailed"]
    held = Stability(target=3, last_change_at=Instant(1), decision="WaitStability clamped")
    waits = replace(NEW, stability={"replicas": held})
    assert reasons(NEW, waits) == ["NFRClampedMax", "NFRSkippedStability"]
    assert reasons(waits, waits) == []


def test_what_came_before_stands_first_and_the_same_of_both_is_counted_together():
    past, now = Happenings(), Happenings()
    for at, reason in ((10, "Declared"), (20, "Available"), (30, "Available")):
        past.tell("greeter", EmitEvent(reason=reason, message=""), Instant(at))
    now.tell("greeter", EmitEvent(reason="Available", message=""), Instant(1_040))
    now.tell("greeter", EmitEvent(reason="Degraded", message=""), Instant(1_050))
    now.precede("greeter", past.of("greeter"), 1_000)
    told = [(each.reason, each.count, each.first_at, each.last_at) for each in now.of("greeter")]
    assert told == [
        ("Declared", 1, 1_010, 1_010), ("Available", 3, 1_020, 1_040), ("Degraded", 1, 1_050, 1_050)
    ]  # fmt: skip
    for number in range(KEPT):
        past.tell("busy", EmitEvent(reason="R", message=str(number)), Instant(number))
    now.tell("busy", EmitEvent(reason="R", message="last"), Instant(9_000))
    now.precede("busy", past.of("busy"))
    assert len(now.of("busy")) == KEPT
    assert now.of("busy")[-1].message == "last"
