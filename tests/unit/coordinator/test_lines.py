"""Log lines have names that stay."""

import logging

import pytest

from holdfast.coordinator.lines import LINES, is_said, say

LEVELS = {
    "transition_refused": logging.ERROR,
    "repeat": logging.DEBUG,
    "stall_found": logging.WARNING,
    "recovered": logging.INFO,
    "invariant_violated": logging.ERROR,
}


@pytest.mark.parametrize("event", LINES)
def test_a_line_says_its_name_its_words_and_its_fields(event, caplog):
    with caplog.at_level(logging.DEBUG, "holdfast"):
        say(event, task="1/3")
    (record,) = caplog.records
    assert (record.event, record.task) == (event, "1/3")
    assert record.getMessage() == LINES[event].message


@pytest.mark.parametrize(("event", "level"), LEVELS.items())
def test_001_37_the_level_says_how_much_it_matters(event, level):
    assert LINES[event].level == level


def test_what_nobody_wants_is_not_said(caplog):
    with caplog.at_level(logging.INFO, "holdfast"):
        assert not is_said("repeat")
        say("repeat", command="KillJob")
    assert not caplog.records
