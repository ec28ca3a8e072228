"""`holdfast serve`: a folder for many programs and machines."""

from pathlib import Path
from typing import Any, Final

import click
import msgspec
import uvloop

from holdfast.api.listening import bind, parse_address
from holdfast.api.running import Plan, Ready
from holdfast.api.running import serve as serve_folder
from holdfast.cli.config import load_config
from holdfast.cli.errors import USAGE, Trouble, say
from holdfast.cli.loglines import log_to_stderr
from holdfast.cli.output import typed
from holdfast.cli.reading import data_option, folder_of
from holdfast.coordinator.output import Quota
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.taking import take_folder
from holdfast.wire.amounts import duration_ms, size_bytes
from holdfast.wire.token_files import usual_token_file

SHORTEST_TERM_MS: Final = 1_000


@click.command()
@data_option
@click.option("--listen", metavar="HOST:PORT",
              help="Where to listen; port 0 takes a free one, unix:PATH is a socket. "
              "[default: 127.0.0.1:7700]")
@click.option("--workers", type=click.IntRange(0, 1024), metavar="N",
              help="Start so many workers here as well. [default: 0]")
@click.option("--lease-term", metavar="DURATION",
              help="How long a silent worker keeps its tasks. [default: 15s]")
@click.option("--token-file", metavar="FILE",
              help="Where the administrator's token is, or is to be written. "
              "[default: your configuration folder]")
@click.option("--tls-cert", metavar="FILE", help="The certificate, with its chain.")
@click.option("--tls-key", metavar="FILE", help="Its private key.")
@click.option("--insecure", is_flag=True, default=None,
              help="Listen to other machines without TLS: tokens can then be read on the way.")
@click.option("--history", metavar="SIZE",
              help="How much log is kept to look back on. [default: 256Mi]")
@click.option("--archive", metavar="DIR", help="Where older log is moved, instead of deleted.")
@click.option("--host", "hosts", multiple=True, metavar="NAME",
              help="Another name this server is called by.")
@click.option("--rate", default=5_000.0, show_default=True, type=click.FloatRange(min=1),
              help="Requests a second that one token may make.")
@click.option("--access-log", is_flag=True, help="Log every request.")  # fmt: skip
def serve(
    data: Path | None, hosts: tuple[str, ...], rate: float, access_log: bool, **flags: Any
) -> None:
    """Take a folder and serve it: to `holdfast worker start`, to programs, to curl.

    SIGTERM or Ctrl-C drains: nothing more is given out, requests under way are answered, the log
    is written. A second one stops at once; nothing that was acknowledged is lost either way.
    SIGHUP reads the certificate again, SIGUSR1 writes to stderr where everything stands.
    """
    config = load_config()
    told = {name: config.get(f"server.{name}", flag) for name, flag in flags.items()}
    for name in ("keep_finished", "output", "output_stream"):
        told[name] = config.get(f"server.{name}")
    try:
        plan = _plan(told, hosts=hosts, per_second=rate, access_log=access_log)
    except ValueError as error:
        raise Trouble(str(error), USAGE) from None
    log_to_stderr(config, requests=access_log)
    named = config.get("server.data_dir", data)
    _run(folder_of(Path(named) if named else None), plan)


def _plan(told: dict[str, Any], **rest: Any) -> Plan:
    address = parse_address(told["listen"])
    term_ms = duration_ms(told["lease_term"], "--lease-term")
    cert, key = told["tls_cert"], told["tls_key"]
    if bool(cert) != bool(key):
        raise ValueError("--tls-cert and --tls-key go together.")
    for file in filter(None, (cert, key)):
        if not Path(file).is_file():
            raise ValueError(f"there is no file {file}.")
    if term_ms < SHORTEST_TERM_MS:
        raise ValueError("--lease-term must be at least 1s, or healthy workers lose their work.")
    if not address.is_local and not cert and not told["insecure"]:
        raise ValueError(
            f"{told['listen']} can be reached from other machines, who could read every token on "
            "the way. Add --tls-cert and --tls-key, or --insecure if the network is yours alone."
        )
    token_file = Path(told["token_file"]) if told["token_file"] else usual_token_file()
    return Plan(
        address=address,
        token_file=token_file.absolute(),
        term_ms=term_ms,
        settings=Settings(
            history_bytes=size_bytes(told["history"], "--history"),
            archive=Path(told["archive"]) if told["archive"] else None,
            keep_finished=told["keep_finished"],
        ),
        output=Quota(
            all_bytes=size_bytes(told["output"], "server.output"),
            stream_bytes=size_bytes(told["output_stream"], "server.output_stream"),
        ),
        workers=told["workers"],
        tls_cert=cert,
        tls_key=key,
        **rest,
    )


def _run(path: Path, plan: Plan) -> None:
    door, address = bind(plan.address)
    with door:
        plan = msgspec.structs.replace(plan, address=address)
        path.mkdir(parents=True, exist_ok=True)
        taken = take_folder(path, term_ms=plan.term_ms)

        def ready(here: Ready) -> None:
            say(_welcome(path, here, plan.workers))

        uvloop.run(serve_folder(taken, door, plan, ready))
    say("holdfast: drained; everything is written")


def _welcome(path: Path, here: Ready, workers: int) -> str:
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
