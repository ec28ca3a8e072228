"""What is waited for of a runtime is about what was declared last."""

import pytest

from holdfast.client.runtime_wishes import wish_of


def runtime(phase: str, *, observed: int = 2, **conditions: str):
    told = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return {
        "metadata": {"generation": 2},
        "status": {"phase": phase, "observedGeneration": observed, "conditions": told},
    }


@pytest.mark.parametrize(
    ("wish", "found", "is_met"),
    [
        ("phase=available", runtime("available"), True),
        ("phase=available", runtime("available", observed=1), False),
        ("phase=available", runtime("progressing"), False),
        ("phase=degraded", runtime("degraded", observed=1), True),
        ("condition=Ready", runtime("available", Ready="True"), True),
        ("condition=ready=true", runtime("available", Ready="True"), True),
        ("condition=Ready", runtime("available", observed=1, Ready="True"), False),
        ("condition=Ready", runtime("degraded", Ready="False"), False),
        ("condition=Degraded=False", runtime("available", Degraded="False"), True),
        ("condition=Ready", runtime("pending"), False),
        ("deleted", runtime("deleting"), False),
    ],
)
def test_a_wish_is_met_by_what_holds_of_the_newest_generation(wish, found, is_met):
    assert wish_of(wish).is_met(found) is is_met


def test_only_what_can_still_come_outlasts_a_deletion():
    lasting = [each for each in ("deleted", "phase=deleting", "phase=available", "condition=Ready")
               if wish_of(each).lasts]  # fmt: skip
    assert lasting == ["deleted", "phase=deleting"]


@pytest.mark.parametrize("text", ["", "available", "phase=up", "condition=Happy", "state=x"])
def test_what_cannot_be_waited_for_is_told_with_what_can(text):
    with pytest.raises(ValueError, match="phase=PHASE"):
        wish_of(text)
