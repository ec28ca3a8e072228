"""A served folder from the first request to the last: listen, drain, leave nothing half done."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, Final

import uvicorn
from msgspec import Struct

from holdfast.api import logs
from holdfast.api.adjusting import Adjuster, check_certificate, door_of
from holdfast.api.app import Api
from holdfast.api.credentials import (
    LOCAL_FILE,
    Admission,
    admit,
    admit_workers,
    write_address,
)  # fmt: skip
from holdfast.api.crew import Crew
from holdfast.api.listening import CannotListen
from holdfast.api.manager import READY, STOPPING, show_life, tell_manager
from holdfast.api.plan import Adjust, Again, Plan
from holdfast.api.protocol import Talk
from holdfast.api.service import Service
from holdfast.api.signals import Stop, dump, obeyed
from holdfast.coordinator.ports import Faults
from holdfast.coordinator.serving import Served
from holdfast.coordinator.taking import Taken
from holdfast.core.errors import LogFailed

DRAIN_S: Final = 30
KEEP_ALIVE_S: Final = 75
TICK_S: Final = 1.0


class Ready(Struct, frozen=True):
    """A server that takes requests: where, and with which token."""

    url: str
    admission: Admission


class _Web(uvicorn.Server):
    """The web server on our loop. Signals are ours, and it says when it listens. It looks at the
    clock once a second, and at nothing else until it is told to end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._ending = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._ending.wait()

    def end(self) -> None:
        self.should_exit = True
        self._ending.set()


async def serve(
    taken: Taken,
    door: socket.socket,
    plan: Plan,
    ready: Callable[[Ready], None],
    faults: Faults | None = None,
    again: Again | None = None,
) -> None:
    """Serve until a signal ends it. `LogFailed` where the log did. `again` is asked for another
    plan on SIGHUP; without it one that cannot be changed was meant."""
    served = Served(taken, plan.settings, term_ms=plan.term_ms, faults=faults)
    served.engine.start()
    service = Service(served, plan.output, plan.limits)
    living = asyncio.ensure_future(show_life())
    sweeping = asyncio.ensure_future(logs.keep_tidy(service))
    try:
        admission = await admit(served, plan.token_file)
        url = plan.address.url(tls=bool(plan.tls_cert), near=True)
        crew = await _crew(served, plan, url)
        api = Api(service, door=door_of(plan), per_second=plan.limits.per_second)
        web = _Web(_config(api, plan))
        adjuster = Adjuster(service, api, web.config, plan, crew)
        reload = partial(adjuster.soon, again or _leave_as_is)
        with obeyed(crew.kill, reload, partial(dump, served)) as stop:
            async with _listening(web, door):
                write_address(plan.token_file, url)
                crew.start()
                tell_manager(READY)
                ready(Ready(url, admission))
                await _until_over(served, stop)
                tell_manager(STOPPING)
                service.leave()
                web.force_exit = served.coordinator.failure is not None
                await crew.stop(0 if web.force_exit else DRAIN_S)
    finally:
        failure = served.coordinator.failure
        sweeping.cancel()
        await service.output.close()
        await served.close()
        living.cancel()
    if failure is not None:
        raise LogFailed(
            f"the log in {served.log.path} has failed: {failure}. What was acknowledged is safe; "
            "mend the disk and start again."
        ) from failure


async def _leave_as_is(adjust: Adjust) -> None:
    """Nobody knows of another plan."""


async def _crew(served: Served, plan: Plan, url: str) -> Crew:
    token_file = served.log.path / LOCAL_FILE
    if plan.workers or plan.delivers:
        await admit_workers(served, token_file)
    crew = Crew(served, plan.workers, url=url, token_file=token_file, ca_file=plan.tls_cert)
    crew.deliver(is_wanted=plan.delivers)
    return crew


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
        web.end()
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


def _config(api: Api, plan: Plan) -> uvicorn.Config:
    tls: dict[str, Any] = {}
    if plan.tls_cert:
        check_certificate(plan)
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
    config.load()
    return config
