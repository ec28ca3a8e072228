"""Which jobs, which tasks: an id, the beginning of one, `last`, `all`, `1-10:2`; `JOB/3-7`."""

import re
from collections.abc import Iterable
from typing import Final

from holdfast.cli.errors import NOT_FOUND, USAGE, Trouble
from holdfast.cli.output import View
from holdfast.cli.sources import Source
from holdfast.core.task import FINISHED
from holdfast.wire.wanted import Wanted

ALL: Final = "all"
UNFINISHED: Final = frozenset({"PENDING", "RUNNING"})
"""The states of jobs that have not ended."""
ENDED: Final = frozenset(state.name for state in FINISHED)
"""The states of tasks that have."""

_SPAN: Final = re.compile(r"(\d{1,15})(?:-(\d{1,15})(?::(\d{1,15}))?)?")
_RANGE: Final = re.compile(r"\d{1,15}-\d{1,15}(?::\d{1,15})?")


def find_jobs(
    source: Source, texts: Iterable[str], *, all_means: frozenset[str] = frozenset()
) -> list[View]:
    """The jobs that these name, each once, in the order they were named.

    `all` means those in the states of `all_means`, which may be none at all.
    """
    found: dict[str, View] = {}
    for text in texts:
        for view in _jobs(source, text, all_means):
            found.setdefault(view["id"], view)
    return list(found.values())


def _jobs(source: Source, text: str, all_means: frozenset[str]) -> list[View]:
    if text == ALL:
        return source.jobs(Wanted(states=all_means)).views
    if _RANGE.fullmatch(text) is None:
        return [source.job(text)]
    numbers = parse_span(text)
    every = source.jobs(Wanted()).views
    found = [view for view in every if view["id"].isdigit() and int(view["id"]) in numbers]
    if not found:
        raise Trouble(
            f"there is no job {text} {source.place}. `holdfast job list{source.options}` lists "
            "what there is.",
            NOT_FOUND,
        )
    return sorted(found, key=lambda view: int(view["id"]))


def names_several(texts: Iterable[str]) -> bool:
    """Whether these may name more than one job, whatever there is now."""
    told = list(texts)
    return len(set(told)) > 1 or any(
        text == ALL or _RANGE.fullmatch(text) is not None for text in told
    )


def parse_span(text: str) -> range:
    """`3`, `3-7`, `0-10:2`: ends included."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise Trouble(f"{text!r} is no range: write 3, 3-7 or 0-10:2.", USAGE)
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if last < first:
        raise Trouble(f"{text} ends before it begins: write {last}-{first}.", USAGE)
    if not step:
        raise Trouble(f"{text} goes nowhere: write a step of 1 or more.", USAGE)
    return range(first, last + 1, step)


def find_tasks(source: Source, text: str) -> tuple[View, range]:
    """The tasks meant by `JOB`, `JOB/3`, `JOB/3-7` or `JOB/0-10:2`."""
    name, slash, span = text.rpartition("/")
    if not slash:
        job = source.job(text)
        return job, range(job["tasks"])
    if _SPAN.fullmatch(span) is None:
        raise Trouble(f"{text} names no task: write JOB/3 or JOB/3-7.", USAGE)
    indices = parse_span(span)
    job = source.job(name)
    count = job["tasks"]
    if indices[-1] >= count:
        if not count:
            raise _without_tasks(source, job)
        raise Trouble(
            f"job {job['id']} has no task {indices[-1]}: its tasks are 0 to {count - 1}. "
            f"`holdfast task list {job['id']}{source.options}` lists them.",
            NOT_FOUND,
        )
    return job, indices


def find_one_task(source: Source, text: str) -> tuple[View, int]:
    """The one task meant by `JOB/3`, or by a job that has only one."""
    job, indices = find_tasks(source, text)
    if not indices:
        raise _without_tasks(source, job)
    if len(indices) != 1:
        raise Trouble(
            f"{text} means {len(indices):,} tasks: name one, such as {job['id']}/0.", USAGE
        )
    return job, indices[0]


def find_named_tasks(source: Source, text: str) -> tuple[View, range]:
    """The tasks meant by `JOB/3` or `JOB/3-7`; a job alone must have only one."""
    if "/" in text:
        return find_tasks(source, text)
    job, index = find_one_task(source, text)
    return job, range(index, index + 1)


def _without_tasks(source: Source, job: View) -> Trouble:
    return Trouble(
        f"job {job['id']} has no tasks. `holdfast job show {job['id']}{source.options}` says how "
        "it stands.",
        NOT_FOUND,
    )
