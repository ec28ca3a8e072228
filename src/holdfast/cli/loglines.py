"""Where the log lines of a long-running command go, and in which form."""

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from holdfast.cli.errors import USAGE, Trouble

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
FORMS: Final = ("text", "json")
_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class Lines(logging.Formatter):
    """One line of JSON a message, its fields beside it."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        told: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str, ensure_ascii=False)


class Words(logging.Formatter):
    """A line for people: the message, then its fields."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        told = (f"{name}={_shown(value)}" for name, value in _fields(record).items())
        return " ".join((super().formatMessage(record), *told))


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What was told beside the message."""
    return {name: value for name, value in vars(record).items() if name not in _PLAIN}


def _shown(value: Any) -> str:
    """A value in one word, or in quotes: a line stays one line."""
    text = str(value)
    is_word = text.isprintable() and " " not in text and '"' not in text
    return text if text and is_word else json.dumps(text, ensure_ascii=False)


def check_log_lines(values: Mapping[str, Any]) -> None:
    """Level and form are ones that we know, or the mistake is told."""
    level, form = values["log.level"], values["log.format"]
    if level.upper() not in LEVELS:
        raise Trouble(
            f"log.level = {level.lower()} must be one of {', '.join(LEVELS).lower()}", USAGE
        )
    if form not in FORMS:
        raise Trouble(f"log.format = {form} must be text or json", USAGE)


def log_to_stderr(values: Mapping[str, Any]) -> None:
    """Have this program write log lines. A library would not do this."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(Lines() if values["log.format"] == "json" else Words())
    logging.basicConfig(level=values["log.level"].upper(), handlers=[lines], force=True)
    if not values["server.access_log"]:
        # The web server tells of every start, stop and closed connection.
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
