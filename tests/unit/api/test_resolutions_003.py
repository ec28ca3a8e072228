"""Rulings on document 003 that a server with workers makes real, asked over HTTP.

What the core decides about each is in `tests/unit/core/test_resolutions_003.py`.
"""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast import errors
from holdfast import open as open_folder
from holdfast.api.limits import Door
from holdfast.api.routes import TABLE
from holdfast.coordinator.serving import Served
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.taking import take_folder

HELLO = {"host": "h", "pid": 1, "version": "1"}


def given(reply: Any) -> list[dict[str, Any]]:
    return [
        {"job_id": run["job_id"], "index": item["index"], "lease_id": item["lease_id"]}
        for run in reply.value["runs"]
        for item in run["items"]
    ]


def told(*leased: dict[str, Any], **rest: Any) -> list[dict[str, Any]]:
    return [{**lease, "ran_ms": 1, **rest} for lease in leased]


def position(house) -> int:
    return int(house.served.coordinator.state.position)


def actions(transaction: dict[str, Any]) -> set[str]:
    return {action["action"] for action in transaction["actions"]}


def test_resolution_003_01_a_restart_costs_no_remote_worker_its_lease(inside):
    held: list[dict[str, Any]] = []

    async def before(house):
        await house.submit()
        held.extend(given(await house.exchange(1, hello=HELLO)))
        house.service.leaving.set()
        await house.exchange(2, started=told(*held), held=[held[0]["lease_id"]], occupied=1)

    async def after(house):
        (lease,) = (await house.get("/leases")).value["leases"]
        assert lease["lease_id"] == held[0]["lease_id"]
        # What is known of workers is empty; what they hold is not, and one record re-armed it.
        (worker,) = (await house.get("/workers")).value["workers"]
        assert (worker["state"], worker["leases"]) == ("SILENT", 1)
        opened = (await house.get("/transactions")).value["transactions"]
        assert sum("leases_rearmed" in actions(each) for each in opened) == 1, opened
        house.service.leaving.set()
        reply = await house.exchange(1, incarnation=1, done=told(*held, result="aGk="))
        assert (reply.value["verdicts"], reply.value["who"]) == ([], True)
        assert (await house.get("/tasks/1/0")).value["state"] == "SUCCEEDED"

    inside(before)
    inside(after)


def test_resolution_003_05_a_worker_that_reports_under_a_lost_lease_cannot_make_the_log_grow(
    inside,
):
    async def story(house):
        await house.submit()
        leased = given(await house.exchange(1, hello=HELLO))
        house.service.leaving.set()
        await house.exchange(2, started=told(*leased), held=[leased[0]["lease_id"]], occupied=1)
        await house.post("/queues/default/pause")
        await house.served.ask(lambda _: house.served.lose("w1", "it was proven dead"))
        before = position(house)
        for number in range(3, 13):
            reply = await house.exchange(number, done=told(*leased, result="aGk="))
            assert [v["verdict"] for v in reply.value["verdicts"]] == ["LEASE_LOST"]
        assert position(house) == before
        assert (await house.get("/tasks/1/0")).value["state"] == "WAITING"

    inside(story)


class Held:
    """A disk that does not say that anything is safe until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.is_closed = threading.Event()

    def reach(self, point: str) -> None:
        if point == "log.before_sync" and self.is_closed.is_set():
            self.let_go.wait()


def test_resolution_003_08_nobody_is_answered_before_the_disk_has_it(tmp_path: Path, make_house):
    async def story() -> None:
        disk = Held()
        taken = take_folder(tmp_path / "data", term_ms=15_000)
        served = Served(taken, Settings(), term_ms=15_000, faults=disk)
        served.engine.start()
        house = make_house(served, door=Door((), any_host=False), table=TABLE)
        house.admin = await house.token("admin")
        disk.is_closed.set()
        answer = asyncio.ensure_future(house.submit())
        while not served.coordinator.state.jobs:
            await asyncio.sleep(0)
        # It is in memory, whoever asks is told nothing of it, and health does not wait.
        look = asyncio.ensure_future(house.get("/jobs"))
        assert (await house.get("/livez")).status == 200
        for _ in range(50):
            await asyncio.sleep(0)
        assert not answer.done()
        assert not look.done()
        disk.let_go.set()
        assert await answer == "1"
        assert [job["id"] for job in (await look).value["jobs"]] == ["1"]
        await house.service.output.close()
        await served.close()

    asyncio.run(story())


def test_resolution_003_09_a_completion_told_again_is_committed_again_after_a_restart_too(inside):
    leased: list[dict[str, Any]] = []

    async def before(house):
        await house.submit()
        leased.extend(given(await house.exchange(1, hello=HELLO)))
        house.service.leaving.set()
        await house.exchange(2, started=told(*leased), done=told(*leased, result="aGk="))

    async def after(house):
        house.service.leaving.set()
        reply = await house.exchange(1, done=told(*leased, result="aGk="))
        assert [v["verdict"] for v in reply.value["verdicts"]] == ["COMMITTED"]

    inside(before)
    inside(after)


@pytest.mark.parametrize("where", ["tail", "middle"])
def test_resolution_003_10_a_torn_tail_is_cut_and_damage_elsewhere_is_refused(
    tmp_path: Path, inside, where: str
):
    async def story(house):
        for _ in range(5):
            # Later than anybody looks: whoever opens the folder would try to run it.
            await house.submit(delay="1h")

    inside(story)
    (segment,) = [path for path in (tmp_path / "wal").glob("*.seg") if path.stat().st_size]
    content = bytearray(segment.read_bytes())
    end = len(content.rstrip(b"\0"))
    if where == "tail":
        # Half of a frame that nobody was told of.
        content[end + 40 : end + 90] = b"h" * 50
        segment.write_bytes(content)
        with open_folder(tmp_path) as hf:
            assert hf.job("5").state == "PENDING"
        assert list((tmp_path / "wal").glob("torn-*"))
    else:
        content[end // 2] ^= 1
        segment.write_bytes(content)
        with pytest.raises(errors.LogDamaged, match=r"\.seg"):
            open_folder(tmp_path)


def test_resolution_003_13_a_submit_sent_twice_is_one_job_also_across_a_restart(inside):
    body = {"command": {"argv": ["true"]}}

    async def ask(house):
        told = await house.post("/jobs", body, token=token, idempotency_key="k1")
        return told.status, told.value["id"]

    token = ""

    async def before(house):
        nonlocal token
        token = house.admin
        assert await ask(house) == (201, "1")
        assert await ask(house) == (201, "1")

    async def after(house):
        assert (await ask(house))[1] == "1"
        assert len((await house.get("/jobs")).value["jobs"]) == 1

    inside(before)
    inside(after)
