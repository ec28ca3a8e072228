"""Words of a program about where its tasks may run: read, or refused where they were written."""

import pytest

from holdfast import task
from holdfast.client.placing import constraints_from
from holdfast.client.task import options_of
from holdfast.core.placing import ANYWHERE, Constraint, Placing
from holdfast.testing.chores import square


def placed(**words: object) -> Placing:
    return options_of(task(**words)(square)).spec("function", "m:f", "f").placing


def test_words_become_wishes() -> None:
    assert placed() == ANYWHERE
    assert placed(
        resources={"licence": 1, "a": 0.5},
        require=["zone == a", "cores >= 8"],
        prefer=["disk == ssd", "50 zone == b"],
        spread="pack",
        gang=True,
        gang_by="rack",
        preempt=True,
        concurrency={"customer-42": 1},
    ) == Placing(
        resources=(("a", 500), ("licence", 1_000)),
        constraints=(
            Constraint("zone", "eq", ("a",)),
            Constraint("cores", "ge", ("8",)),
            Constraint("disk", "eq", ("ssd",), 1),
            Constraint("zone", "eq", ("b",), 50),
        ),
        keys=(("customer-42", 1),),
        spread="pack",
        gang=True,
        gang_by="rack",
        preempts=True,
    )


def test_one_wish_needs_no_list() -> None:
    assert constraints_from("zone == a", "disk == ssd") == constraints_from(
        ["zone == a"], ["disk == ssd"]
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"resources": {"licence": -1}}, "licence=-1"),
        ({"resources": {"licence": "one"}}, "is not a number"),
        ({"resources": {"cpus": 1}}, "field of its own"),
        ({"require": ["zone ~ a"]}, "unknown operator '~'"),
        ({"require": ["5 zone == a"]}, "has no weight"),
        ({"prefer": ["0 zone == a"]}, "prefers nothing"),
        ({"prefer": ["101 zone == a"]}, "weighs 1 to 100"),
        ({"require": ["cores >= many"]}, "compares numbers"),
        ({"spread": "wide"}, "unknown spread"),
        ({"gang_by": "rack"}, "without a gang"),
        ({"concurrency": {"k": -1}}, "-1 of key 'k'"),
    ],
)
def test_a_mistake_is_told_where_it_was_written(words: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        task(**words)


def test_what_is_no_text_is_told_so() -> None:
    with pytest.raises(TypeError, match="must be text such as 'zone == eu'"):
        task(require=[7])
    with pytest.raises(TypeError, match="must be a whole number"):
        task(concurrency={"k": 0.5})
