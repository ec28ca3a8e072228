"""`holdfast token` and `holdfast worker token`: who may ask a server for what."""

from pathlib import Path
from typing import Final

import click

from holdfast.cli.asking import asking
from holdfast.cli.options import output_option, server_options
from holdfast.cli.output import emit_list, emit_one, note
from holdfast.cli.reading import Look, reads
from holdfast.cli.spans import clock
from holdfast.cli.tables import cell, table_of, words
from holdfast.wire.bodies import NewToken
from holdfast.wire.token_files import is_near

SCOPES: Final = ("submit", "read", "cancel", "worker", "operator", "admin")


def _scopes(
    context: click.Context, option: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    names = [name.strip() for text in value for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in SCOPES]
    if unknown:
        told = f"{unknown[0]} is no scope; there are {', '.join(SCOPES)}"
        raise click.BadParameter(told, context, option)
    return tuple(dict.fromkeys(names))


@click.command()
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, callback=_scopes, metavar="SCOPE",
              help=f"What it may: {', '.join(SCOPES)}; several with commas.")  # fmt: skip
@click.option("--ttl", default="", metavar="DURATION", help="How long. [default: until revoked]")
@click.option("--worker", default="", metavar="WORKER", help="Only for the worker of this name.")
@server_options
@output_option
def create(
    name: str,
    scopes: tuple[str, ...],
    ttl: str,
    worker: str,
    server: str | None,
    token_file: Path | None,
    form: str,
) -> None:
    """Make a token for NAME and print it. It is told this once and stored nowhere."""
    with asking(server, token_file) as asker:
        body = NewToken(name=name, scopes=list(scopes), ttl=ttl, worker=worker)
        made = asker.post("tokens", body=body)
        emit_one(form, made, f"{made['token']}\n")
        note(f"`holdfast token revoke {made['id']}{asker.options}` takes it back")


@click.command("list")
@reads
def list_tokens(look: Look, form: str) -> None:
    """List the tokens that open something. Their secrets are known only to their owners."""
    with look.source() as source:
        views = source.tokens()
    drawn = table_of(
        views,
        cell("TOKEN", "id"),
        words("NAME", "name"),
        cell("SCOPES", lambda view: ",".join(view["scopes"])),
        cell("WORKER", "worker"),
        cell("ISSUED UTC", lambda view: clock(view["issued_at"])),
        cell("EXPIRES UTC", lambda view: clock(view["expires_at"]) or "never"),
    )
    emit_list(form, "tokens", views, drawn)


@click.command()
@click.argument("ids", metavar="TOKEN...", nargs=-1, required=True)
@server_options
def revoke(ids: tuple[str, ...], server: str | None, token_file: Path | None) -> None:
    """Have tokens open nothing any more. TOKEN is an id, as `token list` shows it."""
    with asking(server, token_file) as asker:
        for token_id in ids:
            asker.delete("tokens", token_id)
            note(f"token {token_id} opens nothing any more")


@click.command("token")
@click.option("--ttl", default="1h", show_default=True, metavar="DURATION",
              help="How long it lets workers in.")  # fmt: skip
@click.option("--name", default="", metavar="WORKER", help="Only for the worker of this name.")
@server_options
@output_option
def worker_token(
    ttl: str, name: str, server: str | None, token_file: Path | None, form: str
) -> None:
    """Make a token for workers and print the line to paste on their machine.

    It can do a worker's work and nothing else.
    """
    with asking(server, token_file) as asker:
        body = NewToken(name=name or "workers", scopes=["worker"], ttl=ttl, worker=name)
        made = asker.post("tokens", body=body)
        url = asker.url
    named = f" --name {name}" if name else ""
    command = f"HOLDFAST_TOKEN={made['token']} holdfast worker start --server {url}{named}"
    emit_one(form, {**made, "command": command}, f"{command}\n")
    if is_near(url):
        note(
            f"{url} can be reached from this machine only; for others name the server as they "
            "know it: --server URL"
        )
