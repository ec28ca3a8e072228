"""`holdfast doctor`: what may be wrong, looked at one by one."""

import os
from contextlib import closing
from pathlib import Path

import click

from holdfast.cli.asking import Asker, find_server
from holdfast.cli.errors import REFUSED
from holdfast.cli.examining import examine_server
from holdfast.cli.finding import BAD, Finding
from holdfast.cli.looking import examine_folder, examine_machine
from holdfast.cli.options import output_option, server_options
from holdfast.cli.output import TABLES, Column, draw, emit_list, note
from holdfast.cli.reading import DATA_VARIABLE
from holdfast.cli.repairs import repair_folder, repair_server


@click.command()
@click.option("--data", type=click.Path(path_type=Path), metavar="DIR",
              help="Look at this folder too: its disk, its owner, its whole history. "
              f"[default: ${DATA_VARIABLE}]")  # fmt: skip
@click.option("--repair", is_flag=True,
              help="Mend what can be mended: of the folder, which nobody may have open, or of the "
              "server. What was done is recorded.")
@click.option("--dry-run", is_flag=True, help="With --repair: only say what would be done.")
@click.option("--yes", is_flag=True, help="With --repair: do not ask.")
@click.option("--reason", default="", metavar="TEXT", help="With --repair: why, for the record.")
@server_options
@output_option
def doctor(
    data: Path | None,
    repair: bool,
    dry_run: bool,
    yes: bool,
    reason: str,
    server: str | None,
    token_file: Path | None,
    form: str,
) -> int:
    """Check the server, the token, the clocks, the workers, this machine and a folder.

    What is POOR works, and may surprise; what is BAD does not work. Each has the command to type
    next. Exits 0 where nothing is bad, 75 where only the server does not answer, 6 where only the
    token does not open it, else 1. With --data alone a server need not be there.
    """
    told = data or (Path(os.environ[DATA_VARIABLE]) if os.environ.get(DATA_VARIABLE) else None)
    if (dry_run or yes or reason) and not repair:
        raise click.UsageError("--dry-run, --yes and --reason go with --repair.")
    asked = find_server(server, token_file)
    http = asked.http()
    if repair:
        with closing(http):
            wish = {"dry_run": dry_run, "yes": yes}
            if told is not None and server is None:
                return repair_folder(told, form, reason, **wish)
            return repair_server(Asker(asked, http), form, reason, **wish)
    try:
        is_needed = told is None or server is not None
        findings = [*examine_server(asked, Asker(asked, http), is_needed=is_needed)]
    finally:
        http.close()
    findings += examine_machine()
    if told is not None:
        findings += examine_folder(told)
    columns = [Column("CHECK"), Column("STATE"), Column("FOUND"), Column("NEXT")]
    rows = [[finding.name, finding.state, finding.told, finding.next] for finding in findings]
    views = [finding.view() for finding in findings]
    emit_list(form, "checks", views, draw(columns, rows) if form in TABLES else "")
    return _told([finding for finding in findings if finding.state == BAD])


def _told(bad: list[Finding]) -> int:
    if not bad:
        return 0
    note(f"holdfast: not well: {', '.join(finding.name for finding in bad)}")
    codes = {finding.code for finding in bad}
    return codes.pop() if len(codes) == 1 else REFUSED
