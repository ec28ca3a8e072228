"""Every path of the table, with every method and every token that is not good enough: nothing is
let in, nothing is recorded, and the answer is never anything but 401, 403, 404 or 405."""

import re

import pytest

from holdfast.api.identity import INCLUDED, PUBLIC
from holdfast.api.routes import TABLE, Route
from holdfast.core import commands as c

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
PATHS = sorted({route.path for route in TABLE})
SHUT_OUT = {"": 401, "bad": 401, "expired": 401, "revoked": 401}
STRANGER = "other-worker"
"""A token that belongs to a worker of this name speaks for nobody else."""


def spelled(path: str) -> str:
    return re.sub(r"\{\w+\}", "1", path)


def route_of(path: str, method: str) -> Route | None:
    return next((r for r in TABLE if (r.path, r.method) == (path, method)), None)


def scopes_that_do_not_open(route: Route) -> list[str]:
    """Every single scope that is not enough for this route."""
    wanted = {route.scope, route.also} - {""}
    known = ("submit", "read", "cancel", "worker", "operator")
    return [scope for scope in known if not (INCLUDED.get(scope, {scope}) & wanted)]


async def bad_tokens(house) -> dict[str, str]:
    revoked = await house.token("admin")
    token_id = revoked.split("_")[1]
    await house.served.ask(
        lambda k: k.execute(c.RevokeToken(token_id=token_id), actor="test")
    )
    return {
        "": "",
        "bad": house.admin[:-1] + ("0" if house.admin[-1] != "0" else "1"),
        "expired": await house.token("admin", expires_wall=1),
        "revoked": revoked,
    }


def test_no_token_that_opens_nothing_opens_any_method_of_any_path(inside) -> None:
    asked: list[int] = []

    async def story(house) -> None:
        tokens = await bad_tokens(house)
        before = house.served.coordinator.state.position
        for path in PATHS:
            for method in METHODS:
                route = route_of(path, method)
                for kind, status in SHUT_OUT.items():
                    told = await house.ask(
                        method, spelled(path), token=tokens[kind], leave=True
                    )
                    if route is not None and route.scope == PUBLIC:
                        assert told.status == 200
                    else:
                        assert told.status == status, (method, path, kind)
                    asked.append(told.status)
        assert house.served.coordinator.state.position == before

    inside(story)
    assert len(asked) == len(PATHS) * len(METHODS) * len(SHUT_OUT)


def test_a_good_token_of_another_scope_is_told_no_and_nothing_else(inside) -> None:
    asked: list[int] = []

    async def story(house) -> None:
        scopes = ("submit", "read", "cancel", "worker", "operator")
        tokens = {scope: await house.token(scope) for scope in scopes}
        before = house.served.coordinator.state.position
        for path in PATHS:
            for method in METHODS:
                route = route_of(path, method)
                wrong = scopes if route is None else scopes_that_do_not_open(route)
                for scope in () if route is not None and route.scope == PUBLIC else wrong:
                    told = await house.ask(method, spelled(path), token=tokens[scope], leave=True)
                    expected = 405 if route is None else 403
                    assert told.status == expected, (method, path, scope)
                    asked.append(told.status)
        assert house.served.coordinator.state.position == before

    inside(story)
    assert len(asked) > len(PATHS) * len(METHODS)


@pytest.mark.parametrize("path", ["/nowhere", "/jobs/1/nowhere", "/jobs//tasks", "/..", "/%2e%2e"])
def test_what_is_not_there_is_not_there_with_any_method(inside, path: str) -> None:
    async def story(house) -> None:
        for method in METHODS:
            assert (await house.ask(method, path)).status == 404
            assert (await house.ask(method, path, token="")).status == 401

    inside(story)


WHO = "worker=w1&incarnation=1"
CHUNK = {
    "job_id": "1", "index": 0, "attempt": 1, "lease_id": 1, "stream": "stdout", "offset": 0,
    "content": "",
}  # fmt: skip
NAMED = {
    "POST /exchange": ("/exchange", {
        "worker": "w1", "incarnation": 1, "number": 2, "seen": 1,
        "capacity": {"slots": 1, "cpus_milli": 1_000, "memory_bytes": 0, "gpus": 0},
        "started": [], "done": [], "failed": [], "released": [], "held": [],
        "occupied": 0, "draining": False,
    }),
    "PUT /endpoints/{name}": ("/endpoints/x", {
        "job_id": "1", "index": 0, "lease_id": 1, "worker": "w1", "incarnation": 1,
        "address": "127.0.0.1:1",
    }),
    "DELETE /endpoints/{name}": (f"/endpoints/x?job_id=1&index=0&lease_id=1&{WHO}", None),
    "POST /logs": ("/logs", {"worker": "w1", "incarnation": 1, "chunks": [CHUNK]}),
    "PUT /logs/{job}/{index}/{attempt}/{stream}": (f"/logs/1/0/1/stdout?{WHO}&offset=0", b"x"),
}  # fmt: skip
"""What a worker says under its own name."""
BY_CONTENT = {"PUT /results/{digest}", "HEAD /results/{digest}"}
"""What is named by its digest belongs to nobody until a commit refers to it."""


def test_a_worker_speaks_for_no_other_worker(inside) -> None:
    """The token of another tenant: good, of the right scope, and not for this name."""
    of_workers = {f"{route.method} {route.path}" for route in TABLE if route.scope == "worker"}
    assert of_workers == set(NAMED) | BY_CONTENT

    async def story(house) -> None:
        await house.exchange(1, leave=True)
        token = await house.token("worker", worker=STRANGER)
        before = house.served.coordinator.state.position
        for name, (target, body) in NAMED.items():
            told = await house.ask(name.split()[0], target, body, token=token)
            if name == "POST /logs":
                # Each chunk is answered by itself.
                assert b"forbidden" in told.content
            else:
                assert (told.status, told.code) == (403, "forbidden"), (name, told.content)
        assert house.served.coordinator.state.position == before

    inside(story)
