"""`holdfast serve`: a folder for many programs and machines."""

import logging
import os
import sys
from pathlib import Path
from typing import Any

import click

from holdfast.cli.errors import USAGE, Trouble, say
from holdfast.cli.output import typed
from holdfast.cli.reading import data_option, folder_of


@click.command()
@data_option
@click.option(
    "--listen",
    default="127.0.0.1:7700",
    show_default=True,
    metavar="HOST:PORT",
    envvar="HOLDFAST_SERVER__LISTEN",
    help="Where to listen; port 0 takes a free one, unix:PATH is a socket.",
)
@click.option(
    "--workers",
    default=0,
    type=click.IntRange(0, 1024),
    metavar="N",
    envvar="HOLDFAST_SERVER__WORKERS",
    help="Start so many workers here as well.",
)
@click.option(
    "--lease-term",
    default="15s",
    show_default=True,
    metavar="DURATION",
    envvar="HOLDFAST_SERVER__LEASE_TERM",
    help="How long a silent worker keeps its tasks.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where the administrator's token is, or is to be written. "
    "[default: your configuration folder]",
)
@click.option(
    "--tls-cert",
    type=click.Path(exists=True),
    metavar="FILE",
    help="The certificate, with its chain.",
)
@click.option("--tls-key", type=click.Path(exists=True), metavar="FILE", help="Its private key.")
@click.option(
    "--insecure",
    is_flag=True,
    help="Listen to other machines without TLS: tokens can then be read on the way.",
)
@click.option(
    "--host", "hosts", multiple=True, metavar="NAME", help="Another name this server is called by."
)
@click.option(
    "--rate",
    default=5_000.0,
    show_default=True,
    type=click.FloatRange(min=1),
    help="Requests a second that one token may make.",
)
@click.option("--access-log", is_flag=True, help="Log every request.")  # fmt: skip
def serve(
    data: Path | None,
    listen: str,
    workers: int,
    lease_term: str,
    token_file: Path | None,
    tls_cert: str | None,
    tls_key: str | None,
    insecure: bool,
    hosts: tuple[str, ...],
    rate: float,
    access_log: bool,
) -> None:
    """Take a folder and serve it: to `holdfast worker start`, to programs, to curl.

    SIGTERM or Ctrl-C drains: nothing more is given out, requests under way are answered, the log
    is written. A second one stops at once; nothing that was acknowledged is lost either way.
    """
    from holdfast.api.credentials import usual_token_file
    from holdfast.api.listening import parse_address
    from holdfast.api.running import Plan
    from holdfast.wire.amounts import duration_ms

    try:
        address = parse_address(listen)
        term_ms = duration_ms(lease_term, "--lease-term")
    except ValueError as error:
        raise Trouble(str(error), USAGE) from None
    if bool(tls_cert) != bool(tls_key):
        raise Trouble("--tls-cert and --tls-key go together.", USAGE)
    if term_ms < 1_000:
        raise Trouble(
            "--lease-term must be at least 1s, or healthy workers lose their work.", USAGE
        )
    if not address.is_local and not tls_cert and not insecure:
        raise Trouble(
            f"{listen} can be reached from other machines, who could read every token on the way. "
            "Add --tls-cert and --tls-key, or --insecure if the network is yours alone.",
            USAGE,
        )
    plan = Plan(
        address=address,
        token_file=(token_file or usual_token_file()).absolute(),
        term_ms=term_ms,
        workers=workers,
        tls_cert=tls_cert or "",
        tls_key=tls_key or "",
        hosts=hosts,
        per_second=rate,
        access_log=access_log,
    )
    _log_to_stderr(access_log)
    _run(folder_of(data), plan)


def _run(path: Path, plan: Any) -> None:
    import msgspec
    import uvloop

    from holdfast.api.listening import bind
    from holdfast.api.running import Ready, serve
    from holdfast.coordinator.taking import take_folder

    door, address = bind(plan.address)
    with door:
        plan = msgspec.structs.replace(plan, address=address)
        path.mkdir(parents=True, exist_ok=True)
        taken = take_folder(path, term_ms=plan.term_ms)

        def ready(here: Ready) -> None:
            say(_welcome(path, here, plan.workers))

        uvloop.run(serve(taken, door, plan, ready))
    say("holdfast: drained; everything is written")


def _welcome(path: Path, here: Any, workers: int) -> str:
    """Where it listens, where the token is, and what to type next."""
    file = typed(here.admission.path)
    told = {
        "new": f"token    {file} (new, yours alone)",
        "adopted": f"token    {file}",
        "known": f"token    {file}",
        "foreign": (
            f"token    {file} does not open this log. Use the one that does, or remove the file "
            "and start again for a new one."
        ),
    }[here.admission.how]
    options = f"--server {here.url} --token-file {file}"
    lines = [f"serving  {path} at {here.url}", told]
    if not workers:
        lines.append(f"next     holdfast worker start {options}")
    lines.append("then     holdfast submit -- echo hello")
    return "\n".join(lines)


def _log_to_stderr(access_log: bool) -> None:
    """Log lines of this program go where people look for them. A library would not do this."""
    level = os.environ.get("HOLDFAST_LOG_LEVEL", "INFO" if access_log else "WARNING").upper()
    if level not in logging.getLevelNamesMapping():
        raise Trouble(f"HOLDFAST_LOG_LEVEL={level} is no level; try INFO.", USAGE)
    logging.basicConfig(
        stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(message)s"
    )
