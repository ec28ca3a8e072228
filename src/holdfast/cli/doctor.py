"""`holdfast doctor`: what may be wrong, looked at one by one."""

import os
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


@click.command()
@click.option("--data", type=click.Path(path_type=Path), metavar="DIR",
              help="Look at this folder too: its disk, its owner, its whole history. "
              f"[default: ${DATA_VARIABLE}]")  # fmt: skip
@server_options
@output_option
def doctor(data: Path | None, server: str | None, token_file: Path | None, form: str) -> int:
    """Check the server, the token, the clocks, the workers, this machine and a folder.

    What is POOR works, and may surprise; what is BAD does not work. Each has the command to type
    next. Exits 0 where nothing is bad, 75 where only the server does not answer, 6 where only the
    token does not open it, else 1. With --data alone a server need not be there.
    """
    told = data or (Path(os.environ[DATA_VARIABLE]) if os.environ.get(DATA_VARIABLE) else None)
    asked = find_server(server, token_file)
    http = asked.http()
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
