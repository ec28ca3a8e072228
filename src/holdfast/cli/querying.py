"""`holdfast query`: questions in SQL about the state, live or as it was."""

import os
from pathlib import Path

import click

from holdfast.cli.errors import REFUSED, USAGE, Trouble
from holdfast.cli.output import (
    TABLE_ROWS,
    TABLES,
    WHOLE,
    Column,
    draw,
    emit,
    emit_list,
    note,
    typed,
)
from holdfast.cli.reading import Look, reads
from holdfast.coordinator.inspect import open_folder
from holdfast.coordinator.projection import schema_lines
from holdfast.coordinator.querying import (
    ROWS_MOST,
    TIMEOUT_MS,
    CannotAnswer,
    Question,
    Rows,
    ask_folder,
    counted,
    export,
)
from holdfast.wire.amounts import duration_ms


@click.command()
@click.argument("sql", required=False)
@reads
@click.option(
    "--limit", type=click.IntRange(min=0), default=ROWS_MOST, show_default=True,
    help="How many rows at most; 0 for all.",
)  # fmt: skip
@click.option(
    "--timeout", metavar="DURATION", default=f"{TIMEOUT_MS // 1_000}s", show_default=True,
    help="How long the question may take.",
)  # fmt: skip
@click.option(
    "--export", "target", type=click.Path(path_type=Path), metavar="FILE.db",
    help="Write all tables to a file of SQLite's instead.",
)  # fmt: skip
@click.option("--schema", is_flag=True, help="Print the tables and their columns.")
def query(
    look: Look, form: str, sql: str | None, limit: int, timeout: str, target: Path | None,
    schema: bool,
) -> None:  # fmt: skip
    """Ask in SQL about jobs, tasks, attempts and everything else that is known.

    SQL is that of SQLite, and can only read: `select state, count(*) from tasks group by state`.
    The tables are made for the question from the log, at its end or at a moment of it (--at), and
    thrown away.
    """
    if schema:
        emit("\n".join(schema_lines()) + "\n")
        return
    if target is not None:
        if sql is not None:
            raise Trouble("--export writes all tables: leave out the question.", USAGE)
        _export(look, target)
        return
    if sql is None:
        raise Trouble(
            "what is the question? `holdfast query \"select * from jobs\"`, or "
            "`holdfast query --schema` for the tables.",
            USAGE,
        )
    try:
        timeout_ms = duration_ms(timeout, "--timeout")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--timeout") from None
    _tell(_answer(look, Question(sql, limit, timeout_ms)), form)


def _answer(look: Look, question: Question) -> Rows:
    folder = look.folder()
    if folder is not None:
        try:
            return ask_folder(folder, look.at, question)
        except CannotAnswer as no:
            raise Trouble(str(no), USAGE) from None
    from holdfast.cli.asking import asking
    from holdfast.client.audit import ANSWER_S
    from holdfast.wire.bodies import Query

    body = Query(
        sql=question.sql, limit=question.rows, timeout=f"{question.timeout_ms}ms", at=look.moment()
    )
    with asking(look.server, look.token_file) as asker:
        told = asker.post("query", body=body, answer_s=ANSWER_S)
    return Rows(told["columns"], told["rows"], told["complete"], told["position"], told["at"])


def _tell(found: Rows, form: str) -> None:
    if form in TABLES:
        columns = [Column(_title(name), right=_is_number(found, place), elastic=True)
                   for place, name in enumerate(found.columns)]  # fmt: skip
        shown = found.rows if form == "wide" else found.rows[:TABLE_ROWS]
        emit(draw(columns, shown) if found.rows else "")
        if not found.rows:
            note("no rows")
        elif len(shown) < len(found.rows):
            note(f"the first {len(shown)} of {len(found.rows):,} rows; -o wide or json shows all")
    else:
        views = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
        about = {"position": found.position, "at": found.at, "complete": found.complete}
        if form in WHOLE:
            WHOLE[form]({**about, "columns": found.columns, "rows": views})
        else:
            emit_list("jsonl" if form == "name" else form, "rows", views, "")
    if not found.complete:
        note(f"there are more than {len(found.rows):,} rows; --limit 0 gives all")


def _title(name: str) -> str:
    return name.upper() if name.isidentifier() else name


def _is_number(found: Rows, place: int) -> bool:
    return any(isinstance(row[place], int | float) for row in found.rows[:1])


def _export(look: Look, target: Path) -> None:
    if target.exists():
        raise Trouble(f"{target} is there already: name another file.", REFUSED)
    if not target.parent.is_dir():
        raise Trouble(f"there is no folder {target.parent}.", USAGE)
    folder = look.folder()
    if folder is not None:
        export(open_folder(folder, look.at), target)
    else:
        _fetch(look, target)
    written = counted(target)
    rows = [[name, f"{count:,}"] for name, count in written.tables.items()]
    emit(draw([Column("TABLE"), Column("ROWS", right=True)], rows))
    note(f"position {written.position} is in {target}; `sqlite3 {typed(target)}` opens it")


def _fetch(look: Look, target: Path) -> None:
    """All tables of a server, whole or not at all."""
    from holdfast.cli.asking import asking
    from holdfast.client.audit import ANSWER_S

    moment = look.moment()
    query = {"at": moment} if moment else {}
    half = target.with_name(f".{target.name}.{os.getpid()}.half")
    try:
        with (
            asking(look.server, look.token_file) as asker,
            asker.http.stream("/api/v1/query/export", idle_s=ANSWER_S, **query) as pieces,
            half.open("wb") as file,
        ):
            file.writelines(pieces)
        half.rename(target)
    finally:
        half.unlink(missing_ok=True)
