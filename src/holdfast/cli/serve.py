"""`holdfast serve`: a folder for many programs and machines."""

import gc
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import uvloop

from holdfast.api.listening import bind
from holdfast.api.running import Ready
from holdfast.api.running import serve as serve_folder
from holdfast.cli.errors import say
from holdfast.cli.loglines import log_to_stderr
from holdfast.cli.output import typed
from holdfast.cli.reading import data_option, folder_of
from holdfast.cli.reloading import Chosen, Reloading, choose
from holdfast.coordinator.deliveries import owed_line
from holdfast.coordinator.settings import ON_VIOLATION, RECOVERIES
from holdfast.coordinator.taking import take_folder
from holdfast.core.lineage import suspended_line

COLLECTED_AFTER: Final = (20_000, 20, 20)


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
@click.option("--keep-finished", type=click.IntRange(0), metavar="N",
              help="How many finished jobs stay at hand. [default: 10000]")
@click.option("--aging", metavar="DURATION",
              help="How long work waits to be a step more urgent; 0s for never. [default: 10m]")
@click.option("--cordon-after", type=click.IntRange(0), metavar="N",
              help="Cordon a worker that fails so many tasks which then go well elsewhere; "
              "0 for never. [default: 5]")
@click.option("--stall-timeout", metavar="DURATION",
              help="How long something may hang until it counts as stalled; 0s for never. "
              "[default: 10m]")
@click.option("--stall-recovery", type=click.Choice(RECOVERIES),
              help="End attempts that hang at once, or when `holdfast stall approve` says so. "
              "[default: auto]")
@click.option("--stall-delay", metavar="DURATION",
              help="How long a task waits after an attempt of it hung. [default: 60s]")
@click.option("--check-interval", metavar="DURATION",
              help="How often everything is checked; 0s for never. [default: 15m]")
@click.option("--on-violation", type=click.Choice(ON_VIOLATION),
              help="Whether a server whose check found something wrong goes on. [default: tell]")
@click.option("--disk-low", metavar="SIZE",
              help="Below so much free disk no more work is taken. [default: 5 % or 1Gi]")
@click.option("--disk-stop", metavar="SIZE",
              help="Below so much only what runs may end. [default: 1 % or 64Mi]")
@click.option("--output-all", metavar="SIZE",
              help="How much of what tasks print is kept in all. [default: 1Gi]")
@click.option("--output-attempt", metavar="SIZE",
              help="How much of what one attempt prints is kept. [default: 8Mi]")
@click.option("--result-size", metavar="SIZE",
              help="How large the result of a task may be. [default: 1Gi]")
@click.option("--bundle-size", metavar="SIZE",
              help="How large one bundle of code may be. [default: 64Mi]")
@click.option("--bundles-size", metavar="SIZE",
              help="How large all bundles may be together. [default: 4Gi]")
@click.option("--host", "hosts", multiple=True, metavar="NAME",
              help="Another name this server is called by.")
@click.option("--rate", type=click.FloatRange(min=1), metavar="N",
              help="Requests a second that one token may make. [default: 5000]")
@click.option("--strict", is_flag=True, default=None,
              help="Refuse a command that repeats what was done before.")
@click.option("--access-log", is_flag=True, default=None, help="Log every request.")  # fmt: skip
def serve(data: Path | None, **flags: Any) -> None:
    """Take a folder and serve it: to `holdfast worker start`, to programs, to curl.

    SIGTERM or Ctrl-C drains: nothing more is given out, requests under way are answered, the log
    is written. A second one stops at once; nothing that was acknowledged is lost either way.
    SIGHUP reads the settings, the certificate and the token file again and says what has changed;
    SIGUSR1 writes to stderr where everything stands.
    """
    chosen = choose({"data_dir": data and str(data), **flags})
    log_to_stderr(chosen.values)
    named = chosen.values["server.data_dir"]
    _run(folder_of(Path(named) if named else None), chosen)


def _run(path: Path, chosen: Chosen) -> None:
    door, address = bind(chosen.plan.address)
    with door:
        plan = msgspec.structs.replace(chosen.plan, address=address)
        path.mkdir(parents=True, exist_ok=True)
        taken = take_folder(path, term_ms=plan.term_ms)
        state = taken.coordinator.state
        owed, held = owed_line(state), suspended_line(state.suspended)
        _spare_the_collector()

        def ready(here: Ready) -> None:
            say(_welcome(path, here, plan.workers, owed, held))

        uvloop.run(serve_folder(taken, door, plan, ready, again=Reloading(chosen)))
    say("holdfast: drained; everything is written")


def _spare_the_collector() -> None:
    """What was replayed stays, and what requests leave behind is mostly freed by itself: looking
    for rings among it all a thousand times a second finds nothing."""
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)


def _welcome(path: Path, here: Ready, workers: int, owed: str, held: str) -> str:
    """Where it listens, what is owed from before, whether the log works, where the token is, and
    what to type next."""
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
    resumed = f"; {owed}" if owed else ""
    lines = [f"serving  {path} at {here.url}{resumed}", told]
    if held:
        lines.append(f"held     the log is {held}")
    if not workers:
        lines.append(f"next     holdfast worker start {options}")
    lines.append("then     holdfast submit -- echo hello")
    return "\n".join(lines)
