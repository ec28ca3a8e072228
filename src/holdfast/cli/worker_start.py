"""`holdfast worker start`: a worker for a server, on this machine or any other."""

import os
import secrets
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from hashlib import blake2s
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click
import platformdirs
import uvloop
from msgspec import Struct

from holdfast.cli.asking import find_server
from holdfast.cli.config import load_config
from holdfast.cli.errors import IN_USE, REFUSED, USAGE, Trouble, say
from holdfast.cli.options import server_options
from holdfast.cli.worker_signals import Told
from holdfast.core.decide.wishes import placing_problem
from holdfast.core.ids import WorkerId
from holdfast.core.placing import Placing
from holdfast.version import VERSION
from holdfast.wire.amounts import duration_ms, size_bytes
from holdfast.wire.delivery import WORKERS
from holdfast.wire.exchange import Capacity, Exchange, Hello, Reply
from holdfast.wire.http import Http
from holdfast.wire.http_async import AsyncHttp, Rejected, Server, Unreachable
from holdfast.wire.wishes import milli
from holdfast.worker.agent import Agent
from holdfast.worker.attendant import Attendant
from holdfast.worker.bundles import BundleCache, fetch_over
from holdfast.worker.cgroups import delegated, how_memory_is_capped
from holdfast.worker.commands import CommandExecutor
from holdfast.worker.delivering_process import ProcessDeliverer
from holdfast.worker.leftovers import Leftovers
from holdfast.worker.mixed import MixedExecutor
from holdfast.worker.naming import NameLock, NameTaken
from holdfast.worker.parcels import Parcels
from holdfast.worker.places import own_place
from holdfast.worker.ports import own_address
from holdfast.worker.printed import Printed
from holdfast.worker.processes import ProcessExecutor
from holdfast.worker.remote import Remote, Terms
from holdfast.worker.results import Place, Spool
from holdfast.worker.sampling import Meter
from holdfast.worker.servicebook import ServiceBook
from holdfast.worker.services import ServiceExecutor
from holdfast.worker.staging import Bench
from holdfast.worker.stowing import StowedExecutor
from holdfast.worker.supplied import SuppliedExecutor
from holdfast.worker.surroundings import SECRET_VARIABLE, Surroundings

UNREACHABLE: Final = IN_USE
UNAUTHENTICATED: Final = 6
EXCHANGE: Final = "/api/v1/exchange"
REPORT_BYTES_MAX: Final = 8 * 1024 * 1024
TOKEN_VARIABLE: Final = "HOLDFAST_TOKEN"  # noqa: S105 - where one is found, not one itself
NAME_MAX: Final = 200
SLOTS_MAX: Final = 4_096
SPARE_SLOTS: Final = 32
"""Beside one for each processor. What asks for processors is bounded by those; a slot is a place,
and services, which ask for none as a rule, keep theirs for as long as they run."""
CPUS_MAX: Final = 1_000_000


@click.command()
@server_options
@click.option("--ca-file", metavar="FILE", help="Whom to trust beside the system, for https.")
@click.option("--name", metavar="NAME",
              help="What the worker is called. [default: the host and a few letters]")
@click.option("--slots", type=click.IntRange(0, SLOTS_MAX), metavar="N",
              help="How many tasks run at once, whatever they ask for. [default: one a processor, "
              f"and {SPARE_SLOTS} more for services and whatever asks for less than one]")
@click.option("--cpus", type=click.FloatRange(0), metavar="N",
              help="Processors to give out. [default: all]")
@click.option("--memory", metavar="SIZE",
              help="Memory to give out, such as 4Gi. [default: all]")
@click.option("--gpus", type=click.IntRange(0), metavar="N", help="GPUs to give out. [default: 0]")
@click.option("--resource", "resources", multiple=True, metavar="NAME=N",
              help="Some of a resource that tasks ask for by name. May be repeated.")
@click.option("--attr", "attributes", multiple=True, metavar="KEY=VALUE",
              help="Something to know about this worker. May be repeated.")
@click.option("--pickle", is_flag=True, default=None,
              help="Run pickled functions too: whoever may submit then runs any code here.")
