"""Requests that nobody in their senses makes: the server answers each and stays as it is."""

import json
import re

import msgspec
import pytest

from holdfast.api.routes import TABLE
from holdfast.core.invariants import check
from holdfast.wire.bodies import Submit

REQUESTS = 1_500
LEFT = 499

ODD_TEXT = (
    "", "1", "0", "last", "../../etc/passwd", "\x00", "a" * 5_000, "é☃", "-1", "1e9", "true",
    "9" * 400, "%", "%zz", "2026-01-01T00:00:00Z", "5m", "512Mi", "\\ud800", "default", "w1",
    "m:f", "AA==", "hf_a_b", "99999d", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "command",
)  # fmt: skip
ODD_NUMBERS = (0, 1, -1, 2, 3, 255, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 1.5)


def odd(dice, depth: int = 0):
    """Any JSON value, mostly a small one."""
    kind = dice.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return dice.choice(ODD_TEXT)
    if kind == 1:
        return dice.choice(ODD_NUMBERS)
    if kind == 2:
        return dice.choice((None, True, False, 1e308, -0.0))
    if kind in (3, 4):
        return dice.choice(("1", "AA==", "true", 1, 0))
    if kind == 5:
        return [odd(dice, depth + 1) for _ in range(dice.randrange(4))]
    return {dice.choice(ODD_TEXT)[:50]: odd(dice, depth + 1) for _ in range(dice.randrange(3))}


def meant(dice, annotation, depth: int = 0):
    """A value that might be taken for one of this type."""
    if dice.random() < 0.15 or depth > 4:
        return odd(dice, depth)
    told = str(annotation)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return fields(dice, annotation, depth)
    inner = getattr(annotation, "__args__", ())
    if told.startswith(("list", "tuple")):
        return [meant(dice, inner[0], depth + 1) for _ in range(dice.randrange(3))]
    if told.startswith("dict"):
        return {
            dice.choice(("a", "b", "")): dice.choice(ODD_TEXT) for _ in range(dice.randrange(3))
        }
    if inner:
        return meant(dice, dice.choice(inner), depth + 1)
    if annotation is int or "Id" in told or "Index" in told:
        return dice.choice(ODD_NUMBERS[:8]) if "JobId" not in told else dice.choice(("1", "2", "9"))
    if annotation is float:
        return dice.choice((0.0, 1.0, -1.0, 1e300))
    if annotation is bool:
        return dice.random() < 0.5
    return dice.choice(ODD_TEXT)


def fields(dice, kind, depth: int = 0) -> dict[str, object]:
    known = msgspec.structs.fields(kind)
    return {
        field.name: meant(dice, field.type, depth + 1)
        for field in known
        if field.required or dice.random() < 0.2
    }


def nearly_right(dice) -> dict[str, object]:
    """A job that could be, but for one field or two."""
    base = dice.choice(
        (
            {"command": {"argv": ["true"]}},
            {"kind": "function", "target": "m:f", "items": ["AA=="]},
            {"kind": "array", "target": "m:f", "count": 3},
        )
    )
    known = msgspec.structs.fields(Submit)
    strange = dice.sample(known, dice.randrange(3))
    return {**base, **{field.name: meant(dice, field.type) for field in strange}}


def target(dice, path: str) -> str:
    def value(match: "re.Match[str]") -> str:
        return dice.choice(("1", "1", "2", "0", "w1", "default", "%00", "%2F", "9" * 30, "x" * 300))

    spelled = re.sub(r"\{\w+\}", value, path)
    if dice.random() < 0.5:
        return spelled
    names = ("limit", "cursor", "state", "name", "label", "since", "indices", "wait", "verbose")
    chosen = dice.choice(("", "1", "0-5", "x", "-1", "9" * 30, "1ms", "a=b", "%ff", "killed", "0-"))
    return f"{spelled}?{dice.choice(names)}={chosen}"


@pytest.mark.slow
def test_no_request_whatever_breaks_the_server(inside, dice):
    async def story(house):
        # Nobody is kept waiting: parked exchanges are let go at once.
        house.service.leaving.set()
        await house.submit(3)
        await house.post("/jobs", {"kind": "function", "target": "m:f", "sealed": False})
        spare = house.admin
        for number in range(REQUESTS):
            route = dice.choice(TABLE)
            body = None
            if route.body is not None:
                told = fields(dice, route.body) if dice.random() < 0.9 else odd(dice)
                if route.body is Submit:
                    told = nearly_right(dice)
                body = json.dumps(told).encode()
                if dice.random() < 0.1:
                    body = body[: dice.randrange(len(body) + 1)]
            key = {"idempotency_key": str(dice.randrange(50))} if dice.random() < 0.3 else {}
            where = target(dice, route.path)
            if route.path.startswith("/tokens/"):
                continue
            answer = await house.ask(route.method, where, body, leave=True, token=spare, **key)
            asked = (number, route.method, where, body)
            assert answer.status < 500 or answer.code in ("not_ready", "queue_full"), (
                asked, answer.content,
            )  # fmt: skip
            # One who has left is told nothing.
            if answer.status >= 400 and answer.status != LEFT:
                assert answer.code
        assert house.served.coordinator.failure is None
        assert list(check(house.served.coordinator.state)) == []
        assert (await house.get("/jobs/1")).status == 200

    inside(story)
    inside(lambda house: house.get("/jobs"))
