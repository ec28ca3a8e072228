"""`holdfast quarantine list|show|stats`: which tasks wait for an operator, and why."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from holdfast.cli.errors import NOT_FOUND, USAGE, Trouble
from holdfast.cli.options import watch_option
from holdfast.cli.output import (
    TABLES,
    View,
    clean_text,
    draw_fields,
    emit_list,
    emit_one,
    note,
    row_limit,
)
from holdfast.cli.reading import Look, reads
from holdfast.cli.selectors import find_named_tasks
from holdfast.cli.sources import Source
from holdfast.cli.spans import clock
from holdfast.cli.tables import attempts_table, cell, number, table_of, words
from holdfast.cli.watched import watched
from holdfast.wire.amounts import duration_ms
from holdfast.wire.quarantine import REASONS, WantedCases, plain_mark

F = TypeVar("F", bound=Callable[..., Any])

NUMBERS: Final = ("reason", "name", "function", "worker", "fingerprint")
SHOWN: Final = 10
"""So many rows of each kind are shown to people; programs get all."""


def filters(command: F) -> F:
    """What narrows a list, given to the command as it was typed."""
    options = (
        click.option("--reason", "reasons", multiple=True, metavar="REASON",
                     help=f"Only those that are there for this reason: {', '.join(REASONS)}; "
                     "several with commas."),
        click.option("--job", default="", metavar="JOB", help="Only those of this job."),
        click.option("--fingerprint", default="", metavar="MARK",
                     help="Only those that failed in this way; its beginning is enough."),
        click.option("--older-than", default="", metavar="DURATION",
                     help="Only those that have been there so long."),
        click.option("--name", default="", metavar="PATTERN",
                     help="Only those of jobs called so; * and ? stand for anything."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def wanted_of(source: Source, chosen: dict[str, Any]) -> WantedCases:
    """What the options ask for."""
    reasons = [one.strip().lower() for text in chosen["reasons"] for one in text.split(",")]
    for reason in reasons:
        if reason not in REASONS:
            raise Trouble(f"{reason!r} is no reason: write one of {', '.join(REASONS)}.", USAGE)
    return WantedCases(
        reasons=frozenset(reasons),
        job=str(source.job(chosen["job"])["id"]) if chosen["job"] else "",
        fingerprint=plain_mark(chosen["fingerprint"]),
        older_than_ms=age_of(chosen["older_than"]),
        name=chosen["name"],
    )


def age_of(text: str) -> int:
    try:
        return duration_ms(text or None, "--older-than")
    except ValueError as error:
        raise Trouble(f"{error}.", USAGE) from None


@click.command("list")
@reads
@filters
@click.option("--flat", is_flag=True, help="Every task for itself, not by what it failed with.")
@click.option("--limit", type=int, help="At most so many. [default: 50 in a table]")
@watch_option
def list_cases(
    look: Look, form: str, flat: bool, limit: int | None, watch: bool, **chosen: Any
) -> None:
    """List what is in quarantine, the same failures together.

    Failures are the same when their errors are of one kind and came the same way, or when a command
    left with the same code and the same last words.
    """
    most = row_limit(limit, form)
    with look.source() as source:
        wanted = wanted_of(source, chosen)

        def found() -> tuple[list[View], int | None]:
            if flat:
                return source.ward.cases(wanted, most)
            groups = source.ward.groups(wanted)
            return groups[:most] if most else groups, len(groups)

        table = cases_table if flat else groups_table
        if watch:

            def again() -> list[View]:
                source.refresh()
                return found()[0]

            watched(form, again, table)
            return
        views, total = found()
        plural = "tasks" if flat else "groups"
        if total is None or len(views) < total:
            of = "" if total is None else f" of {total:,}"
            note(f"the first {len(views)}{of} {plural}; --limit 0 shows all")
        if not views and form in TABLES:
            note(_nothing(source, wanted))
            return
        emit_list(form, plural, views, table(views) if form in TABLES else "")


def _nothing(source: Source, wanted: WantedCases) -> str:
    if wanted == WantedCases():
        return f"nothing is in quarantine {source.place}"
    return f"no such tasks {source.place}; `holdfast quarantine list{source.options}` has all"


def groups_table(views: Sequence[View]) -> str:
    return table_of(
        views,
        number("COUNT", "count"),
        cell("REASON", "reason"),
        words("ERROR", "error"),
        cell("FIRST UTC", lambda view: clock(view["first_at"])),
        cell("LAST UTC", lambda view: clock(view["last_at"])),
        cell("SAMPLE", "sample"),
        cell("FINGERPRINT", "fingerprint"),
    )


def cases_table(views: Sequence[View]) -> str:
    return table_of(
        views,
        cell("TASK", "id"),
        words("NAME", "name"),
        cell("REASON", "reason"),
        words("ERROR", "error"),
        number("ATTEMPTS", "attempts"),
        words("WORKER", "worker"),
        cell("SINCE UTC", lambda view: clock(view["since"])),
        cell("FINGERPRINT", "fingerprint"),
    )


@click.command("show")
@click.argument("selectors", metavar="JOB/INDEX...", nargs=-1, required=True)
@reads
def show_case(look: Look, selectors: tuple[str, ...], form: str) -> None:
    """Show tasks in quarantine: why each is there, its errors and all its attempts."""
    views: list[View] = []
    with look.source() as source:
        for selector in selectors:
            job, indices = find_named_tasks(source, selector)
            for index in indices:
                view = source.ward.case(job["id"], index)
                if view is None:
                    raise _not_there(source, job, index)
                views.append(view)
        texts = [case_text(view, source.options) for view in views]
    if len(views) == 1:
        emit_one(form, views[0], texts[0])
    else:
        emit_list(form, "tasks", views, "\n".join(texts))


def _not_there(source: Source, job: View, index: int) -> Trouble:
    name = f"{job['id']}/{index}"
    return Trouble(
        f"task {name} is not in quarantine; `holdfast task show {name}{source.options}` shows it.",
        NOT_FOUND,
    )


def case_text(view: View, options: str) -> str:
    """One task in words, with what to type next."""
    text = draw_fields(
        [
            ("task", view["id"]),
            ("job", f"{view['job_id']} {view['name']}"),
            ("function", view["function"] or None),
            ("reason", view["reason"]),
            ("since", view["since"]),
            ("failures", "{used} of {allowed}".format(**view["failures"])),
            ("losses", "{used} of {allowed}".format(**view["losses"])),
            ("fingerprint", view["fingerprint"]),
            ("error", view["error"]),
        ]
    )
    if view["traceback"]:
        text += f"\n{clean_text(view['traceback'].rstrip())}\n"
    if view["attempts"]:
        text += "\n" + attempts_table(view["attempts"])
    leads = "" if options.startswith(" --data") else options
    return (
        f"{text}\nIts output: holdfast task logs {view['id']}{options}\n"
        f"Next: holdfast quarantine retry {view['id']}{leads}\n"
    )


@click.command()
@reads
@filters
def stats(look: Look, form: str, **chosen: Any) -> None:
    """Count what is in quarantine: by reason, name, function, worker and fingerprint."""
    with look.source() as source:
        numbers = source.ward.counts(wanted_of(source, chosen))
        text = stats_text(numbers) if form in TABLES else ""
        if form in TABLES and not numbers["total"]:
            note(f"nothing is in quarantine {source.place}")
            return
    emit_one(form, numbers, text)


def stats_text(numbers: View) -> str:
    text = draw_fields(
        [
            ("in quarantine", f"{numbers['total']:,}"),
            ("came in the last hour", f"{numbers['last_hour']:,}"),
            ("came in the last day", f"{numbers['last_day']:,}"),
            ("oldest", numbers["oldest_at"]),
            ("newest", numbers["newest_at"]),
        ]
    )
    for kind in NUMBERS:
        counts = list(numbers[f"by_{kind}"].items())
        rows = [{"what": what, "count": count} for what, count in counts[:SHOWN]]
        text += "\n" + table_of(rows, number("COUNT", "count"), words(kind.upper(), "what"))
        if len(counts) > SHOWN:
            text += f"… and {len(counts) - SHOWN:,} more; -o json has all\n"
    return text
