"""A server that serves, changed without a pause: limits, quotas, names, certificate, token file."""

import asyncio
import ssl
from logging import getLogger

import uvicorn
from msgspec import structs

from holdfast.api.app import Api
from holdfast.api.credentials import (
    LOCAL_FILE,
    Admission,
    admit,
    admit_workers,
    write_address,
)  # fmt: skip
from holdfast.api.crew import Crew
from holdfast.api.limits import Door
from holdfast.api.listening import CannotListen
from holdfast.api.plan import Again, Plan
from holdfast.api.service import Service

log = getLogger("holdfast")


def door_of(plan: Plan) -> Door:
    return Door(plan.hosts, any_host=not plan.address.is_local and not plan.hosts)


class Adjuster:
    """Where the parts are whose limits may change."""

    def __init__(
        self, service: Service, api: Api, config: uvicorn.Config, plan: Plan, crew: Crew
    ) -> None:
        self._crew = crew
        self._service = service
        self._api = api
        self._config = config
        self._plan = plan
        self._turn = asyncio.Lock()
        self._under_way: set[asyncio.Task[None]] = set()

    def soon(self, again: Again) -> None:
        """Another plan is asked for, after any that is being taken up."""
        task = asyncio.ensure_future(self._take_turn(again))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _take_turn(self, again: Again) -> None:
        async with self._turn:
            try:
                await again(self.adjust)
            except Exception:
                # A server does not end because its settings could not be read.
                log.exception("settings could not be taken up, and that is a bug of ours")

    async def adjust(self, plan: Plan) -> Admission:
        """Take up what can be. Where a file is bad nothing has changed yet."""
        plan = structs.replace(plan, address=self._plan.address)
        if plan.tls_cert:
            check_certificate(plan)
        served = self._service.served
        admission = await admit(served, plan.token_file)
        if plan.token_file != self._plan.token_file:
            write_address(plan.token_file, plan.address.url(tls=bool(plan.tls_cert), near=True))
        if self._config.ssl is not None:
            # Whoever connects from now on is shown it.
            self._config.ssl.load_cert_chain(plan.tls_cert, plan.tls_key)
        self._service.limits = plan.limits
        self._api.limit(door_of(plan), plan.limits.per_second)
        served.adjust(plan.settings)
        if plan.delivers:
            await admit_workers(served, served.log.path / LOCAL_FILE)
        self._crew.deliver(is_wanted=plan.delivers)
        await self._service.output.limit(plan.output)
        self._plan = plan
        return admission


def check_certificate(plan: Plan) -> None:
    """The files hold a certificate and its key, or `CannotListen`."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(plan.tls_cert, plan.tls_key)
    except OSError as error:
        told = f"{plan.tls_cert} and {plan.tls_key} are no certificate with its key: {error}"
        raise CannotListen(told) from error
