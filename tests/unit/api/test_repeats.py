"""A request that comes again: one effect, one answer, also after a restart."""

import asyncio

import pytest

from holdfast.api import repeats as repeats_module
from holdfast.api.problems import Declined
from holdfast.api.repeats import KEEP_S, Repeats

COMMAND = {"command": {"argv": ["true"]}}


def test_the_same_request_is_answered_the_same_and_done_once(inside):
    async def story(house):
        first = await house.post("/jobs", COMMAND, idempotency_key="k")
        again = await house.post("/jobs", COMMAND, idempotency_key="k")
        assert (again.status, again.value) == (first.status, first.value) == (201, first.value)
        assert len((await house.get("/jobs")).value["jobs"]) == 1

    inside(story)


def test_a_repeat_while_the_first_is_being_written_waits_for_the_same_answer(inside):
    async def story(house):
        asks = [house.post("/jobs", COMMAND, idempotency_key="k") for _ in range(20)]
        told = await asyncio.gather(*asks)
        assert {(each.status, each.content) for each in told} == {(201, told[0].content)}
        assert len((await house.get("/jobs")).value["jobs"]) == 1

    inside(story)


def test_a_key_with_another_request_is_refused_here_and_after_a_restart(inside):
    async def first(house):
        await house.post("/jobs", COMMAND, idempotency_key="k", token=await shared(house))
        for path, body in (("/jobs", {**COMMAND, "count": 2}), ("/jobs/1/cancel", {})):
            told = await house.post(path, body, idempotency_key="k", token=tokens[0])
            assert (told.status, told.code) == (422, "key_reused")

    async def later(house):
        told = await house.post(
            "/jobs", {**COMMAND, "count": 2}, idempotency_key="k", token=tokens[0]
        )
        assert (told.status, told.code) == (422, "key_reused")

    tokens: list[str] = []

    async def shared(house) -> str:
        tokens.append(await house.token("admin"))
        return tokens[0]

    inside(first)
    inside(later)


def test_keys_belong_to_whoever_asks(inside):
    async def story(house):
        other = await house.token("submit")
        first = await house.post("/jobs", COMMAND, idempotency_key="k")
        second = await house.post("/jobs", COMMAND, idempotency_key="k", token=other)
        assert {first.value["id"], second.value["id"]} == {"1", "2"}

    inside(story)


REPEATABLE = [
    ("/jobs", COMMAND),
    ("/jobs/1/retry", {}),
    ("/jobs/2/items", {"first": 0, "items": ["AA=="]}),
    ("/jobs/2/seal", {"count": 1}),
    ("/tasks/3/1/cancel", {}),
    ("/jobs/3/cancel", {"reason": "enough"}),
    ("/tasks/4/0/reschedule", {"delay": "1h"}),
    ("/workers/w1/cordon", {"reason": "hot"}),
    ("/workers/w1/uncordon", {}),
    ("/queues/default/pause", {}),
    ("/queues/default/resume", {}),
]


def test_every_change_is_answered_the_same_after_a_restart(inside):
    """The server was killed before the answer arrived; the asker comes back with the same key."""
    answers: dict[str, object] = {}
    tokens: list[str] = []

    async def before(house):
        tokens.append(await house.token("admin"))
        await fail_both(house, await house.submit(2))
        open_job = {"kind": "function", "target": "m:f", "sealed": False, "key": "lazy"}
        assert (await house.post("/jobs", open_job)).status == 201
        await house.submit(3)
        await house.submit()
        for number, (path, body) in enumerate(REPEATABLE):
            told = await house.post(path, body, idempotency_key=f"k{number}", token=tokens[0])
            assert told.status in (200, 201), (path, told.content)
            answers[path] = (told.status, stable(told.value))

    async def after(house):
        position = house.served.coordinator.state.position
        for number, (path, body) in enumerate(REPEATABLE):
            told = await house.post(path, body, idempotency_key=f"k{number}", token=tokens[0])
            assert (told.status, stable(told.value)) == answers[path], path
        assert house.served.coordinator.state.position == position

    inside(before)
    inside(after)


def stable(value):
    """A job is shown as it is now: what identifies it stays."""
    return value["id"] if "counts" in value else value


async def fail_both(house, job_id: str) -> None:
    """Play a worker on whom both tasks of a job fail for good."""
    started, failed = [], []
    for run in (await house.exchange(1)).value["runs"]:
        for item in run["items"]:
            where = {"job_id": job_id, "index": item["index"], "lease_id": item["lease_id"]}
            ended = {"reason": "failed", "error": "no", "traceback": "", "exit_code": 1}
            started.append({**where, "ran_ms": 0})
            failed.append({**where, "ran_ms": 1, **ended})
    await house.exchange(2, started=started, failed=failed)
    assert (await house.get(f"/jobs/{job_id}")).value["counts"]["QUARANTINED"] == 2


def test_a_token_is_told_once(inside):
    body = {"name": "ci", "scopes": ["submit"]}
    tokens: list[str] = []

    async def before(house):
        tokens.append(await house.token("admin"))
        told = await house.post("/tokens", body, idempotency_key="k", token=tokens[0])
        again = await house.post("/tokens", body, idempotency_key="k", token=tokens[0])
        assert (told.status, told.value) == (201, again.value)

    async def after(house):
        told = await house.post("/tokens", body, idempotency_key="k", token=tokens[0])
        assert (told.status, told.code) == (409, "conflict")

    inside(before)
    inside(after)


def test_a_key_has_a_bounded_length(inside):
    async def story(house):
        told = await house.post("/jobs", COMMAND, idempotency_key="k" * 201)
        assert told.code == "invalid"

    inside(story)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_answers_are_forgotten_by_age_and_by_number(monkeypatch):
    monkeypatch.setattr(repeats_module, "MOST", 10)

    async def story() -> None:
        clock, made = Clock(), []
        repeats = Repeats(clock)

        async def make():
            made.append(1)
            return len(made)

        assert await repeats.answer("k", b"", make) == 1
        assert await repeats.answer("k", b"", make) == 1
        clock.now = KEEP_S + 1
        assert await repeats.answer("k", b"", make) == 2
        for number in range(10):
            await repeats.answer(f"k{number}", b"", make)
        assert await repeats.answer("k", b"", make) == 13

    asyncio.run(story())


@pytest.mark.parametrize(("code", "lasts"), [("conflict", True), ("not_ready", False)])
def test_a_trouble_that_may_pass_is_not_remembered(code, lasts):
    async def story() -> None:
        made = []
        repeats = Repeats(Clock())

        async def make():
            made.append(1)
            raise Declined(code, "no")

        for _ in range(3):
            with pytest.raises(Declined):
                await repeats.answer("k", b"", make)
        assert len(made) == (1 if lasts else 3)

    asyncio.run(story())


def test_an_asker_who_gives_up_does_not_take_the_answer_from_the_others():
    async def story() -> None:
        begun, go = asyncio.Event(), asyncio.Event()
        repeats = Repeats(Clock())

        async def make():
            begun.set()
            await go.wait()
            return "answer"

        first = asyncio.ensure_future(repeats.answer("k", b"", make))
        await begun.wait()
        second = asyncio.ensure_future(repeats.answer("k", b"", make))
        first.cancel()
        go.set()
        assert await second == "answer"

    asyncio.run(story())
