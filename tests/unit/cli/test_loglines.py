"""Log lines of long-running commands."""

import json
import logging

import pytest

from holdfast.cli.loglines import Lines, Words, log_to_stderr


@pytest.fixture(autouse=True)
def restored():
    root, web = logging.getLogger(), logging.getLogger("uvicorn")
    before = (root.level, root.handlers[:], web.level)
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    web.setLevel(before[2])


def test_a_line_of_json_has_the_message_and_its_fields():
    record = logging.makeLogRecord(
        {"msg": "lost %s", "args": ("w1",), "levelname": "WARNING", "trace_id": "t", "created": 0.5}
    )
    told = json.loads(Lines().format(record))
    assert (told["message"], told["level"], told["trace_id"]) == ("lost w1", "warning", "t")
    assert told["time"].startswith("1970-01-01T00:00:00")


def test_a_traceback_stays_on_its_line():
    try:
        raise ZeroDivisionError("no")
    except ZeroDivisionError as error:
        record = logging.makeLogRecord({"msg": "x", "exc_info": (type(error), error, None)})
    line = Lines().format(record)
    assert "\n" not in line
    assert "ZeroDivisionError: no" in json.loads(line)["traceback"]


def test_lines_go_to_stderr_in_the_form_that_was_chosen(capsys):
    chosen = {"log.format": "json", "log.level": "INFO", "server.access_log": False}
    log_to_stderr(chosen)
    logging.getLogger("holdfast").info("hello")
    told = capsys.readouterr()
    assert json.loads(told.err)["message"] == "hello"
    assert told.out == ""
    assert logging.getLogger("uvicorn").level == logging.WARNING


def test_a_line_of_text_has_its_fields_after_the_message_and_stays_one_line():
    told = {"msg": "a move was refused", "task": "1/3", "why": "it is\nKILLED", "code": "no"}
    line = Words().format(logging.makeLogRecord({"levelname": "ERROR", **told}))
    assert line.endswith(r'ERROR a move was refused task=1/3 why="it is\nKILLED" code=no')
