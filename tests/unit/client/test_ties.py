"""Words of a program that tie a job to others, and those that change one that has ended."""

import pytest

from holdfast.client.edits import edits_from
from holdfast.client.limits import named
from holdfast.client.ties import ties_from
from holdfast.core.placing import ALL_TASKS, After
from holdfast.wire.bodies import Constraint, Edits

NOTHING = dict.fromkeys(
    ("key", "after", "on_failed_parent", "parent", "detached", "unique_for", "existing")
)


def tied(**words: object) -> dict[str, object]:
    return ties_from({**NOTHING, **words})


def test_without_a_word_a_job_is_tied_to_nothing() -> None:
    assert tied() == {
        "after": (), "fate": "fail", "parent": "", "detached": False, "unique_for_ms": 0,
        "existing": "keep",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ("12", [After("12", ALL_TASKS, "success")]),
        ("12/3", [After("12", 3, "success")]),
        (("failure", "12"), [After("12", ALL_TASKS, "failure")]),
        (["12", ("finish", "13/0"), "14:failure"], [
            After("12"), After("13", 0, "finish"), After("14", ALL_TASKS, "failure"),
        ]),
        (("12", "13"), [After("12"), After("13")]),
    ],
)  # fmt: skip
def test_what_it_comes_after_is_written_in_several_ways(
    after: object, found: list[After]
) -> None:
    assert tied(after=after)["after"] == tuple(found)


def test_the_current_job_can_be_a_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_JOB_ID", "7")
    assert tied(parent="current", detached=True)["parent"] == "7"
    monkeypatch.delenv("HOLDFAST_JOB_ID")
    with pytest.raises(ValueError, match="inside a task"):
        tied(parent="current")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"after": [("maybe", "12")]}, r"write a job, '12/3'"),
        ({"after": "12:maybe"}, "unknown condition"),
        ({"after": "12/x"}, "names no task"),
        ({"on_failed_parent": "shrug"}, "must be one of fail, wait"),
        ({"existing": "shrug", "key": "k"}, "must be one of keep, replace, refuse"),
        ({"existing": "replace"}, "give it one"),
        ({"unique_for": "1h"}, "give it one"),
        ({"unique_for": "soon", "key": "k"}, "not a duration"),
        ({"detached": True}, "for a job with a parent"),
    ],
)
def test_ties_that_make_no_sense_are_told_at_once(words: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        tied(**words)


def test_other_terms_are_asked_for_under_their_names() -> None:
    assert edits_from({}) is None
    wish = Constraint(attribute="zone", operator="eq", values=["a"])
    assert edits_from(
        {
            "retries": 5, "memory": "4Gi", "timeout": 90, "require": "zone == a",
            "concurrency": {"k": 1}, "max_failed_tasks": None,
        }
    ) == Edits(
        retries=5, memory=str(4 * 2**30), timeout="90000ms", constraints=[wish], keys={"k": 1},
        max_failed_tasks=None,
    )  # fmt: skip
    with pytest.raises(ValueError, match="'target' cannot be changed by a retry"):
        edits_from({"target": "m:other"})
    with pytest.raises(ValueError, match="retries"):
        edits_from({"retries": "many"})


def test_a_limit_is_named_by_scope_and_name() -> None:
    assert named("key/customer/42") == ("key", "customer/42")
    for odd in ("", "key", "key/", "/name"):
        with pytest.raises(ValueError, match="names no limit"):
            named(odd)
