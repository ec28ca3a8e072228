"""Schedules of a server."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec

from holdfast.client.backend import View
from holdfast.client.errors import Refused
from holdfast.core.schedule import Definition
from holdfast.wire.bodies import Reason
from holdfast.wire.http import Http
from holdfast.wire.schedules import NewSchedule, Range, Timetable
from holdfast.wire.specs import body_of

Asked = Callable[[Callable[[], Any]], Any]

API = "/api/v1"


class RemoteSchedules:
    """Those of a server. `post` carries a key, so that it may be repeated; `asked` raises what
    the server says no to."""

    def __init__(self, http: Http, asked: Asked, post: Callable[..., Any]) -> None:
        self._http = http
        self._asked = asked
        self._post = post

    def set(self, name: str, definition: Definition, *, start: int, replace: bool) -> None:
        timing = definition.timing
        job = body_of(definition.spec)
        job.items = list(definition.items)
        job.count = 0 if definition.items else definition.count
        job.shared = definition.shared
        body = Timetable(
            job=job,
            cron=timing.cron,
            every=f"{timing.every_ms}ms" if timing.every_ms else "",
            zone=timing.zone,
            missed=definition.missed,
            overlap=definition.overlap,
            start=_instant(start) if start else "",
        )
        if replace:
            self._asked(lambda: self._http.put(_path(name), body, dict))
        else:
            fields = {field: getattr(body, field) for field in body.__struct_fields__}
            self._post("/schedules", NewSchedule(name=name, **fields), dict)

    def show(self, name: str) -> View:
        return self._get(_path(name))

    def known(self) -> list[View]:
        found: list[View] = self._get(f"{API}/schedules")["schedules"]
        return found

    def coming(self, name: str, count: int) -> list[str]:
        found: list[str] = self._get(f"{_path(name)}/next", count=count)["coming"]
        return found

    def pause(self, name: str, reason: str) -> None:
        self._post(f"{_tail(name)}/pause", Reason(reason=reason), dict)

    def resume(self, name: str) -> None:
        self._post(f"{_tail(name)}/resume", Reason(), dict)

    def run(self, name: str) -> str:
        return str(self._post(f"{_tail(name)}/run", Reason(), dict)["job_id"])

    def backfill(self, name: str, first: int, last: int) -> list[str]:
        body = Range(first=_instant(first), last=_instant(last) if last else "")
        return msgspec.convert(
            self._post(f"{_tail(name)}/backfill", body, dict)["job_ids"], list[str]
        )

    def delete(self, name: str) -> None:
        self._asked(lambda: self._http.delete(_path(name), dict))

    def _get(self, path: str, **query: Any) -> View:
        found: View = self._asked(lambda: self._http.get(path, dict, **query))
        return found


def _tail(name: str) -> str:
    if not name:
        raise Refused("not_found", "there is no schedule without a name")
    return f"/schedules/{quote(name, safe='')}"


def _path(name: str) -> str:
    return API + _tail(name)


def _instant(wall_ms: int) -> str:
    try:
        return datetime.fromtimestamp(wall_ms / 1_000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):
        raise Refused("invalid", "that instant is beyond the calendar") from None
