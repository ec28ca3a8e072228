"""Whatever is sent to whatever route: an answer of our own, soon, and never one from 500 on."""

import json
import re
import tracemalloc
from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast.api.routes import TABLE, Route
from holdfast.testing.mutations import bounded, mutated

COMMAND = {"command": {"argv": ["true"]}, "count": 3}
BODIES: tuple[Any, ...] = (
    {}, COMMAND, {"kind": "function", "target": "m:f", "items": ["AA=="], "sealed": True},
    {"reason": "enough"}, {"first": 0, "items": ["AA=="]}, {"count": 1}, {"delay": "1h"},
    {"name": "ci", "scopes": ["submit"], "ttl": "1h"}, {"ids": ["1/0.0"], "reason": "x"},
    {"running": 1, "rate": "10/1m"}, {"cron": "0 3 * * *", **COMMAND}, {"query": "select 1"},
    {"worker": "w1", "incarnation": 1, "number": 1, "seen": 0, "started": [], "done": [],
     "failed": [], "released": [], "held": [], "occupied": 0, "draining": False,
     "capacity": {"slots": 1, "cpus_milli": 1_000, "memory_bytes": 0, "gpus": 0}},
)  # fmt: skip
VALUES = (
    "1", "0", "default", "namespace", "stdout", "job", "-1", "18446744073709551616", "a" * 64,
    "%00", "..", "%2e%2e%2f", "1%2F0", "\u20ac", "1/0", "", "0" * 64, "ffff" * 16,
)  # fmt: skip
HEADERS: tuple[dict[str, str], ...] = (
    {}, {"content_type": "application/json"}, {"content_type": "application/msgpack"},
    {"content_type": "text/plain"}, {"content_type": ""}, {"accept": "application/msgpack"},
    {"idempotency_key": "k"}, {"idempotency_key": "\x7f"}, {"if_none_match": '"x", W/"y"'},
    {"content_length": "99999999999999"}, {"content_length": "-1"}, {"last_event_id": "nonsense"},
    {"range": "bytes=5-1"}, {"prefer": "handling=strict"},
)  # fmt: skip


def target_of(route: Route, dice: Random) -> str:
    """A path of this route with anything in it, and anything behind it."""
    path = re.sub(r"\{\w+\}", lambda _: dice.choice(VALUES), route.path)
    names = [*route.query, "unknown"]
    pairs = [
        f"{dice.choice(names)}={dice.choice(VALUES)}" for _ in range(dice.choice((0, 0, 1, 3)))
    ]
    query = "&".join(pairs)
    if query and dice.random() < 0.2:
        query = mutated(query.encode(), dice).decode("latin-1")
    return f"{path}?{query}" if query else path


def body_of(dice: Random, headers: dict[str, str]) -> bytes | None:
    if dice.random() < 0.2:
        return None
    value = dice.choice(BODIES)
    is_packed = headers.get("content_type") == "application/msgpack"
    content = msgspec.msgpack.encode(value) if is_packed else json.dumps(value).encode()
    return mutated(content, dice) if dice.random() < 0.8 else content


def fuzz(inside: Any, dice: Random, count: int) -> Counter[int]:
    """So many requests, each to some route; how they were answered."""
    seen: Counter[int] = Counter()

    async def story(house: Any) -> None:
        await house.post("/jobs", COMMAND)
        for number in range(count):
            route = TABLE[number % len(TABLE)]
            headers = dict(dice.choice(HEADERS))
            target, body = target_of(route, dice), body_of(dice, headers)
            told = f"{route.method} {target[:300]!r} {headers} {body!r:.500}"
            with bounded(lambda told=told: told):
                # Whoever asked has left: what would wait for news does not.
                answer = await house.ask(route.method, target, body, leave=True, **headers)
            assert answer.status < 500, (told, answer.content)
            if answer.status >= 400 and answer.status != 499 and route.method != "HEAD":
                problem = answer.value
                assert {"code", "status", "title"} <= set(problem), told
                assert "Traceback" not in answer.content.decode("utf-8", "replace")
            seen[answer.status] += 1

    tracemalloc.start()
    try:
        inside(story, per_second=10**9)
    finally:
        tracemalloc.stop()
    return seen


def test_fuzz_no_request_is_answered_with_a_surprise(inside, dice: Random) -> None:
    seen = fuzz(inside, dice, 120)
    assert len(seen) > 3


@pytest.mark.slow
def test_fuzz_four_thousand_requests_and_no_surprise(inside, dice: Random) -> None:
    assert len(fuzz(inside, dice, 4_000)) > 4


@pytest.mark.soak
def test_fuzz_ten_thousand_requests_and_no_surprise(inside, dice: Random) -> None:
    assert len(fuzz(inside, dice, 10_000)) > 4
