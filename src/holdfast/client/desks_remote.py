"""Whom a program asks about what a server has: bounds, debts, stalls, schedules, reasons."""

from collections.abc import Callable
from typing import Any

from holdfast.client.audit import RemoteAudit
from holdfast.client.effects import RemoteEffects
from holdfast.client.explained import RemoteReasons
from holdfast.client.limits import RemoteLimits
from holdfast.client.operations import RemoteOperations
from holdfast.client.quarantine import RemoteQuarantine
from holdfast.client.runtimes import RemoteRuntimes
from holdfast.client.schedules_remote import RemoteSchedules
from holdfast.client.stalls import RemoteStalls
from holdfast.wire.http import Http


class RemoteDesks:
    """Part of a connection: `asked` has a question answered, or its refusal raised; `post` carries
    a key, so that it may be repeated."""

    def __init__(
        self, http: Http, asked: Callable[[Callable[[], Any]], Any], post: Callable[..., Any]
    ) -> None:
        self.limits = RemoteLimits(http, asked)
        self.effects = RemoteEffects(http, asked, post)
        self.operations = RemoteOperations(http, asked, post)
        self.stalls = RemoteStalls(http, asked, post)
        self.quarantine = RemoteQuarantine(http, asked, post)
        self.audit = RemoteAudit(http, asked, post)
        self.reasons = RemoteReasons(http, asked)
        self.runtimes = RemoteRuntimes(http, asked, post)
        self.schedules = RemoteSchedules(http, asked, post)
