"""What a user's test can do with a cluster in virtual time, and what must hold in it."""

import asyncio
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast import current, task
from holdfast.errors import TaskFailed
from holdfast.testing.rehearsal import NothingLeft, Rehearsal
from holdfast.testing.rehearsal.errors import NotRehearsed

RAN: list[object] = []
"""What bodies have done, outside of anything that Holdfast knows."""


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


def square(number: int) -> int:
    RAN.append(number)
    return number * number


@task(retries=3, backoff="fixed", retry_delay="1m", jitter=0)
def at_the_third_try(number: int) -> int:
    RAN.append(number)
    if len(RAN) < 3:
        raise ValueError("not yet")
    return number


@task(retries=1, backoff="none")
def hopeless() -> None:
    RAN.append("hopeless")
    raise ValueError("never")


@task(timeout="5m", retries=1, backoff="none")
def slow(minutes: int) -> str:
    RAN.append("began")
    try:
        time.sleep(60 * minutes)
    finally:
        RAN.append("cleaned up")
    return "done"


def pay(amount: int) -> int:
    RAN.append("paid")
    current().effect("ledger", body={"amount": amount})
    return amount


def in_a_block(amount: int) -> None:
    with current().commit(result=amount):
        RAN.append("in the block")


def in_steps() -> str:
    for step in ("read", "written"):
        RAN.append(step)
        current().progress(1, 2, note=step)
    return "done"


def asks_for_another(number: int) -> int:
    return number + CLUSTER[0].submit(square, number).result()


@task(retries=2)
def tells_once() -> None:
    RAN.append("told")
    current().progress(1, 2)
    time.sleep(3600)


def stages(folder: str) -> None:
    with current().stage(f"{folder}/report.txt") as file:
        file.write("whole")


async def waits() -> str:
    await asyncio.sleep(0)
    return "awaited"


def large() -> str:
    return "x" * 200_000


CLUSTER: list[Rehearsal] = []


def test_functions_really_run_and_results_come_back() -> None:
    with Rehearsal() as holdfast:
        assert holdfast.submit(square, 7).result() == 49
        assert list(holdfast.map(square, range(30)).results()) == [n * n for n in range(30)]
        assert holdfast.submit(waits).result() == "awaited"
        assert len(holdfast.submit(large).result()) == 200_000
        assert sorted(RAN) == sorted([7, *range(30)])


def test_nothing_runs_before_time_passes() -> None:
    with Rehearsal() as holdfast:
        handle = holdfast.submit(square, 7)
        assert not RAN
        assert handle.state == "PENDING"
        holdfast.run_until_idle()
        assert handle.state == "SUCCEEDED"


def test_waiting_for_a_retry_takes_virtual_time_only() -> None:
    with Rehearsal() as holdfast:
        began = holdfast.clock.now()
        assert holdfast.submit(at_the_third_try, 5).result() == 5
        assert (holdfast.clock.now() - began).total_seconds() == 120


def test_a_spent_budget_quarantines() -> None:
    with Rehearsal() as holdfast:
        handle = holdfast.submit(hopeless)
        with pytest.raises(TaskFailed, match="never") as failed:
            handle.result()
        assert failed.value.state == "QUARANTINED"
        assert len(RAN) == 2


def test_a_timeout_ends_the_body_where_it_stands() -> None:
    with Rehearsal() as holdfast:
        with pytest.raises(TaskFailed, match="timeout"):
            holdfast.submit(slow, 6).result()
        assert RAN == ["began", "began"], "what was killed does not even clean up"


def test_a_body_sleeps_in_virtual_time_and_its_lease_is_renewed_meanwhile() -> None:
    with Rehearsal(lease_term="15s") as holdfast:
        handle = holdfast.submit(slow, 4)
        assert not handle.wait(timeout=3 * 60)
        assert handle.result(timeout=2 * 60) == "done"
        assert RAN == ["began", "cleaned up"]


