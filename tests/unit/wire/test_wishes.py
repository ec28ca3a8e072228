"""Wishes as people write them: read, told again, and refused where they make no sense."""

import pytest
from msgspec import structs

from holdfast.core.placing import (
    ALL_TASKS,
    After,
    Constraint,
    Placing,
    constraint_of,
    constraint_text,
)
from holdfast.wire.bodies import After as AfterBody
from holdfast.wire.bodies import Command, Edits, Submit
from holdfast.wire.bodies import Constraint as ConstraintBody
from holdfast.wire.rates import rate_of, rate_text
from holdfast.wire.specs import body_of, edited, spec_of
from holdfast.wire.wishes import after_of, after_text, milli, ties_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("zone == eu", Constraint("zone", "eq", ("eu",))),
        ("zone=eu", Constraint("zone", "eq", ("eu",))),
        ("zone != eu west", Constraint("zone", "ne", ("eu west",))),
        ("cores>=8", Constraint("cores", "ge", ("8",))),
        ("cores gt 8", Constraint("cores", "gt", ("8",))),
        ("  cores <= 8 ", Constraint("cores", "le", ("8",))),
        ("cores < 8", Constraint("cores", "lt", ("8",))),
        ("zone in eu,us , asia", Constraint("zone", "in", ("eu", "us", "asia"))),
        ("gpu exists", Constraint("gpu", "exists", ())),
        ("50 zone == eu", Constraint("zone", "eq", ("eu",), 50)),
        ("50 == eu", Constraint("50", "eq", ("eu",))),
        ("50 in eu", Constraint("50", "in", ("eu",))),
    ],
)
def test_a_constraint_is_read_and_told_again(text: str, found: Constraint) -> None:
    assert constraint_of(text) == found
    assert constraint_of(constraint_text(found)) == found


def test_a_preference_weighs_what_is_said_or_the_usual() -> None:
    assert constraint_of("zone == eu", otherwise=1).weight == 1
    assert constraint_of("7 zone == eu", otherwise=1).weight == 7


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is no constraint"),
        ("zone", "is no constraint"),
        ("zone ~ a", "unknown operator '~'"),
        ("zone === a", "unknown operator '==='"),
        ("zone like a", "unknown operator 'like'"),
        ("zone ==", "lacks a value"),
        ("zone in a,,b", "lacks a value"),
        ("gpu exists yes", "takes no value"),
    ],
)
def test_what_is_no_constraint_is_told_with_what_would_be(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        constraint_of(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("12", After("12", ALL_TASKS, "success")),
        ("12/3", After("12", 3, "success")),
        ("12/3:failure", After("12", 3, "failure")),
        ("nightly:finish", After("nightly", ALL_TASKS, "finish")),
    ],
)
def test_what_a_job_comes_after_is_read_and_told_again(text: str, found: After) -> None:
    assert after_of(text) == found
    assert after_text(found) == text


@pytest.mark.parametrize("text", ["", ":failure", "12:maybe", "12/x", "12/", "12/-1"])
def test_what_names_nothing_to_come_after_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"names no|unknown condition"):
        after_of(text)


def test_amounts_are_counted_in_thousandths_and_no_finer() -> None:
    assert (milli(1, "x"), milli(0.25, "x"), milli(0.001, "x")) == (1_000, 250, 1)
    for odd in (-1, 0.0001, float("nan"), float("inf"), 10**400, True, "1"):
        with pytest.raises(ValueError, match="x="):
            milli(odd, "x")  # type: ignore[arg-type]


WISHES = Submit(
    command=Command(argv=["true"]),
    resources={"licence": 1, "a": 0.5},
    constraints=["zone == eu", ConstraintBody(attribute="os", operator="exists", weight=5)],
    keys={"customer": 1},
    spread="pack",
    gang=True,
    gang_by="rack",
    preempt=True,
)


def test_wishes_travel_both_ways_and_are_one_value_in_any_order() -> None:
    spec = spec_of(WISHES)
    assert spec.placing == Placing(
        resources=(("a", 500), ("licence", 1_000)),
        constraints=(Constraint("zone", "eq", ("eu",)), Constraint("os", "exists", (), 5)),
        keys=(("customer", 1),),
        spread="pack",
        gang=True,
        gang_by="rack",
        preempts=True,
    )
    again = body_of(spec)
    again.command = WISHES.command
    assert spec_of(again) == spec
    other = structs.replace(WISHES, resources={"a": 0.5, "licence": 1})
    assert spec_of(other) == spec


def test_ties_are_read_from_a_body() -> None:
    body = Submit(
        after=[AfterBody(job="7"), AfterBody(job="8", task=2, condition="failure")],
        on_failed_parent="wait",
        parent="3",
        detached=True,
        unique_for="1h",
        existing="replace",
    )
    assert ties_of(body) == {
        "after": (After("7"), After("8", 2, "failure")),
        "fate": "wait",
        "parent": "3",
        "detached": True,
        "unique_for_ms": 3_600_000,
        "existing": "replace",
    }
    for wrong in (
        Submit(after=[AfterBody(job="")]),
        Submit(after=[AfterBody(job="7", task=-1)]),
        Submit(on_failed_parent="shrug"),
        Submit(unique_for="soon"),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own words
            ties_of(wrong)


def test_edits_change_what_they_name_and_nothing_else() -> None:
    spec = spec_of(WISHES)
    after = edited(spec, Edits(retries=5, memory="4Gi", resources={"licence": 2}))
    assert (after.retries, after.memory_bytes) == (5, 4 * 2**30)
    assert after.placing.resources == (("licence", 2_000),)
    assert after.placing.constraints == spec.placing.constraints
    placing = structs.replace(after.placing, resources=spec.placing.resources)
    assert structs.replace(after, retries=0, memory_bytes=0, placing=placing) == spec
    assert edited(spec, Edits()) == spec
    with pytest.raises(ValueError, match="unknown operator"):
        edited(spec, Edits(constraints=["zone ~ a"]))


@pytest.mark.parametrize(
    ("text", "found", "told"),
    [
        ("10/1m", (10, 60_000), "10/1m"),
        ("10/m", (10, 60_000), "10/1m"),
        ("3/90s", (3, 90_000), "3/90s"),
        ("5/250ms", (5, 250), "5/250ms"),
        ("1/1d", (1, 86_400_000), "1/1d"),
        ("", (0, 0), None),
    ],
)
def test_a_rate_is_read_and_told_again(text: str, found: tuple[int, int], told: str | None) -> None:
    assert rate_of(text) == found
    if told is not None:
        assert rate_text(*found) == told


@pytest.mark.parametrize("text", ["10", "10/", "/1m", "-1/1m", "x/1m", "10/soon", "0/1m", "10/0s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="rate="):
        rate_of(text)
