"""What makes two failures the same: the kind of error and the way that led to it.

A fingerprint leaves out whatever differs from one task to the next: line numbers, addresses, ids,
counts, the names of temporary files. Of an exception it is the type with the functions it passed
through; of a command its exit code with the last words it wrote; of anything else its words.
"""

import re
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from holdfast.core import events as e
from holdfast.core.attempt import EndReason
from holdfast.core.quarantine import Why, cause_of, reason_of

LETTERS: Final = 12
"""So many letters are enough to tell the errors of one installation apart."""
TITLE_MOST: Final = 160
FRAMES_MOST: Final = 50
"""Of a deeper stack the innermost frames count."""
LAST_WORDS: Final = 3
"""So many of the last lines that a command wrote tell its failure from another."""

_FRAME: Final = re.compile(r'File "([^"\n]+)", line \d+,? in (.+)')
_CHANGING: Final = (
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "ID"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "ADDRESS"),
    (re.compile(r"(?:/[\w.@~+-]+){2,}"), "PATH"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}\b"), "ID"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "N"),
    (re.compile(r"\s+"), " "),
)


class Fingerprint(Struct, frozen=True):
    """`mark` is the same for failures that are the same; `title` tells people which one it is."""

    mark: str
    why: Why
    title: str


def of_end(end: e.End) -> Fingerprint:
    """That of an attempt which spent a budget."""
    why = reason_of(end)
    headline = end.error.strip().partition("\n")[0]
    if end.reason in (EndReason.LEASE_EXPIRED, EndReason.UNDELIVERED):
        # Which worker it was, and when, says nothing of the task.
        return _made(why, (end.reason,), end.reason.replace("_", " "))
    frames = _frames(end.traceback)
    if frames:
        kind = headline.partition(":")[0]
        place = ":".join(frames[-1])
        words = (kind, *(f"{file}:{function}" for file, function in frames))
        return _made(why, words, f"{kind} {place}" + _said(headline))
    words = tuple(steady(line.replace(end.worker, "WORKER") if end.worker else line)
                  for line in _told(end))  # fmt: skip
    return _made(why, (end.reason, str(end.exit_code), *words), _title(end))


def of_decision(event: e.TasksSetAside) -> Fingerprint:
    """That of tasks which somebody put aside: whoever gave the same note meant the same."""
    title = f"set aside: {event.note or event.cause}"
    return _made(cause_of(event), ("set aside", steady(event.note)), title)


UNTOLD: Final = Fingerprint("0" * LETTERS, Why.UNKNOWN, "its record is no longer kept")


def steady(text: str) -> str:
    """The same words without what changes from one time to the next."""
    for pattern, name in _CHANGING:
        text = pattern.sub(name, text)
    return text.strip()


def _frames(traceback: str) -> list[tuple[str, str]]:
    """The functions that an error passed through, each with the name of its file; one that calls
    itself over and over counts once."""
    found: list[tuple[str, str]] = []
    for path, function in _FRAME.findall(traceback):
        frame = (path.replace("\\", "/").rpartition("/")[2], function.strip())
        if not found or found[-1] != frame:
            found.append(frame)
    return found[-FRAMES_MOST:]


def _told(end: e.End) -> list[str]:
    """The headline, and the last words of a command beneath it."""
    lines = [line for line in end.error.splitlines() if line.strip()]
    return [*lines[:1], *lines[1:][-LAST_WORDS:]]


def _title(end: e.End) -> str:
    lines = _told(end)
    if not lines:
        return end.reason.replace("_", " ")
    return lines[0] if len(lines) == 1 else f"{lines[0]}: {lines[-1].strip()}"


def _said(headline: str) -> str:
    message = headline.partition(":")[2].strip()
    return f": {message}" if message else ""


def _made(why: Why, words: tuple[str, ...], title: str) -> Fingerprint:
    digest = blake2b(digest_size=LETTERS // 2)
    for word in (why.value, *words):
        digest.update(word.encode("utf-8", "replace"))
        digest.update(b"\0")
    short = title if len(title) <= TITLE_MOST else title[: TITLE_MOST - 1] + "…"
    return Fingerprint(digest.hexdigest(), why, short)