def test_advancing_the_clock_lets_happen_what_is_due_by_then() -> None:
    with Rehearsal() as holdfast:
        handle = holdfast.submit(square, 3, delay="10m")
        holdfast.clock.advance("9m")
        assert not handle.done()
        holdfast.clock.advance("2m")
        assert handle.result() == 9


def test_schedules_fire_at_their_instants() -> None:
    with Rehearsal() as holdfast:
        holdfast.schedule("nightly", square, 2, cron="0 3 * * *")
        holdfast.clock.advance("3d")
        assert RAN == [2, 2, 2]
        assert holdfast.clock.now() == datetime(2026, 1, 4, tzinfo=UTC)


@pytest.mark.parametrize("restart", ["1s", None])
@pytest.mark.parametrize("during", ["start", "body", "commit", "effect", "pay", pay])
def test_an_effect_happens_once_whenever_its_worker_dies(during, restart) -> None:
    with Rehearsal() as holdfast:
        ledger = holdfast.sink("ledger")
        blow = holdfast.kill_worker(during=during, restart=restart)
        handle = holdfast.submit(pay, 5)
        assert handle.result() == 5
        holdfast.run_until_idle()
        assert blow.has_happened
        assert ledger.bodies == [{"amount": 5}]
        assert ledger.repeats == (during == "effect")
        assert RAN.count("paid") == (1 if during in ("start", "commit", "effect") else 2)


@pytest.mark.parametrize("during", ["start", "body", "commit", "effect"])
def test_a_worker_that_slept_past_its_lease_commits_nothing(during) -> None:
    with Rehearsal() as holdfast:
        ledger = holdfast.sink("ledger")
        holdfast.freeze_worker(during=during, for_="2m")
        assert holdfast.submit(pay, 5).result() == 5
        holdfast.run_until_idle()
        assert ledger.bodies == [{"amount": 5}]


@pytest.mark.parametrize("down_for", [0, "10m"])
@pytest.mark.parametrize("keeps_record", [True, False])
def test_a_coordinator_that_dies_while_committing_commits_once(down_for, keeps_record) -> None:
    with Rehearsal() as holdfast:
        ledger = holdfast.sink("ledger")
        holdfast.crash_coordinator(during=pay, down_for=down_for, keeps_record=keeps_record)
        handle = holdfast.submit(pay, 5)
        assert handle.result() == 5
        holdfast.run_until_idle()
        assert handle.state == "SUCCEEDED"
        assert ledger.bodies == [{"amount": 5}]
        assert RAN == ["paid"], "the worker told its result again"


def test_work_goes_on_after_a_crash_in_the_middle_of_it() -> None:
    with Rehearsal() as holdfast:
        handle = holdfast.submit(slow, 4)
        holdfast.clock.advance("2m")
        holdfast.crash_coordinator(down_for="1m")
        assert holdfast.submit(square, 2).result() == 4
        assert handle.result() == "done"
        assert RAN.count("began") == 1, "an outage is nobody's fault"


def test_a_block_is_entered_at_most_once() -> None:
    with Rehearsal() as holdfast:
        blow = holdfast.kill_worker(during="block")
        handle = holdfast.submit(in_a_block, 5)
        assert handle.result() == 5
        holdfast.run_until_idle()
        assert blow.has_happened
        assert RAN == ["in the block"]
        assert [effect.state for effect in holdfast.effects()] == ["PARKED"]


def test_a_block_that_nobody_disturbs_is_over() -> None:
    with Rehearsal() as holdfast:
        handle = holdfast.submit(in_a_block, 5)
        holdfast.run_until_idle()
        assert handle.state == "SUCCEEDED"
        assert not holdfast.effects()


def test_a_task_can_be_struck_at_a_note_of_its_own() -> None:
    with Rehearsal() as holdfast:
        holdfast.kill_worker(during="written")
        assert holdfast.submit(in_steps).result() == "done"
        assert RAN == ["read", "written", "read", "written"]


