"""A line by age: whoever steps in stands where its age says, however many there are."""

from random import Random

from holdfast.core.ids import JobId, Position
from holdfast.core.line import PIECE_MOST, Line

MANY = 3 * PIECE_MOST


def a_line(positions: list[int]) -> Line:
    line = Line()
    for position in positions:
        line.add(Position(position), JobId(f"j{position}"))
    return line


def names(positions: list[int]) -> list[str]:
    return [f"j{position}" for position in positions]


def test_in_whatever_order_they_come_they_stand_by_age(dice: Random) -> None:
    line = a_line(dice.sample(range(MANY), MANY))
    assert list(line) == names(list(range(MANY)))
    assert len(line) == MANY
    assert max(len(piece.ids) for piece in line._pieces) <= PIECE_MOST


def test_those_of_one_age_stand_as_they_came() -> None:
    line = Line()
    for job_id in ("a", "b"):
        line.add(Position(5), JobId(job_id))
    line.add(Position(9), JobId("young"))
    line.add(Position(5), JobId("c"))
    assert list(line) == ["a", "b", "c", "young"]


def test_the_oldest_leave_first_and_others_step_in_meanwhile(dice: Random) -> None:
    """Compared with a plain list that is sorted each time."""
    line, plain = Line(), []
    for number in dice.sample(range(MANY), MANY):
        line.add(Position(number), JobId(f"j{number}"))
        plain.append(number)
        if dice.random() < 0.6:
            plain.sort()
            assert line.first() == f"j{plain.pop(0)}"
            line.drop_first()
    assert list(line) == names(sorted(plain))


def test_an_empty_line_is_falsy_and_takes_the_next_one() -> None:
    line = a_line([1])
    assert line
    line.drop_first()
    assert not line
    assert (list(line), len(line)) == ([], 0)
    line.add(Position(2), JobId("j2"))
    assert line.first() == "j2"


def test_many_at_once_stand_as_if_they_had_come_one_by_one(dice: Random) -> None:
    for _ in range(20):
        count = dice.choice((0, 1, 7, PIECE_MOST + 1))
        here = sorted(dice.choices(range(MANY), k=dice.choice((0, 3, PIECE_MOST))))
        come = dice.choices(range(MANY), k=count)
        if dice.random() < 0.5:
            come.sort()
        line, expected = a_line(here), a_line(here)
        for number, position in enumerate(come):
            expected.add(Position(position), JobId(f"new{number}"))
        line.extend([Position(p) for p in come], [JobId(f"new{n}") for n in range(count)])
        assert list(line) == list(expected)
        assert max((len(piece.ids) for piece in line._pieces), default=0) <= PIECE_MOST
        line.add(Position(MANY), JobId("youngest"))
        assert list(line)[-1] == "youngest"
