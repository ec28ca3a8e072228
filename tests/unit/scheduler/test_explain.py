"""Why a task is where it is: every reason by itself, and reasons that hold together."""

from typing import Any

import pytest

from holdfast.core.ids import Instant
from holdfast.core.spec import JobSpec
from holdfast.core.task import TaskState
from holdfast.scheduler.explain import (
    CORDONED,
    DRAINING,
    OPEN,
    SILENT,
    Desk,
    Group,
    JobSituation,
    Pause,
    Reason,
    Situation,
    amount,
    explain,
    explain_job,
    span,
)

NOW, WALL = Instant(1_000_000), Instant(9_000_000)
ROOMY = Desk(name="w1")
FULL = Desk(name="w2", free_slots=0, free_cpus_milli=0)


def a_spec(**needs: Any) -> JobSpec:
    return JobSpec(name="j", kind="command", target="true", **needs)


def here(**rest: Any) -> Situation:
    spec = rest.pop("spec", a_spec())
    known = {"state": TaskState.WAITING, "desks": (ROOMY,), **rest}
    return Situation(job_id="5", task="5/3", spec=spec, now=NOW, wall=WALL, **known)


def only(situation: Situation) -> Reason:
    (reason,) = explain(situation)
    return reason


def test_with_room_and_nothing_in_its_way_a_task_is_next() -> None:
    assert only(here()).code == "next"


def test_a_task_with_a_delay_has_not_begun() -> None:
    reason = only(here(not_before=NOW + 90_000))
    assert (reason.code, reason.until) == ("not_begun", WALL + 90_000)
    assert reason.sentence == "It was asked to begin later, in 1m 30s."
    assert reason.command == "holdfast task reschedule 5/3 --now"
    assert only(here(not_before=NOW)).code == "next"


def test_a_task_that_waits_for_the_calendar_has_not_begun() -> None:
    reason = only(here(not_before_wall=WALL + 7_200_000))
    assert (reason.code, reason.until) == ("not_begun", WALL + 7_200_000)
    assert reason.sentence == "It may begin at a time of the calendar, in 2h 0m."


def test_a_task_that_came_back_backs_off() -> None:
    reason = only(here(attempt=2, failures=2, losses=0, not_before=NOW + 2_500))
    assert (reason.code, reason.until) == ("backing_off", WALL + 2_500)
    told = "It waits another 2.5s before its next attempt, after 2 failures and 0 losses."
    assert reason.sentence == told


def test_a_paused_queue_is_told_with_who_paused_it_and_why() -> None:
    reason = only(here(pause=Pause("maintenance", "token:ci"), spec=a_spec(queue="big ones")))
    assert reason.code == "queue_paused"
    assert reason.sentence == "Queue big ones is paused by token:ci: maintenance."
    assert reason.command == "holdfast queue resume 'big ones'"
    assert only(here(pause=Pause())).sentence == "Queue default is paused."


def test_a_job_that_runs_as_many_as_it_may_is_told() -> None:
    reason = only(here(spec=a_spec(max_parallel=2), active=2))
    assert reason.code == "max_parallel"
    assert "at most 2 tasks at once, and 2 are under way" in reason.sentence
    assert only(here(spec=a_spec(max_parallel=2), active=1)).code == "next"


def test_a_server_that_leaves_gives_nothing_out() -> None:
    assert only(here(is_granting=False)).code == "server_leaving"


def test_without_workers_nothing_runs() -> None:
    reason = only(here(desks=()))
    assert (reason.code, reason.command) == ("no_worker", "holdfast worker start")


@pytest.mark.parametrize(
    ("needs", "told"),
    [
        ({"cpus_milli": 2_500}, "2.5 cpus where the largest has 1"),
        ({"memory_bytes": 3 << 30}, "3Gi of memory where the most is 0 bytes"),
        ({"gpus": 1}, "1 gpus where the most is 0"),
        (
            {"cpus_milli": 2_000, "gpus": 8},
            "2 cpus where the largest has 1 and 8 gpus where the most is 0",
        ),
    ],
)
def test_what_needs_more_than_any_worker_has_is_told_with_what(
    needs: dict[str, int], told: str
) -> None:
    reason = only(here(spec=a_spec(**needs)))
    assert (reason.code, reason.command) == ("too_large", "holdfast worker list")
    assert reason.sentence == f"It fits on none of the one worker there is: it needs {told}."


def test_what_fits_on_no_single_worker_is_too_large_though_each_need_is_met_somewhere() -> None:
    desks = (Desk(name="a", cpus_milli=4_000), Desk(name="b", gpus=1))
    reason = only(here(spec=a_spec(cpus_milli=4_000, gpus=1), desks=desks))
    assert reason.code == "too_large"
    assert "4 cpus, 0 bytes of memory and 1 gpus, all on one worker" in reason.sentence


@pytest.mark.parametrize(
    "full",
    [
        FULL,
        Desk(name="w2", free_cpus_milli=999),
        Desk(name="w2", memory_bytes=8, free_memory_bytes=0),
        Desk(name="w2", gpus=1, free_gpus=0),
    ],
)
def test_workers_that_are_full_are_busy(full: Desk) -> None:
    spec = a_spec(memory_bytes=min(8, full.memory_bytes), gpus=full.gpus)
    reason = only(here(spec=spec, desks=(full,)))
    assert reason.code == "workers_busy"
    assert reason.sentence == "One worker that it fits on (w2) is busy."


