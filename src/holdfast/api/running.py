"""A served folder from the first request to the last: listen, drain, leave nothing half done."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from logging import getLogger
from pathlib import Path
from typing import Any, Final

import uvicorn
from msgspec import Struct

from holdfast.api import logs
from holdfast.api.app import REQUESTS_PER_SECOND, Api
from holdfast.api.credentials import Admission, admit, admit_workers, write_address
from holdfast.api.crew import Crew
from holdfast.api.limits import Door
from holdfast.api.listening import Address, CannotListen
from holdfast.api.protocol import Talk
from holdfast.api.service import Service
from holdfast.api.signals import Stop, dump, obeyed, tell_manager
from holdfast.coordinator.output import Quota
from holdfast.coordinator.ports import Faults
from holdfast.coordinator.serving import Served
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.taking import Taken
from holdfast.core.errors import LogFailed

log = getLogger("holdfast")

DRAIN_S: Final = 30
KEEP_ALIVE_S: Final = 75
LOCAL_FILE: Final = "worker.token"
"""In the data folder: the token of the workers that are started here."""


class Plan(Struct, frozen=True, kw_only=True):
    """What an operator chose about a server."""

    address: Address
    token_file: Path
    term_ms: int
    settings: Settings = Settings()
    output: Quota = Quota()
    workers: int = 0
    tls_cert: str = ""
    tls_key: str = ""
    hosts: tuple[str, ...] = ()
    per_second: float = REQUESTS_PER_SECOND
    access_log: bool = False


class Ready(Struct, frozen=True):
    """A server that takes requests: where, and with which token."""

    url: str
    admission: Admission


class _Web(uvicorn.Server):
    """The web server on our loop. Signals are ours, and it says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


async def serve(
    taken: Taken,
    door: socket.socket,
    plan: Plan,
    ready: Callable[[Ready], None],
    faults: Faults | None = None,
) -> None:
    """Serve until a signal ends it. `LogFailed` where the log did."""
    served = Served(taken, plan.settings, term_ms=plan.term_ms, faults=faults)
    served.engine.start()
    service = Service(served, plan.output)
    sweeping = asyncio.ensure_future(logs.keep_tidy(service))
    try:
        admission = await admit(served, plan.token_file)
        url = plan.address.url(tls=bool(plan.tls_cert), near=True)
        crew = await _crew(served, plan, url)
        web = _Web(_config(service, plan))
        again = partial(_read_certificate, web, plan)
        with obeyed(crew.kill, again, partial(dump, served)) as stop:
            async with _listening(web, door):
                write_address(plan.token_file, url)
                crew.start()
                tell_manager("READY=1")
                ready(Ready(url, admission))
                await _until_over(served, stop)
                tell_manager("STOPPING=1")
                service.leave()
                web.force_exit = served.coordinator.failure is not None
                await crew.stop(0 if web.force_exit else DRAIN_S)
    finally:
        failure = served.coordinator.failure
        sweeping.cancel()
        await service.output.close()
        await served.close()
    if failure is not None:
        raise LogFailed(
            f"the log in {served.log.path} has failed: {failure}. What was acknowledged is safe; "
            "mend the disk and start again."
        ) from failure


async def _crew(served: Served, plan: Plan, url: str) -> Crew:
    token_file = served.log.path / LOCAL_FILE
    if plan.workers:
        await admit_workers(served, token_file)
    return Crew(served, plan.workers, url=url, token_file=token_file, ca_file=plan.tls_cert)


@asynccontextmanager
async def _listening(web: _Web, door: socket.socket) -> AsyncIterator[None]:
    """Requests are taken inside; on leaving, those under way are finished."""
    running = asyncio.ensure_future(web.serve([door]))
    listening = asyncio.ensure_future(web.listening.wait())
    await asyncio.wait([running, listening], return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        listening.cancel()
        # It never listened; whatever kept it from that is raised here.
        await running
        raise CannotListen("the web server ended before it began")
    try:
        yield
    finally:
        listening.cancel()
        web.should_exit = True
        await running


async def _until_over(served: Served, stop: Stop) -> None:
    waits = [
        asyncio.ensure_future(stop.wanted.wait()),
        asyncio.ensure_future(served.engine.failed.wait()),
    ]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _read_certificate(web: _Web, plan: Plan) -> None:
    """A certificate that was renewed holds for whoever connects from now on."""
    if web.config.ssl is None:
        return
    try:
        web.config.ssl.load_cert_chain(plan.tls_cert, plan.tls_key)
    except OSError as error:
        log.warning("the certificate stays as it was; %s cannot be read: %s", plan.tls_cert, error)


def _config(service: Service, plan: Plan) -> uvicorn.Config:
    api = Api(
        service,
        door=Door(plan.hosts, any_host=not plan.address.is_local and not plan.hosts),
        per_second=plan.per_second,
    )
    tls: dict[str, Any] = {}
    if plan.tls_cert:
        tls = {"ssl_certfile": plan.tls_cert, "ssl_keyfile": plan.tls_key}
    config = uvicorn.Config(
        api.respond,
        interface="asgi3",
        http=Talk,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=plan.access_log,
        proxy_headers=False,
        server_header=False,
        headers=[("x-content-type-options", "nosniff")],
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
        **tls,
    )
    try:
        config.load()
    except OSError as error:
        told = f"{plan.tls_cert} and {plan.tls_key} are no certificate with its key: {error}"
        raise CannotListen(told) from error
    return config
