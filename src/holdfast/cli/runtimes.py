"""`holdfast runtime list|show|events|delete`: class runtimes as they are, and their end."""

from pathlib import Path

import click

from holdfast.cli.asking import Asker, asking
from holdfast.cli.options import output_option, server_options, watch_option
from holdfast.cli.output import TABLES, View, clean, emit_list, emit_one, note
from holdfast.cli.pairs import pairs_of
from holdfast.cli.reading import Look, reads
from holdfast.cli.runtime_sources import no_runtime
from holdfast.cli.runtime_texts import events_table, runtime_text, runtimes_table
from holdfast.cli.sources import Source
from holdfast.cli.waiting import Deadline
from holdfast.cli.watched import watched

_names = click.argument("names", metavar="NAME...", nargs=-1, required=True)


@click.command("list")
@reads
@click.option(
    "-l", "--label", "--selector", "labels", multiple=True, metavar="KEY=VALUE",
    help="Only runtimes with this label; several with commas, or repeat it.",
)  # fmt: skip
@watch_option
def list_runtimes(look: Look, form: str, labels: tuple[str, ...], watch: bool) -> None:
    """List class runtimes, by name."""
    # No label has a comma in it, so that several can stand in one option.
    wanted = pairs_of((each for text in labels for each in text.split(",")), "--label")
    with look.source() as source:
        if watch:

            def again() -> list[View]:
                source.refresh()
                return source.runtimes.all(wanted)

            watched(form, again, lambda views: _drawn(views, source, form))
            return
        views = source.runtimes.all(wanted)
        if not views and form in TABLES and wanted:
            told = ", ".join(f"{clean(key)}={clean(value)}" for key, value in wanted.items())
            note(
                f"no runtime {source.place} has {told}; "
                f"`holdfast runtime list -o wide{source.options}` shows the labels of all"
            )
            return
        if not views and form in TABLES:
            note(f"no runtimes {source.place} yet; `holdfast apply -f FILE` makes one")
            return
        emit_list(form, "runtimes", views, _drawn(views, source, form))


def _drawn(views: list[View], source: Source, form: str) -> str:
    return runtimes_table(views, source.now(), wide=form == "wide")


@click.command("show")
@_names
@reads
def show(look: Look, names: tuple[str, ...], form: str) -> None:
    """Show runtimes: where each is and why, its functions, its conditions, and what to do.

    With -o json or yaml it is the resource itself, spec and status, as it can be applied again.
    """
    with look.source() as source:
        views = [one_of(source, name) for name in names]
        text = "\n".join(runtime_text(view, source.now(), source.options) for view in views)
        if len(views) == 1:
            emit_one(form, views[0], text)
            return
        emit_list(form, "runtimes", views, text)


@click.command("events")
@click.argument("name")
@reads
def events(look: Look, name: str, form: str) -> None:
    """Show what was told about a runtime, the latest last.

    What the log says of it: declared, its phases and why, enforcements. A server also tells what
    it noted beside the log since it started.
    """
    with look.source() as source:
        one_of(source, name)
        views = source.runtimes.events(name)
        if not views and form in TABLES:
            note(
                f"nothing was told about {clean(name)} {source.place}; "
                f"`holdfast runtime show {clean(name)}{source.options}` says how it stands"
            )
            return
        emit_list(form, "events", views, events_table(views, source.now()))


@click.command("delete")
@_names
@click.option("--wait", is_flag=True, help="Wait until nothing of them is left.")
@click.option("--timeout", metavar="DURATION", help="Wait so long at most; then exit 124.")
@server_options
@output_option
def delete(
    names: tuple[str, ...],
    wait: bool,
    timeout: str | None,
    server: str | None,
    token_file: Path | None,
    form: str,
) -> int:
    """Take runtimes down: all their functions end, and then they are gone."""
    deadline = Deadline(timeout)
    with asking(server, token_file) as asker:
        told = [_deleted(asker, name) for name in names]
        lines = [f"runtime/{clean(view['name'])} {view['change']}\n" for view in told]
        emit_list(form, "runtimes", told, "".join(lines))
        if not wait:
            return 0
        from holdfast.cli.runtime_waiting import wait_for
        from holdfast.client.runtime_wishes import DELETED

        with asker.patient() as patient:
            return wait_for(patient, list(names), DELETED, deadline)


def _deleted(asker: Asker, name: str) -> View:
    from holdfast.wire.http import Rejected

    try:
        return asker.delete("runtimes", name)
    except Rejected as no:
        if no.problem.code != "not_found":
            raise
        raise no_runtime(clean(name), f"at {asker.url}", asker.options) from None


def one_of(source: Source, name: str) -> View:
    """The runtime of this name, or the trouble that there is none."""
    found = source.runtimes.one(name)
    if found is None:
        raise no_runtime(clean(name), source.place, source.options)
    return found
