"""Rulings on document 000 that a server with workers makes real, asked over HTTP.

What the core decides about each is in `tests/unit/core/test_resolutions_000.py`; here it must hold
for whoever asks, reports and dies out there.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast

HELLO = {"host": "h", "pid": 1, "version": "1"}
ONE = {"slots": 1, "cpus_milli": 1_000, "memory_bytes": 0, "gpus": 0}


def given(reply: Any) -> list[dict[str, Any]]:
    """What a worker was given, as it names it in its reports."""
    return [
        {"job_id": run["job_id"], "index": item["index"], "lease_id": item["lease_id"]}
        for run in reply.value["runs"]
        for item in run["items"]
    ]


def began(*leased: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**lease, "ran_ms": 1} for lease in leased]


def done(*leased: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**lease, "ran_ms": 1, "result": "aGk="} for lease in leased]


def failed(lease: dict[str, Any], reason: str, exit_code: int | None) -> dict[str, Any]:
    ended = {"ran_ms": 1, "reason": reason, "error": "no", "traceback": "", "exit_code": exit_code}
    return {**lease, **ended}


def ids(*leased: dict[str, Any]) -> list[int]:
    return [lease["lease_id"] for lease in leased]


async def task(house, name: str) -> dict[str, Any]:
    return (await house.get(f"/tasks/{name}")).value


def position(house) -> int:
    return int(house.served.coordinator.state.position)


def test_resolution_000_01_the_job_has_ended_when_its_last_success_is_answered(inside):
    async def story(house):
        job = await house.submit()
        leased = given(await house.exchange(1, hello=HELLO))
        house.service.leaving.set()
        await house.exchange(2, started=began(*leased), done=done(*leased))
        shown = (await house.get(f"/jobs/{job}")).value
        assert (shown["state"], shown["counts"]["SUCCEEDED"]) == ("SUCCEEDED", 1)

    inside(story)


def test_resolution_000_03_a_failure_with_budget_left_leaves_the_job_running(inside):
    async def story(house):
        job = await house.submit(2, retries=1)
        one, two = given(await house.exchange(1, hello=HELLO))
        house.service.leaving.set()
        report = failed(one, "failed", 3)
        await house.exchange(2, started=began(one, two), failed=[report], done=done(two))
        assert (await house.get(f"/jobs/{job}")).value["state"] == "RUNNING"
        shown = await task(house, f"{job}/{one['index']}")
        assert (shown["state"], shown["attempts"][0]["reason"]) == ("WAITING", "failed")
        assert shown["attempts"][0]["exit_code"] == 3

    inside(story)


def test_resolution_000_06_a_dead_worker_gives_back_what_it_began_and_what_it_had_not(inside):
    async def story(house):
        job = await house.submit(2)
        begun, fresh = given(await house.exchange(1, hello=HELLO))
        house.service.leaving.set()
        await house.exchange(2, started=began(begun), held=ids(begun, fresh), occupied=2)
        before = position(house)
        await house.served.ask(lambda _: house.served.lose("w1", "its parent saw it die"))
        # All that it held ends in one record; only what had begun costs anything.
        assert position(house) == before + 1
        lost, undelivered = [await task(house, f"{job}/{each['index']}") for each in (begun, fresh)]
        assert (lost["attempts"][0]["reason"], lost["losses"]["used"]) == ("worker_lost", 1)
        ended = undelivered["attempts"][0]["reason"]
        assert (ended, undelivered["losses"]["used"]) == ("undelivered", 0)
        assert (await house.get("/leases")).value["leases"] == []

    inside(story)


def test_resolution_000_07_who_introduces_itself_again_keeps_what_it_holds(inside):
    async def story(house):
        await house.submit()
        leased = given(await house.exchange(1, capacity=ONE, hello=HELLO))
        house.service.leaving.set()
        again = await house.exchange(
            2, capacity=ONE, hello=HELLO, started=began(*leased), held=ids(*leased), occupied=1
        )
        assert given(again) == []
        shown = (await house.get("/workers/w1")).value
        assert [lease["lease_id"] for lease in shown["leases"]] == ids(*leased)
        assert (shown["occupied"], shown["state"]) == (1, "BUSY")

    inside(story)


def test_resolution_000_08_a_success_told_twice_and_a_start_told_late_change_nothing(inside):
    async def story(house):
        job = await house.submit()
        leased = given(await house.exchange(1, hello=HELLO))
        house.service.leaving.set()
        await house.exchange(2, started=began(*leased), done=done(*leased))
        before = position(house)
        (again,) = (await house.exchange(3, done=done(*leased))).value["verdicts"]
        assert again["verdict"] == "COMMITTED"
        late = (await house.exchange(4, started=began(*leased))).value["verdicts"]
        assert [verdict["verdict"] for verdict in late] == ["COMMITTED"]
        assert (await task(house, f"{job}/0"))["state"] == "SUCCEEDED"
        assert position(house) == before
        counts = (await house.get(f"/jobs/{job}")).value["counts"]
        assert (counts["SUCCEEDED"], sum(counts.values())) == (1, 1)

    inside(story)


def test_resolution_000_11_what_one_worker_holds_no_other_is_given(inside):
    async def story(house):
        await house.submit(3)
        first = given(await house.exchange(1, hello=HELLO))
        second = given(await house.exchange(1, worker="w2", hello=HELLO))
        assert sorted(each["index"] for each in first + second) == [0, 1, 2]
        assert len({*ids(*first), *ids(*second)}) == 3

    inside(story)


def test_resolution_000_12_a_cancel_reaches_the_worker_and_its_slot_is_free_when_it_says_so(
    inside,
):
    async def story(house):
        job = await house.submit()
        leased = given(await house.exchange(1, capacity=ONE, hello=HELLO))
        await house.submit()
        await house.exchange(2, capacity=ONE, started=began(*leased), held=ids(*leased), occupied=1)
        assert (await house.post(f"/jobs/{job}/cancel")).value["stopped"] == 1
        told = (await house.exchange(3, capacity=ONE, held=ids(*leased), occupied=1)).value
        assert [stop["lease_id"] for stop in told["stops"]] == ids(*leased)
        # It still runs there, so its place is not given to the next.
        assert told["runs"] == []
        assert len(given(await house.exchange(4, capacity=ONE))) == 1

    inside(story)


def test_resolution_000_16_a_job_that_has_ended_is_not_cancelled(inside):
    async def story(house):
        job = await house.submit()
        leased = given(await house.exchange(1, hello=HELLO))
        house.service.leaving.set()
        await house.exchange(2, started=began(*leased), done=done(*leased))
        before = position(house)
        for _ in range(2):
            assert (await house.post(f"/jobs/{job}/cancel")).value == {"stopped": 0}
        assert (await house.get(f"/jobs/{job}")).value["state"] == "SUCCEEDED"
        assert position(house) == before

    inside(story)


def test_resolution_000_17_one_bad_report_is_refused_and_the_good_one_beside_it_counts(inside):
    async def story(house):
        await house.submit(2)
        good, bad = given(await house.exchange(1, hello=HELLO))
        house.service.leaving.set()
        wrong = {**bad, "lease_id": 999_999}
        told = (await house.exchange(2, started=began(good, bad), done=done(good, wrong))).value
        assert [v["lease_id"] for v in told["verdicts"]] == [999_999]
        assert (await task(house, f"1/{good['index']}"))["state"] == "SUCCEEDED"
        assert (await task(house, f"1/{bad['index']}"))["state"] == "RUNNING"
        # What was rejected is not in the log, and is counted.
        measured = (await house.get("/metrics")).content.decode()
        assert 'holdfast_refusals_total{code="lease_lost"} 1' in measured

    inside(story)


def test_resolution_000_20_signs_of_life_never_reach_the_log(inside):
    async def story(house):
        workers = house.served.exchanges.workers
        parked = [asyncio.ensure_future(house.exchange(1, hello=HELLO))]
        before = position(house)
        for number in range(2, 52):
            # Each lets the one before it go.
            parked.append(asyncio.ensure_future(house.exchange(number)))
            while "w1" not in workers or workers["w1"].number != number:
                await asyncio.sleep(0)
        assert (await house.get("/workers")).value["workers"][0]["state"] == "IDLE"
        assert position(house) == before
        house.service.leave()
        assert [told.status for told in await asyncio.gather(*parked)] == [200] * 51

    inside(story)


def test_resolution_000_22_a_success_has_exit_code_zero_and_a_failure_its_own(inside):
    async def story(house):
        await house.submit(2)
        one, two = given(await house.exchange(1, hello=HELLO))
        house.service.leaving.set()
        report = failed(two, "failed", 7)
        await house.exchange(2, started=began(one, two), done=done(one), failed=[report])
        shown = [await task(house, f"1/{each['index']}") for each in (one, two)]
        assert [each["exit_code"] for each in shown] == [0, 7]
        assert [each["attempts"][0]["exit_code"] for each in shown] == [0, 7]

    inside(story)


def test_resolution_000_23_a_limit_of_zero_is_not_everything(inside):
    async def story(house):
        for _ in range(5):
            await house.submit()
        assert len((await house.get("/transactions?limit=0")).value["transactions"]) <= 1
        assert len((await house.get("/jobs?limit=0")).value["jobs"]) <= 1

    inside(story)


def test_resolution_000_24_a_job_without_tasks_and_a_key_with_another_body_are_refused(inside):
    async def story(house):
        body = {"kind": "function", "target": "shop:square", "count": 0}
        assert (await house.post("/jobs", body)).code == "invalid"
        first = {"command": {"argv": ["true"]}, "key": "nightly"}
        made = await house.post("/jobs", first)
        again = await house.post("/jobs", first)
        assert (made.status, again.status) == (201, 200)
        assert made.value["id"] == again.value["id"]
        other = await house.post("/jobs", {**first, "count": 2})
        assert (other.status, other.code) == (422, "key_reused")
        assert len((await house.get("/jobs")).value["jobs"]) == 1

    inside(story)


@pytest.mark.parametrize("reason", ["killed", "cancelled", "undelivered", "lease_expired"])
def test_resolution_000_26_a_worker_cannot_say_that_a_person_stopped_it(inside, reason: str):
    async def story(house):
        await house.submit()
        (leased,) = given(await house.exchange(1, hello=HELLO))
        house.service.leaving.set()
        told = await house.exchange(
            2, started=began(leased), failed=[failed(leased, reason, None)]
        )
        assert [v["verdict"] for v in told.value["verdicts"]] == ["REFUSED"]
        shown = await task(house, "1/0")
        assert (shown["state"], shown["failures"]["used"]) == ("RUNNING", 0)

    inside(story)


def test_resolution_000_23_the_last_none_are_none_for_programs(tmp_path: Path) -> None:
    with holdfast.open(tmp_path) as hf:
        assert len(hf.transactions(limit=1)) == 1
        assert hf.transactions(limit=0) == []
