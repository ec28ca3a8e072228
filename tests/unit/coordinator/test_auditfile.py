"""The audit trail as a file: whatever is done to it is found, and the first bad line is named."""

import json
from collections.abc import Callable
from random import Random

import pytest

from holdfast.coordinator.auditfile import Span, Torn, check_file, compare, exported
from holdfast.coordinator.inspect import Told
from holdfast.core.ids import Position
from holdfast.core.record import decode_record
from holdfast.testing.histories import a_history

SPAN = Span(log_id="ab" * 16, first=1, last=40, before="00" * 16, head="11" * 16)


def told(world) -> list[Told]:
    return [
        Told(Position(position), 1, 0, decode_record(data))
        for position, data in enumerate(world.log[:40], 1)
    ]


@pytest.fixture(scope="module")
def whole() -> list[bytes]:
    return list(exported(SPAN, told(a_history(40, Random(11)))))


def test_a_whole_file_says_what_it_is_about(whole):
    checked = check_file(whole)
    assert checked.span == SPAN
    assert (checked.entries, checked.records) == (len(whole) - 2, 40)
    assert checked.link == json.loads(whole[-1])["link"]


def test_every_line_has_the_fields_of_a_transition(whole):
    moves = [view for view in map(json.loads, whole) if view.get("source") == "state_machine"]
    assert moves
    for view in moves:
        assert view["action"] == f"transition_{view['from']}_to_{view['to']}"
        assert view["status"] == "validated"
        named = {"job_id", "task_id", "at", "operator", "reason", "metadata", "position"}
        assert named <= set(view)


def edited(lines: list[bytes], dice: Random) -> tuple[list[bytes], int]:
    """Another byte somewhere in a line, its end included; which line is wrong then."""
    place = dice.randrange(len(lines))
    line = bytearray(lines[place])
    at = dice.randrange(len(line))
    line[at] ^= 1 << dice.randrange(8)
    return [*lines[:place], bytes(line), *lines[place + 1 :]], place + 1


def dropped(lines: list[bytes], dice: Random) -> tuple[list[bytes], int]:
    place = dice.randrange(len(lines))
    return [*lines[:place], *lines[place + 1 :]], place + 1


def repeated(lines: list[bytes], dice: Random) -> tuple[list[bytes], int]:
    """A line once more, right behind itself or at any other place."""
    place, to = dice.randrange(len(lines)), dice.randrange(len(lines) + 1)
    return [*lines[:to], lines[place], *lines[to:]], to + 1 + (place == to)


def moved(lines: list[bytes], dice: Random) -> tuple[list[bytes], int]:
    first, second = sorted(dice.sample(range(len(lines)), 2))
    changed = list(lines)
    changed[first], changed[second] = changed[second], changed[first]
    return changed, first + 1


def cut(lines: list[bytes], dice: Random) -> tuple[list[bytes], int]:
    """The end is gone, at a line or in the middle of one."""
    content = b"".join(lines)
    kept = content[: dice.randrange(len(content))].splitlines(keepends=True)
    is_torn = bool(kept) and kept[-1] != lines[len(kept) - 1]
    return kept, len(kept) if is_torn else len(kept) + 1


BLOWS: list[Callable[[list[bytes], Random], tuple[list[bytes], int]]] = [
    edited, dropped, repeated, moved, cut,
]  # fmt: skip


def first_bad(lines: list[bytes]) -> int:
    try:
        # As a file would be read: a byte that became a newline makes two lines of one.
        check_file(b"".join(lines).splitlines(keepends=True))
    except Torn as torn:
        return torn.line
    return 0


def test_a_thousand_edits_of_a_thousand_are_found_and_the_first_bad_line_is_named(whole):
    dice = Random(33)
    for number in range(1_000):
        lines, place = BLOWS[number % len(BLOWS)](whole, dice)
        assert first_bad(lines) == place, (number, place)


def test_a_space_is_an_edit_too(whole):
    lines = [*whole[:5], whole[5].replace(b",", b", ", 1), *whole[6:]]
    assert first_bad(lines) == 6


def test_a_file_that_was_linked_anew_is_whole_and_not_what_the_log_tells(whole):
    """Whoever changes a line may compute all links again: only the log, or the last link, tells."""
    world = a_history(40, Random(11))
    records = told(world)
    forged = list(exported(SPAN, [*records[:20], *records[21:]]))
    assert check_file(forged).link != check_file(whole).link
    with pytest.raises(Torn) as found:
        compare(forged, exported(SPAN, records))
    number = found.value.line
    assert forged[: number - 1] == whole[: number - 1]
    assert found.value.position == 22
    compare(whole, exported(SPAN, records))


@pytest.mark.parametrize("lines", [[], [b""], [b"{}\n"], [b"[]\n"], [b"\xff\n"], [b"1\n"]])
def test_what_is_no_export_is_told_so(lines):
    with pytest.raises(Torn) as found:
        check_file(lines)
    assert found.value.line == 1
