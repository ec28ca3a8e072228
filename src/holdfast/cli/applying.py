"""`holdfast apply`: have runtimes be as a file says."""

from pathlib import Path

import click

from holdfast.cli.asking import Asker, asking
from holdfast.cli.errors import CODES, USAGE, Trouble
from holdfast.cli.manifests import Manifest, file_option, manifests_in
from holdfast.cli.options import output_option, server_options
from holdfast.cli.output import View, clean, emit_list, note
from holdfast.cli.waiting import Deadline
from holdfast.wire.http import Rejected


@click.command()
@file_option
@click.option("--dry-run", is_flag=True, help="Only say what would change.")
@click.option("--wait", is_flag=True, help="Wait until they are available.")
@click.option("--timeout", metavar="DURATION", help="Wait so long at most; then exit 124.")
@server_options
@output_option
def apply(
    files: tuple[str, ...],
    dry_run: bool,
    wait: bool,
    timeout: str | None,
    server: str | None,
    token_file: Path | None,
    form: str,
) -> int:
    """Have runtimes be as files say: made where there are none, changed where they differ.

    All files are read first; with a mistake in any of them nothing is changed.
    """
    if not files:
        raise click.UsageError("Say what to apply: -f FILE, or -f - for what is piped in.")
    if timeout is not None and not wait:
        raise click.UsageError("--timeout says how long --wait may take: add --wait.")
    deadline = Deadline(timeout)
    manifests = manifests_in(files)
    with asking(server, token_file) as asker:
        told = [_applied(asker, manifest, dry_run=dry_run) for manifest in manifests]
        lines = [_line(view) for view in told]
        if not wait or dry_run:
            emit_list(form, "runtimes", told, "".join(lines))
            if not dry_run and any(view["change"] != "unchanged" for view in told):
                first = clean(told[0]["name"])
                note(f"`holdfast runtime wait {first}{asker.options}` waits until it is up")
            return 0
        from holdfast.cli.runtime_waiting import wait_for
        from holdfast.client.runtime_wishes import AVAILABLE

        emit_list(form, "runtimes", told, "".join(lines))
        with asker.patient() as patient:
            return wait_for(patient, [view["name"] for view in told], AVAILABLE, deadline)


def _applied(asker: Asker, manifest: Manifest, *, dry_run: bool) -> View:
    query = {"dry_run": "true"} if dry_run else {}
    try:
        return asker.post("runtimes", body=manifest.content, **query)
    except Rejected as no:
        # The server's word is law: it may know templates that we do not.
        if CODES.get(no.problem.code) != USAGE:
            raise
        raise Trouble(
            f"{manifest.place}: {no.problem.detail}. Mend it and apply again.", USAGE
        ) from None


def _line(view: View) -> str:
    would = " (dry run)" if view["dry_run"] else ""
    return f"runtime/{clean(view['name'])} {view['change']}{would}\n"
