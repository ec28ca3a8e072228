"""The shortcut for what holds as it did says what the long way says, of every look there is."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes.nfr import judge
from holdfast.runtimes.observed import Observed, Unknown
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.spec import Function, Nfr
from holdfast.runtimes.status import Enforced, Phase, Recommendation, Stability
from holdfast.runtimes.stillness import LABELS, never, still
from holdfast.runtimes.written import Span
from holdfast.testing.enforced_runtimes import a_runtime, observed_at, workloads_of

NOW, SPAN, KEY = 1_000, 5, "replicas/hello"
LOOKS = (
    (Phase.AVAILABLE, ()),
    (Phase.PROGRESSING, ()),
    (Phase.APPLYING, ()),
    (Phase.DEGRADED, ("CrashLoop",)),
    (Phase.DEGRADED, ("EnforceConflict",)),
)


def often(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """Mostly the usual: what is unusual in several ways at once takes no shortcut anyway."""
    return st.sampled_from((usual,) * 3 * len(others) + others)


# Windows of five that end a moment before, at or after now, targets that are met, bounds touched.
near = st.sampled_from((0, SPAN - 1, SPAN, SPAN + 1))
looked_at = st.fixed_dictionaries(
    {
        "mode": often("enforce", "observe", "off"),
        "most": st.sampled_from((None, 1, 2, 3)),
        "least": st.sampled_from((1, 1, 2, 3)),
        "declared": st.sampled_from((0, 1, 2, 3)),
        "value": st.sampled_from((1, 2, 3, 4)),
        "generation": often(1, 2),
        "age": near,
        "target": st.sampled_from((1, 2, 3)),
        "held": near,
        "label": st.sampled_from((*LABELS.values(), "Held")),
        "done": st.sampled_from((None, 1, 2, 3)),
        "cools": st.sampled_from((-1, 0, 1)),
        "failures": often(0, 1, 3),
        "look": often(LOOKS[0], *LOOKS[1:]),
        "is_seen": often(True, False),
    }
)


STILL: dict[str, Any] = {
    "mode": "enforce", "most": 3, "least": 1, "declared": 2, "value": 2, "generation": 1,
    "age": 0, "target": 2, "held": 0, "label": "NoChange", "done": None, "cools": -1,
    "failures": 0, "look": LOOKS[0], "is_seen": True,
}  # fmt: skip
WAITS: dict[str, Any] = {"value": 3, "target": 3, "label": "WaitStability"}
COOLS: dict[str, Any] = WAITS | {"label": "WaitCooldown", "cools": 1}


def a_resource(wish: dict[str, Any]) -> Resource:
    nfr = Nfr(
        mode=wish["mode"], max_replicas=wish["most"], min_replicas=wish["least"],
        stability=Span(SPAN), cooldown=Span(SPAN), stale_after=Span(SPAN),
    )  # fmt: skip
    advice = Recommendation(
        value=wish["value"], observed_at=Instant(NOW - wish["age"]), generation=wish["generation"]
    )
    known = Stability(
        target=wish["target"], last_change_at=Instant(NOW - wish["held"]), decision=wish["label"]
    )
    done = Enforced(
        target=wish["done"], cooldown_until=Instant(NOW + wish["cools"]),
        failures=wish["failures"], reason="EnforceConflict" if wish["failures"] else "",
    )  # fmt: skip
    return a_runtime(
        nfr, Function(key="hello", replicas=wish["declared"]), Function(key="bye", replicas=2),
        nfr_recommendations={"replicas": advice}, stability={KEY: known}, enforced={KEY: done},
    )  # fmt: skip


def what_is_seen(resource: Resource, *, is_seen: bool) -> Observed:
    observed = observed_at(resource)
    if is_seen:
        return observed
    return replace(observed, children=dict.fromkeys(observed.children, Unknown("no")))


@settings(max_examples=100)
@given(wish=looked_at)
@example(wish=STILL | {"done": 2})
@example(wish=STILL | {"age": SPAN + 1})
@example(wish=STILL | WAITS | {"held": SPAN})
@example(wish=STILL | WAITS | {"label": "WaitCooldown", "cools": 0})
@example(wish=STILL | COOLS | {"failures": 1})
def test_what_holds_as_it_did_is_judged_as_if_it_were_decided_anew(wish: dict[str, Any]) -> None:
    resource, (phase, troubles) = a_resource(wish), wish["look"]
    observed, workloads = what_is_seen(resource, is_seen=wish["is_seen"]), workloads_of(resource)
    short, long = (
        judge(
            resource, phase, observed, workloads, now=Instant(NOW), troubles=troubles,
            shortcut=shortcut,
        )
        for shortcut in (still, never)
    )  # fmt: skip
    assert short == long
    assert list(short.stability) == list(long.stability)


@pytest.mark.parametrize(
    "unlike",
    [
        {},
        {"done": 2},
        WAITS,
        WAITS | {"value": 4, "label": "WaitStability clamped"},
        COOLS,
    ],
)
def test_the_shortcut_is_taken_by_what_rests_and_what_waits(unlike: dict[str, Any]) -> None:
    resource = a_resource(STILL | unlike)
    known = resource.status.stability[KEY]
    observed, workloads = observed_at(resource), workloads_of(resource)
    kept, anew = (
        judge(
            resource, Phase.AVAILABLE, observed, workloads, now=Instant(NOW), shortcut=shortcut
        ).stability[KEY]
        for shortcut in (still, never)
    )
    assert kept == anew
    assert kept is known
    assert anew is not known