@click.option("--pass-env", multiple=True, metavar="NAME",
              help="A variable that commands get from this environment. May be repeated.")
@click.option("--secrets", metavar="DIR",
              help="A folder of files: what a command names `secret:NAME` is in the file NAME.")
@click.option("--scratch", metavar="DIR", help="Where commands work. [default: your state folder]")
@click.option("--output", "outputs", multiple=True, metavar="DIR",
              help="A folder that functions may stage files into. May be repeated. "
              "[default: any]")
@click.option("--cgroup", metavar="DIR",
              help="A control group (v2) for commands. [default: its own, if delegated]")
@click.option("--bundles", metavar="DIR",
              help="Where bundles are unpacked; workers of a machine may share it. "
              "[default: your cache folder]")
@click.option("--bundles-size", metavar="SIZE",
              help="How much of them is kept; what was used longest ago goes first. "
              "[default: 4Gi]")
@click.option("--advertise", metavar="HOST",
              help="Where others reach the services that run here. "
              "[default: the address that the server sees]")
@click.option("--drain-timeout", metavar="DURATION",
              help="How long what runs may take when the worker is asked to end. [default: 30s]")
@click.option("--exit-when-drained", is_flag=True, default=None,
              help="End when an operator has drained this worker and what ran has ended.")
@click.option("--connect-timeout", metavar="DURATION",
              help="How long the server may be away at the start; later it may be away for ever. "
              "[default: 10s]")  # fmt: skip
def start(**flags: Any) -> int:
    """Work for a server until told to stop.

    SIGTERM or Ctrl-C takes no more work, waits for what runs, gives back the rest without charge
    and exits 0; a second one does not wait. What no option names comes from HOLDFAST_WORKER__NAME
    and its like, else from a settings file: `holdfast config show` tells from which.
    """
    try:
        plan = _plan(flags, dict(os.environ))
    except ValueError as error:
        raise Trouble(str(error), USAGE) from None
    # What tasks run inherits this environment, and has no use for what opens the server.
    for name in [name for name in os.environ if name.startswith((TOKEN_VARIABLE, SECRET_VARIABLE))]:
        if name != "HOLDFAST_TOKEN_FILE":
            del os.environ[name]
    if os.getcwd() not in sys.path:
        # Functions are found as a program started here would find them.
        sys.path.insert(0, os.getcwd())
    try:
        lock = NameLock(_runtime_folder() / f"{plan.place}.lock")
    except NameTaken as error:
        raise Trouble(
            f"a worker called {plan.name} already works for {plan.server.url} on this machine: "
            f"{error}. Stop it, or give this one another --name.",
            IN_USE,
        ) from None
    try:
        return uvloop.run(_work(plan, lock))
    finally:
        lock.close()


class Plan(Struct, frozen=True, kw_only=True):
    """A worker as it was asked for."""

    server: Server
    name: WorkerId
    capacity: Capacity
    attributes: tuple[tuple[str, str], ...]
    environment: dict[str, str]
    pass_on: tuple[str, ...]
    secret_files: Path | None
    scratch: Path
    staged: Path
    outputs: tuple[str, ...]
    bundles: Path
    bundles_bytes: int
    cgroup: Path | None
    pickle: bool
    advertise: str
    terms: Terms

    @property
    def place(self) -> str:
        """A file name for this worker of this server: two servers may use the same names."""
        return _place(self.name, self.server.url)