def test_a_sink_that_fails_is_tried_again() -> None:
    def refuses_twice(effect) -> None:
        if effect.tries < 2:
            raise ConnectionError("down")

    with Rehearsal() as holdfast:
        ledger = holdfast.sink("ledger", refuses_twice)
        holdfast.submit(pay, 5)
        holdfast.run_until_idle()
        assert [effect.tries for effect in ledger.calls] == [0, 1, 2]
        assert ledger.bodies == [{"amount": 5}]
        assert ledger.repeats == 0


def test_a_task_may_submit_another_and_wait_for_it() -> None:
    with Rehearsal() as holdfast:
        CLUSTER[:] = [holdfast]
        assert holdfast.submit(asks_for_another, 4).result() == 20
        CLUSTER.clear()


def test_staged_files_appear_with_the_commit(tmp_path: Path) -> None:
    with Rehearsal() as holdfast:
        holdfast.kill_worker(during="body")
        holdfast.submit(stages, str(tmp_path))
        holdfast.run_until_idle()
        assert (tmp_path / "report.txt").read_text() == "whole"


def test_handles_can_be_awaited() -> None:
    async def ask() -> int:
        return await holdfast.submit(square, 6)

    with Rehearsal() as holdfast:
        assert asyncio.run(ask()) == 36


def test_whoever_waits_for_what_never_comes_is_told() -> None:
    with Rehearsal(workers=1, resources={"license": 1}) as holdfast:
        holdfast.kill_worker(restart=None)
        with pytest.raises(NothingLeft, match="nothing will happen"):
            holdfast.submit(square, 1).result()


def test_a_blow_that_never_fell_is_an_error() -> None:
    holdfast = Rehearsal()
    holdfast.kill_worker(during="effect")
    holdfast.submit(square, 1)
    holdfast.run_until_idle()
    with pytest.raises(NotRehearsed, match=r"kill_worker\(during='effect'\)"):
        holdfast.close()


def test_what_an_open_folder_can_tell_a_rehearsal_can_too() -> None:
    with Rehearsal() as holdfast:
        handle = holdfast.submit(hopeless)
        holdfast.run_until_idle()
        (aside,) = holdfast.quarantine()
        assert (aside.id, aside.reason) == (f"{handle.id}/0", "failed")
        assert handle.explain().state == "FAILED"
        assert holdfast.stalls() == []
        assert holdfast.health().is_good
        holdfast.crash_coordinator()
        assert len(holdfast.quarantine()) == 1
        assert holdfast.retry(handle.id) == 1


def test_a_body_that_hangs_is_found_and_recovered() -> None:
    """Its lease is renewed all the time, and it tells nothing."""
    with Rehearsal(lease_term="1m") as holdfast:
        holdfast.submit(tells_once)
        holdfast.clock.advance("15m")
        assert RAN.count("told") > 1


def test_nothing_is_left_behind() -> None:
    # Threads of other tests may still be there, and may end meanwhile.
    others, real_sleep = set(threading.enumerate()), time.sleep
    with Rehearsal() as holdfast:
        holdfast.kill_worker(during="body")
        handle = holdfast.submit(slow, 4)
        holdfast.clock.advance("1m")
        assert set(threading.enumerate()) - others
        assert handle.state == "RUNNING"
        assert time.sleep is not real_sleep
        time.sleep(0)
    assert not set(threading.enumerate()) - others
    assert time.sleep is real_sleep


def test_the_same_seed_gives_the_same_story() -> None:
    def story() -> list[str]:
        RAN.clear()
        with Rehearsal(seed=3) as holdfast:
            holdfast.kill_worker(during=square)
            holdfast.map(square, range(10))
            holdfast.submit(at_the_third_try, 1)
            holdfast.run_until_idle()
            return [f"{told.time} {told.command}" for told in holdfast.transactions(limit=500)]

    first = story()
    assert len(first) > 10
    assert story() == first
