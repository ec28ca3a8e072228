"""The logger of one attempt: its lines go where the attempt's errors go."""

import logging
import sys
from typing import Final

FORMAT: Final = "%(asctime)s %(levelname)s {attempt}: %(message)s"


class ErrorOutput(logging.Handler):
    """Writes to whatever is the error output when a line comes: it may change from task to task."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - a line that cannot be written fails no task
            self.handleError(record)


def task_logger(attempt_id: str) -> logging.Logger:
    """It belongs to no tree of loggers: nothing that a program sets up for its own changes it, and
    nobody remembers it when the task is over."""
    logger = logging.Logger("holdfast.task", logging.INFO)  # noqa: LOG001 - on purpose, see above
    handler = ErrorOutput()
    handler.setFormatter(logging.Formatter(FORMAT.format(attempt=attempt_id)))
    logger.addHandler(handler)
    return logger
