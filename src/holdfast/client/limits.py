"""Limits, as a program looks at them and sets them."""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from holdfast.wire.bodies import NewLimit
from holdfast.wire.http import Http

LIMITS: Final = "/api/v1/limits"


class Limit(Struct, frozen=True, kw_only=True):
    """How much a namespace, a user or a key may have running at once, how much of each resource
    its tasks may take together, and how many may start in a while (`10/1m`); None: not bounded.
    `weight` is a namespace's part in fair shares."""

    scope: str
    name: str
    running: int | None = None
    rate: str | None = None
    weight: int | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    gpus: int | None = None
    resources: dict[str, float] = {}


class LimitsShown(Struct):
    limits: list[Limit]


class Cleared(Struct):
    cleared: bool


def named(target: str) -> tuple[str, str]:
    """The scope and the name in `namespace/team`, `user/ann` or `key/customer-42`."""
    scope, slash, name = target.partition("/")
    if not slash or not scope or not name:
        raise ValueError(f"{target!r} names no limit; write namespace/NAME, user/NAME or key/NAME")
    return scope, name


class RemoteLimits:
    """Limits of a server. `asked` has a question answered, or its refusal raised."""

    def __init__(self, http: Http, asked: Callable[[Callable[[], Any]], Any]) -> None:
        self._http = http
        self._asked = asked

    def all(self) -> list[Limit]:
        shown: LimitsShown = self._asked(lambda: self._http.get(LIMITS, LimitsShown))
        return shown.limits

    def set(self, scope: str, name: str, body: NewLimit) -> None:
        self._asked(lambda: self._http.patch(_path(scope, name), body, dict))

    def clear(self, scope: str, name: str) -> bool:
        told: Cleared = self._asked(lambda: self._http.delete(_path(scope, name), Cleared))
        return told.cleared


def _path(scope: str, name: str) -> str:
    return f"{LIMITS}/{quote(scope, safe='')}/{quote(name, safe='')}"