def _plan(flags: dict[str, Any], environment: dict[str, str]) -> Plan:
    config = load_config(environment)
    asked = find_server(flags["server"], flags["token_file"], environment)
    server = Server(
        url=asked.url.value,
        token=asked.token.value,
        ca_file=config.get("client.ca_file", flags["ca_file"]),
    )
    told = config.section("worker", flags)
    name = told["name"] or f"{socket.gethostname()}-{secrets.token_hex(3)}"
    if len(name) > NAME_MAX or not name.isprintable():
        raise ValueError(f"a worker cannot be called {name[:40]!r}")
    capacity = _capacity(told)
    state = Path(platformdirs.user_state_dir("holdfast")) / "workers"
    cache = Path(platformdirs.user_cache_dir("holdfast")) / "bundles"
    scratch = Path(told["scratch"] or state).absolute()
    return Plan(
        server=server,
        name=WorkerId(name),
        capacity=capacity,
        attributes=_attributes(told["attributes"]),
        environment=environment,
        pass_on=tuple(told["pass_env"]),
        secret_files=_secret_files(told["secrets"]),
        scratch=scratch / _place(name, server.url),
        # Of all workers here: whoever is there collects what any of them has left.
        staged=scratch / "staged",
        outputs=tuple(_outputs(told["outputs"])),
        bundles=Path(told["bundles"] or cache),
        bundles_bytes=size_bytes(told["bundles_size"], "--bundles-size"),
        cgroup=Path(told["cgroup"]) if told["cgroup"] else None,
        pickle=told["pickle"],
        advertise=told["advertise"] or own_address(server.url),
        terms=Terms(
            greeting=f"connected to {server.url}, with room for {capacity.slots} at once",
            drain_ms=duration_ms(told["drain_timeout"], "--drain-timeout"),
            exit_when_drained=told["exit_when_drained"],
            first_contact_s=duration_ms(told["connect_timeout"], "--connect-timeout") / 1_000,
        ),
    )


def _capacity(told: dict[str, Any]) -> Capacity:
    """What is given out, checked again: a file or a variable may say anything."""
    cpus = told["cpus"] if told["cpus"] is not None else float(os.cpu_count() or 1)
    if not 0 <= cpus <= CPUS_MAX:
        raise ValueError(f"--cpus {cpus:g} is not a number of processors")
    if not 0 <= told["slots"] <= SLOTS_MAX:
        raise ValueError(f"--slots {told['slots']} must be from 0 to {SLOTS_MAX}")
    if told["gpus"] < 0:
        raise ValueError(f"--gpus {told['gpus']} must be at least 0")
    memory = size_bytes(told["memory"], "--memory") if told["memory"] else _memory_bytes()
    slots = told["slots"] or max(1, int(cpus)) + SPARE_SLOTS
    resources = _resources(told["resources"])
    return Capacity(slots, round(cpus * 1_000), memory, told["gpus"], resources)


def _outputs(told: tuple[str, ...]) -> Iterator[str]:
    for folder in told:
        if not Path(folder).is_dir():
            raise ValueError(f"--output {folder}: there is no such folder")
        yield str(Path(folder).absolute())


def _secret_files(told: str) -> Path | None:
    if told and not Path(told).is_dir():
        raise ValueError(f"--secrets {told}: there is no such folder")
    return Path(told) if told else None


