"""Labels and annotations of a runtime: what it is chosen by, and what people note about it.

They are judged as clusters judge them, so that a manifest that is taken here is taken there. They
belong to the runtime alone: its children carry the labels by which their owner finds them, and
nobody writes those.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast.core.resource import MARKS_BYTES_MAX, marks_size
from holdfast.runtimes.descriptor import Problem

NAME_MOST: Final = 63
PREFIX_MOST: Final = 253

WORD_PATTERN: Final = r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
PREFIX_PATTERN: Final = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"

_WORD: Final = re.compile(WORD_PATTERN)
_PREFIX: Final = re.compile(PREFIX_PATTERN)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")
_WORD_RULE: Final = "letters, digits and - _ . between them, at most 63"


def problem_of_marks(metadata: object) -> Problem | None:
    """The first thing wrong with the labels and annotations that somebody wrote; None where
    nothing is, or where they are not even a mapping."""
    if not isinstance(metadata, Mapping):
        return None
    for field in ("labels", "annotations"):
        written = metadata.get(field)
        if isinstance(written, Mapping):
            for problem in _problems(f"metadata.{field}", written, is_label=field == "labels"):
                return problem
    return _too_large(metadata.get("labels"), metadata.get("annotations"))


def problem_of_key(key: str) -> str:
    """What is wrong with the key of a label, in words; empty where nothing is."""
    prefix, slash, name = key.rpartition("/")
    if not _is_word(name):
        return f"its name takes {_WORD_RULE}"
    if slash and (len(prefix) > PREFIX_MOST or _PREFIX.fullmatch(prefix) is None):
        return "before the slash stands a domain in small letters, such as example.org"
    return ""


def _problems(path: str, written: Mapping[Any, Any], *, is_label: bool) -> Iterator[Problem]:
    for key, value in written.items():
        if not isinstance(key, str):
            yield Problem(path, f'the key {_shown(key)} is no text; write "{_shown(key)}"')
            return
        here = f"{path}.{key}" if _PLAIN.fullmatch(key) else f'{path}["{key[:PREFIX_MOST]}"]'
        wrong = problem_of_key(key)
        if wrong:
            yield Problem(here, f"it is no key: {wrong}")
        elif isinstance(value, Mapping | list | None):
            yield Problem(here, "its value must be text")
        elif not isinstance(value, str):
            shown = _shown(value)
            yield Problem(here, f'{shown} is no text; write it in quotes: "{shown}"')
        elif is_label and value and not _is_word(value):
            yield Problem(here, f"{value[:80]!r} is no label: it takes {_WORD_RULE}")


def _too_large(labels: object, annotations: object) -> Problem | None:
    if marks_size(_pairs(labels), _pairs(annotations)) > MARKS_BYTES_MAX:
        told = f"labels and annotations together are more than {MARKS_BYTES_MAX // 1024} KiB"
        return Problem("metadata.annotations", told)
    return None


def _pairs(written: object) -> tuple[tuple[str, str], ...]:
    return tuple(written.items()) if isinstance(written, Mapping) else ()


def _is_word(text: str) -> bool:
    return len(text) <= NAME_MOST and _WORD.fullmatch(text) is not None


def _shown(value: object) -> str:
    """As YAML spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)[:80]
