"""What an operator chose about a server, and what may be chosen again while it serves."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from holdfast.api.credentials import Admission
from holdfast.api.limits import Limits
from holdfast.api.listening import Address
from holdfast.coordinator.output import Quota
from holdfast.coordinator.settings import Settings
from holdfast.wire.delivery import SERVER


class Plan(Struct, frozen=True, kw_only=True):
    """A server as it was asked for."""

    address: Address
    token_file: Path
    term_ms: int
    settings: Settings = Settings()
    output: Quota = Quota()
    limits: Limits = Limits()
    workers: int = 0
    tls_cert: str = ""
    tls_key: str = ""
    hosts: tuple[str, ...] = ()
    access_log: bool = False

    @property
    def delivers(self) -> bool:
        """Whether the server itself delivers to any sink."""
        return any(sink.where == SERVER for sink in self.settings.sinks.values())


Adjust = Callable[[Plan], Awaitable[Admission]]
"""Takes up what can be taken up while serving. Raises before anything has changed."""

Again = Callable[[Adjust], Awaitable[None]]
"""Whoever knows where plans come from: asked on SIGHUP for another one."""
