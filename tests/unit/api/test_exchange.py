"""The exchange over HTTP: arrays and names, parked, repeated and forsaken."""

import asyncio
import base64

import msgspec

from holdfast.api import exchange as exchange_module
from holdfast.wire.bodies import Command
from holdfast.wire.exchange import Capacity, Exchange, Reply

PACKED = "application/msgpack"


def message(number: int, **rest) -> Exchange:
    fields = {
        "worker": "w1", "incarnation": 1, "number": number, "seen": number - 1,
        "capacity": Capacity(2, 2_000, 0, 0), "started": (), "done": (), "failed": (),
        "released": (), "held": (), "occupied": 0, "draining": False, **rest,
    }  # fmt: skip
    return Exchange(**fields)


def test_programs_exchange_arrays(inside):
    async def story(house):
        await house.submit()
        body = msgspec.msgpack.encode(message(1))
        told = await house.post("/exchange", body, content_type=PACKED, accept=PACKED)
        reply = msgspec.msgpack.decode(told.content, type=Reply)
        assert reply.number == 1
        assert [item.index for run in reply.runs for item in run.items] == [0]

    inside(story)


def test_the_payload_of_a_command_is_the_command(inside):
    async def story(house):
        command = {"argv": ["echo", "hi"], "env": {"A": "b"}, "cwd": "x"}
        await house.post("/jobs", {"command": command, "count": 2})
        runs = (await house.exchange(1)).value["runs"]
        assert {(run["kind"], run["target"], run["task_count"]) for run in runs} == {
            ("command", "echo", 2)
        }
        payload = base64.b64decode(runs[0]["items"][0]["payload"])
        assert msgspec.msgpack.decode(payload, type=Command) == Command(**command)

    inside(story)


async def parked(house, number: int, **rest) -> "asyncio.Task":
    """An exchange that waits for work."""
    task = asyncio.ensure_future(house.exchange(number, **rest))
    workers = house.served.exchanges.workers
    while "w1" not in workers or workers["w1"].send is None or workers["w1"].number != number:
        await asyncio.sleep(0)
    return task


HELLO = {"host": "h", "pid": 1, "version": "1"}


def test_a_parked_worker_is_answered_when_there_is_work(inside):
    async def story(house):
        waiting = await parked(house, 1, hello=HELLO)
        await house.submit()
        assert len((await waiting).value["runs"]) == 1

    inside(story)


def test_a_newer_exchange_lets_the_parked_one_go(inside):
    async def story(house):
        waiting = await parked(house, 1, hello=HELLO)
        newer = await parked(house, 2)
        assert (await waiting).value["number"] == 1
        house.service.leave()
        assert (await newer).value["number"] == 2

    inside(story)


def test_the_same_exchange_again_takes_the_answer_from_the_former_connection(inside):
    async def story(house):
        waiting = await parked(house, 1, hello=HELLO)
        again = asyncio.ensure_future(house.exchange(1, hello=HELLO))
        told = await waiting
        assert (told.status, told.code) == (409, "conflict")
        await house.submit()
        assert len((await again).value["runs"]) == 1
        # The answer was lost on the way: it is given again, and nothing is leased twice.
        repeated = (await house.exchange(1, hello=HELLO)).value
        assert repeated == (await again).value

    inside(story)


def test_an_exchange_that_was_overtaken_is_told_so(inside):
    async def story(house):
        await house.submit()
        await house.exchange(5)
        told = await house.exchange(3)
        assert (told.status, told.code) == (409, "conflict")

    inside(story)


def test_a_worker_whose_connection_broke_is_not_given_anything_there(inside):
    async def story(house):
        gone = asyncio.Event()
        assert (await house.exchange(1)).value["who"] is True
        body = msgspec.msgpack.encode(message(2))
        task = asyncio.ensure_future(house.post("/exchange", body, content_type=PACKED, gone=gone))
        workers = house.served.exchanges.workers
        while workers["w1"].number != 2:
            await asyncio.sleep(0)
        gone.set()
        await task
        assert workers["w1"].send is None
        await house.submit()
        assert (await house.get("/leases")).value["leases"] == []
        assert len((await house.exchange(3)).value["runs"]) == 1

    inside(story)


def test_a_second_worker_of_a_living_ones_name_is_refused(inside):
    async def story(house):
        await house.submit()
        await house.exchange(1, hello=HELLO)
        told = (await house.exchange(1, incarnation=2, hello={**HELLO, "pid": 2})).value
        assert "another worker called w1" in told["refused"]
        assert told["runs"] == []

    inside(story)


def test_who_has_nothing_to_say_takes_no_turn(inside, monkeypatch):
    async def story(house):
        waiting = await parked(house, 1, hello=HELLO)
        engine = house.served.engine
        while engine._turn is not None:
            await asyncio.sleep(0)
        turns = []
        monkeypatch.setattr(engine, "soon", lambda: turns.append(1))
        newer = await parked(house, 2)
        # The former was answered all the same, and the new one is found when there is work.
        assert (await waiting).value["number"] == 1
        assert turns == []
        monkeypatch.undo()
        await house.submit()
        assert len((await newer).value["runs"]) == 1

    inside(story)


def test_who_comes_while_work_waits_is_given_it(inside):
    async def story(house):
        assert (await house.exchange(1)).value["who"] is True
        await house.submit()
        assert len((await house.exchange(2, hello=HELLO)).value["runs"]) == 1

    inside(story)


def test_who_has_been_parked_long_enough_is_answered_with_nothing(inside, monkeypatch):
    monkeypatch.setattr(exchange_module, "PARK_S", 0.01)

    async def story(house):
        told = await house.exchange(1, hello=HELLO)
        assert (told.status, told.value["runs"]) == (200, [])

    inside(story)


def test_a_worker_tells_what_is_over_and_still_runs_there(inside):
    over = {"lease_id": 9, "slot": 0, "cpus_milli": 1_000, "memory_bytes": 0, "gpus": 0}

    async def story(house):
        await house.submit()
        lingering = [{**over, "resources": [["licence", 2_000]]}]
        told = await house.exchange(1, occupied=1, lingering=lingering)
        assert (told.status, len(told.value["runs"])) == (200, 1)
        wrong = [{**over, "resources": [["licence", -1]]}]
        told = await house.exchange(2, occupied=1, lingering=wrong)
        assert (told.status, told.code) == (422, "invalid")

    inside(story)
