"""Requests that come twice, late, out of order, or whose answers are lost: one event, one answer.

A client on a bad network asks until it is told. A fifth of its requests arrive twice, at once or
much later; a tenth are lost, or their answers are. Some keys come again with another body.
"""

import asyncio
import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from msgspec import Struct

from holdfast.core.record import decode_record

IN_FLIGHT = 32
LATEST = 2_000
"""A copy is at most so many requests late: the answers of the last ten thousand are remembered."""
DOUBLED, LOST, OTHER_BODY = 0.2, 0.1, 0.01
COMMAND = {"command": {"argv": ["true"]}}


class Wish(Struct):
    """One thing somebody wants, however often it has to be said. `answer`: the first there was."""

    key: str
    path: str
    body: dict[str, Any]
    answer: tuple[int, bytes] | None = None


class Client:
    """What was asked and answered. `sent` counts what arrived, `faults` what befell requests."""

    def __init__(self, house: Any, dice: Random, token: str) -> None:
        self.house = house
        self.dice = dice
        self.token = token
        self.wishes: list[Wish] = []
        self.faults: Counter[str] = Counter()
        self.sent = 0
        self.jobs = 0
        self._late: list[tuple[int, Wish]] = []

    def next_wish(self) -> Wish:
        number, dice = len(self.wishes), self.dice
        job, name = dice.randrange(1, self.jobs + 2), f"n{dice.randrange(5)}"
        path, body = dice.choice(
            [
                ("/jobs", {**COMMAND, "count": dice.randrange(1, 4), "name": f"j{number}"}),
                ("/jobs", {**COMMAND, "name": f"j{number}", "queue": name}),
                ("/jobs", {"kind": "function", "target": "m:f", "items": [], "sealed": False}),
                (f"/jobs/{job}/cancel", {"reason": f"{number}"}),
                (f"/tasks/{job}/0/cancel", {}),
                (f"/tasks/{job}/0/reschedule", {"delay": f"{dice.randrange(1, 9)}h"}),
                (f"/queues/{name}/pause", {"reason": f"{number}"}),
                (f"/queues/{name}/resume", {}),
                (f"/workers/{name}/cordon", {"reason": f"{number}"}),
                (f"/workers/{name}/uncordon", {}),
            ]
        )
        wish = Wish(f"key-{number}", path, body)
        self.wishes.append(wish)
        return wish

    async def ask_until_told(self, wish: Wish) -> None:
        while True:
            fate = self.dice.random()
            if fate < LOST / 2:
                self.faults["request lost"] += 1
                continue
            if fate > 1 - DOUBLED:
                if self.dice.random() < 0.5:
                    self.faults["doubled at once"] += 1
                    await asyncio.gather(self.send(wish), self.send(wish))
                    return
                self.faults["doubled late"] += 1
                at = len(self.wishes) + self.dice.randrange(LATEST)
                self._late.append((at, wish))
            await self.send(wish)
            if fate < LOST:
                self.faults["answer lost"] += 1
                continue
            return

    async def send(self, wish: Wish) -> None:
        self.sent += 1
        told = await self.house.post(
            wish.path, wish.body, token=self.token, idempotency_key=wish.key
        )
        assert told.status < 500, told.content
        assert told.status != 429, "the test is not about rates"
        answer = (told.status, told.content)
        if wish.answer is None:
            wish.answer = answer
            self.jobs += told.status == 201
        assert answer == wish.answer, (wish, answer)

    async def ask_again(self, wish: Wish) -> None:
        """After a restart the log alone knows what was answered: the same job, as it is now."""
        told = await self.house.post(
            wish.path, wish.body, token=self.token, idempotency_key=wish.key
        )
        assert wish.answer is not None
        assert told.status == wish.answer[0]
        assert told.value.get("id") == json.loads(wish.answer[1]).get("id")

    async def reuse(self, wish: Wish) -> None:
        """The same key for something else."""
        self.faults["key with another body"] += 1
        self.sent += 1
        body = {"reason": f"not {wish.key}"}
        told = await self.house.post(
            "/queues/another/pause", body, token=self.token, idempotency_key=wish.key
        )
        assert (told.status, told.code) == (422, "key_reused")

    def take_late(self) -> list[Wish]:
        here = [wish for at, wish in self._late if at <= len(self.wishes)]
        self._late = [each for each in self._late if each[0] > len(self.wishes)]
        return here

    async def live(self, requests: int) -> None:
        while self.sent < requests:
            asks = [self.ask_until_told(self.next_wish()) for _ in range(IN_FLIGHT)]
            asks += [self.send(wish) for wish in self.take_late()]
            known = [wish for wish in self.wishes[-200:] if wish.answer is not None]
            if known and self.dice.random() < OTHER_BODY * IN_FLIGHT:
                asks.append(self.reuse(self.dice.choice(known)))
            await asyncio.gather(*asks)
        await asyncio.gather(*(self.send(wish) for _, wish in self._late))


async def recorded(house: Any) -> Counter[str]:
    """How many records each request made. Ours have a key; what the clock did has none."""
    log = house.served.log
    found: Counter[str] = Counter()
    for frame in log.read(log.oldest):
        found.update(decode_record(data).request_id for data in frame.records)
    return found


def live_and_judge(inside: Any, dice: Random, requests: int) -> Client:
    clients: list[Client] = []

    async def life(house: Any) -> None:
        client = Client(house, dice, await house.token("admin"))
        clients.append(client)
        await client.live(requests)

    async def afterwards(house: Any) -> None:
        client = clients[0]
        client.house = house
        made = await recorded(house)
        token_id = client.token.split("_")[1]
        of_wish = {wish.key: made[f"{token_id}:{wish.key}"] for wish in client.wishes}
        twice = {key: count for key, count in of_wish.items() if count > 1}
        assert twice == {}
        ours = sum(count for name, count in made.items() if name.startswith(token_id))
        assert ours == sum(of_wish.values()), "a request that nobody made has left a record"
        jobs = [wish for wish in client.wishes if wish.answer and wish.answer[0] == 201]
        assert {of_wish[wish.key] for wish in jobs} == {1}
        before = house.served.coordinator.state.position
        changed = [wish for wish in client.wishes[-LATEST:] if of_wish[wish.key]]
        for wish in changed[-200:]:
            await client.ask_again(wish)
        assert house.served.coordinator.state.position == before, "a restart forgot who asked"

    inside(life, per_second=10**9)
    inside(afterwards, per_second=10**9)
    return clients[0]


def judge_faults(client: Client) -> None:
    kinds = ("request lost", "answer lost", "doubled at once", "doubled late")
    assert all(client.faults[kind] for kind in (*kinds, "key with another body")), client.faults


def test_repeated_lost_and_late_requests_leave_one_record_each(inside, dice: Random) -> None:
    client = live_and_judge(inside, dice, 600)
    assert client.faults["doubled at once"]


@pytest.mark.slow
def test_ten_thousand_requests_on_a_bad_network_leave_no_extra_event(inside, dice: Random) -> None:
    judge_faults(live_and_judge(inside, dice, 10_000))


@pytest.mark.soak
def test_a_hundred_thousand_requests_on_a_bad_network_leave_no_extra_event(
    inside, dice: Random
) -> None:
    judge_faults(live_and_judge(inside, dice, 100_000))