def _resources(told: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    for name, value in _attributes(told, "--resource"):
        try:
            found.append((name, milli(float(value), name)))
        except ValueError as error:
            raise ValueError(f"--resource {name}={value} is no amount: {error}") from None
    problem = placing_problem(Placing(resources=tuple(found)))
    if problem:
        raise ValueError(f"--resource: {problem}")
    return tuple(found)


def _attributes(told: tuple[str, ...], option: str = "--attr") -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for entry in told:
        key, equals, value = entry.partition("=")
        if not equals or not key:
            raise ValueError(f"{option} {entry} is not KEY=VALUE.")
        if key in found:
            raise ValueError(f"{option} {key} is given twice.")
        found[key] = value
    return tuple(sorted(found.items()))


def _place(name: str, url: str) -> str:
    digest = blake2s(f"{name} {url}".encode(), digest_size=6).hexdigest()
    return f"{quote(name, safe='')[:80]}-{digest}"


def _runtime_folder() -> Path:
    with warnings.catch_warnings():
        # A machine without sessions has no such folder; another place is found then.
        warnings.simplefilter("ignore")
        return Path(platformdirs.user_runtime_dir("holdfast")) / "workers"


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Waker:
    """Executors exist before the worker they wake."""

    def __init__(self) -> None:
        self.wake: Callable[[], None] = lambda: None

    def __call__(self) -> None:
        self.wake()


async def _work(plan: Plan, lock: NameLock) -> int:
    waker = Waker()
    slots = plan.capacity.slots
    incarnation = int(time.time() * 1_000)
    # Before anything is started: what is started later is where this process is then.
    cgroup = plan.cgroup or delegated()
    prints = Printed(plan.server, plan.name, incarnation, plan.scratch / "prints", slots)
    spooled = plan.scratch / "results"
    fetching = Http(plan.server)
    cache = BundleCache(plan.bundles, fetch_over(fetching), bound_bytes=plan.bundles_bytes)
    attendant = Attendant(book := ServiceBook(), waker, monotonic_ms, Meter())
    commands = CommandExecutor(
        slots, waker, monotonic_ms, _surroundings(plan, cache.root), lock=lock.descriptor,
        outlet=prints.outbox, cgroup=cgroup, companion=attendant,
    )  # fmt: skip
    functions = ProcessExecutor(
        slots, waker, monotonic_ms, dooms=False, guardian=commands, prints=prints.of_lanes,
        bundles=str(cache.root), worker=plan.name, results=Place(str(spooled), is_spool=True),
        bench=Bench(str(plan.staged), plan.outputs),
    )  # fmt: skip
    prints.outbox.showing = functions.showing
    services = ServiceExecutor(commands, attendant, book, monotonic_ms, plan.advertise)
    mixed = MixedExecutor(functions, services, pickle=plan.pickle)
    supplied = SuppliedExecutor(mixed, cache, waker)
    executor = StowedExecutor(supplied, Spool(spooled), fetching, waker)
    executor.start()
    deliverer = ProcessDeliverer(
        waker, monotonic_ms, own_places=(own_place(),), guardian=commands
    )
    agent = Agent(
        plan.name, incarnation, executor, plan.capacity, hello=_hello(plan, lock, cgroup),
        parcels=Parcels(deliverer, Leftovers(plan.staged)), services=book,
        report_bytes=REPORT_BYTES_MAX,
    )  # fmt: skip
    http = AsyncHttp(plan.server)

    async def carry(exchange: Exchange, answer_s: float) -> Reply:
        return await http.post(EXCHANGE, exchange, Reply, answer_s=answer_s)

    def tell(line: str) -> None:
        say(f"holdfast: worker {plan.name}: {line}")

    carried = executor.carrying(carry)
    remote = Remote(agent, carried, clock_ms=monotonic_ms, tell=tell, terms=plan.terms)
    waker.wake = remote.wake
    told = Told(remote, tell)
    prints.start(lambda: bool(executor.running() or executor.lingering()))
    try:
        is_well = await remote.work()
    except Unreachable as error:
        raise Trouble(str(error), UNREACHABLE) from None
    except Rejected as error:
        raise rejection(error, plan.server.url) from None
    finally:
        await prints.close()
        await http.close()
        fetching.close()
    if not is_well:
        raise Trouble(f"this worker can run nothing: {executor.fatal}", REFUSED)
    return told.exit_code


def _surroundings(plan: Plan, bundles: Path) -> Surroundings:
    return Surroundings(
        plan.scratch, plan.name, environment=plan.environment, pass_on=plan.pass_on,
        secrets=plan.secret_files, bundles=bundles,
    )  # fmt: skip


def _hello(plan: Plan, lock: NameLock, cgroup: Path | None) -> Hello:
    caps = how_memory_is_capped(cgroup)
    host = socket.gethostname()
    return Hello(
        host, os.getpid(), VERSION, "", plan.attributes, lock.identity, caps,
        delivers=(WORKERS,), places=(own_place(),),
    )  # fmt: skip


def rejection(error: Rejected, url: str) -> Trouble:
    status = error.problem.status
    if status in (401, 403):
        return Trouble(
            f"the server at {url} does not take this token: {error}. Name the right one with "
            "--token-file, or ask for one with `holdfast token create`.",
            UNAUTHENTICATED,
        )
    return Trouble(f"what answers at {url} takes no workers: {error}", UNREACHABLE)