@pytest.mark.parametrize(
    ("standing", "command"),
    [
        (CORDONED, "holdfast worker uncordon w9"),
        (DRAINING, "holdfast worker uncordon w9"),
        (SILENT, "holdfast worker list"),
    ],
)
def test_workers_that_take_nothing_are_told_by_why(standing: str, command: str) -> None:
    reason = only(here(desks=(Desk(name="w9", standing=standing),)))
    assert (reason.code, reason.command) == (f"workers_{standing}", command)
    assert reason.sentence == f"One worker that it fits on (w9) is {standing}."


def test_workers_are_counted_by_what_keeps_each_from_it_and_those_too_small_left_out() -> None:
    spec = a_spec(cpus_milli=1_000)
    small = Desk(name="s", cpus_milli=500, free_cpus_milli=500)
    desks = (
        small,
        *(Desk(name=f"b{n}", standing=OPEN, free_slots=0) for n in range(5)),
        *(Desk(name=f"c{n}", standing=CORDONED) for n in range(2)),
        Desk(name="d", standing=DRAINING),
        Desk(name="e", standing=SILENT),
    )
    told = explain(here(spec=spec, desks=desks))
    assert [reason.code for reason in told] == [
        "workers_busy", "workers_cordoned", "workers_draining", "workers_silent",
    ]  # fmt: skip
    busy = "5 workers that it fits on (b0, b1, b2 and 2 more) are busy."
    assert told[0].sentence == busy
    assert told[1].sentence == "2 workers that it fits on (c0, c1) are cordoned."
    assert told[1].command == "holdfast worker list"
    assert only(here(desks=(*desks, ROOMY))).code == "next"


def test_everything_that_holds_a_task_up_is_told() -> None:
    found = explain(
        here(
            attempt=1, losses=1, not_before=NOW + 1, pause=Pause(), active=1, desks=(FULL,),
            spec=a_spec(max_parallel=1),
        )
    )  # fmt: skip
    assert [reason.code for reason in found] == [
        "backing_off", "queue_paused", "max_parallel", "workers_busy",
    ]  # fmt: skip


def test_a_task_that_a_worker_has_is_held() -> None:
    running = here(state=TaskState.RUNNING, worker="w 1", attempt=2, since=NOW - 3_200)
    reason = only(running)
    assert reason.code == "held"
    assert reason.sentence == "Worker w 1 runs attempt 2 of it, for 3.2s now."
    assert reason.command == "holdfast worker show 'w 1'"
    leased = only(here(state=TaskState.LEASED, worker="w1", attempt=1))
    assert leased.sentence == (
        "Worker w1 holds attempt 1 of it, and has not said that it began."
    )


def test_a_task_that_owes_something_is_being_delivered() -> None:
    assert only(here(state=TaskState.COMMITTED)).code == "delivering"


@pytest.mark.parametrize(
    ("state", "how", "sentence", "command"),
    [
        (TaskState.SUCCEEDED, "", "It ended SUCCEEDED with attempt 3.", "holdfast task show 5/3"),
        (
            TaskState.QUARANTINED, "failed: boom",
            "It ended QUARANTINED with attempt 3: failed: boom.", "holdfast job retry 5",
        ),
        (
            TaskState.KILLED, "cancelled",
            "It ended KILLED with attempt 3: cancelled.", "holdfast task show 5/3",
        ),
    ],
)  # fmt: skip
def test_a_finished_task_tells_how_it_ended(
    state: TaskState, how: str, sentence: str, command: str
) -> None:
    reason = only(here(state=state, how=how, attempt=3, pause=Pause()))
    assert (reason.code, reason.sentence, reason.command) == ("finished", sentence, command)
    unstarted = only(here(state=TaskState.UNSCHEDULABLE, how="no room in time"))
    assert unstarted.sentence == "It ended UNSCHEDULABLE: no room in time."


def test_a_job_tells_each_reason_once_with_how_many_tasks_it_is_about() -> None:
    groups = (
        Group(7, here(desks=(FULL,))),
        Group(2, here(attempt=1, failures=1, not_before=NOW + 5, desks=(FULL,))),
        Group(3, here(state=TaskState.RUNNING, worker="w1", attempt=1)),
    )
    told = explain_job(JobSituation(job_id="5", groups=groups))
    assert [(reason.code, reason.tasks, reason.example) for reason in told] == [
        ("workers_busy", 9, "5/3"), ("backing_off", 2, "5/3"), ("held", 3, "5/3"),
    ]  # fmt: skip


def test_a_job_that_is_fed_further_says_so_and_one_that_has_ended_how() -> None:
    (fed,) = explain_job(JobSituation(job_id="5", sealed=False))
    assert fed.code == "open"
    (ended,) = explain_job(JobSituation(job_id="5", ended="SUCCEEDED"))
    assert (ended.sentence, ended.command) == ("It ended SUCCEEDED.", "holdfast job show 5")
    (failed,) = explain_job(JobSituation(job_id="5", ended="FAILED", reason="quarantined"))
    assert failed.sentence == "It ended FAILED: quarantined."
    assert failed.command == "holdfast job retry 5"


def test_spans_and_amounts_are_short() -> None:
    assert [span(ms) for ms in (-5, 999, 59_900, 3_599_000, 86_399_000, 90_000_000)] == [
        "0ms", "999ms", "59.9s", "59m 59s", "23h 59m", "1d 1h",
    ]  # fmt: skip
    assert [amount(n) for n in (5, 1 << 10, 3 << 19, 1 << 40)] == ["5 bytes", "1Ki", "1.5Mi", "1Ti"]
