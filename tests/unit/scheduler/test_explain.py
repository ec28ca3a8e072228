"""Why a task is where it is: every reason by itself, and reasons that hold together."""

import msgspec
import pytest

from holdfast.core.errors import BrokenInvariant
from holdfast.core.placing import WAIT
from holdfast.core.task import TaskState
from holdfast.scheduler.explain import (
    Group,
    JobSituation,
    Pause,
    Reached,
    Troop,
    explain,
    explain_job,
)
from holdfast.scheduler.ledger import Bound
from holdfast.scheduler.reasons import Reason, amount, quantity, span
from holdfast.scheduler.ties import Tie
from holdfast.testing.situations import FULL, NOW, WALL, a_spec, here, only


def test_what_a_plan_would_place_is_next_whatever_else_there_is() -> None:
    assert only(here(is_next=True)).code == "next"
    assert only(here(is_next=True, desks=(FULL,))).code == "next"


def test_with_room_and_nothing_in_its_way_a_task_that_is_not_next_stands_in_line() -> None:
    reason = only(here())
    assert (reason.code, reason.command) == ("in_line", "holdfast task list 5 --state waiting")


def test_a_task_with_a_delay_has_not_begun() -> None:
    reason = only(here(not_before=NOW + 90_000))
    assert (reason.code, reason.until) == ("not_begun", WALL + 90_000)
    assert reason.sentence == "It was asked to begin later, in 1m 30s."
    assert reason.command == "holdfast task reschedule 5/3 --now"
    assert only(here(not_before=NOW)).code == "in_line"


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
    assert "at most 2 at once; 2 of it are under way" in reason.sentence
    assert only(here(spec=a_spec(max_parallel=2), active=1)).code == "in_line"


def test_a_server_that_leaves_gives_nothing_out() -> None:
    assert only(here(is_granting=False)).code == "server_leaving"


def test_a_suspended_log_says_how_it_is_let_work() -> None:
    reason = only(here(suspended="fork"))
    assert (reason.code, reason.command) == ("log_suspended", "holdfast log resume")


def test_what_a_job_comes_after_is_told_and_what_cannot_come_true_any_more() -> None:
    ties = (Tie("7", "success"), Tie("8/2", "finish"), Tie("9", "failure", is_dead=True, cure="9"))
    opened, dead = explain(here(ties=ties, fate=WAIT))
    assert (opened.code, opened.jobs) == ("dependency", ("7", "8/2"))
    assert opened.sentence == "It comes after the success of 7, the finish of 8/2."
    assert opened.command == "holdfast job explain 7"
    assert (dead.code, dead.command) == ("dependency_failed", "holdfast job retry 9")
    told = "What it comes after did not come true: the failure of 9, and it waits all the same."
    assert dead.sentence == told


def test_what_no_retry_can_make_come_true_is_cancelled() -> None:
    """As many may be sent back as like: what waits for the other does not begin."""
    ties = (Tie("8/2", "success", is_dead=True, cure="8"), Tie("9", "failure", is_dead=True))
    reason = only(here(ties=ties, fate=WAIT))
    assert (reason.code, reason.command) == ("dependency_failed", "holdfast job cancel 5")
    (first, _) = ties
    assert only(here(ties=(first,))).command == "holdfast job retry 8"


def test_a_bound_is_told_with_who_holds_what_it_allows() -> None:
    full = Reached(Bound(("user", "ann"), 3, 0), (("7", 2), ("8", 1)))
    rate = Reached(Bound(("key", "db"), 0, 0, is_rate=True), (), "10/1m", 6_000)
    running, starts = explain(here(reached=(full, rate)))
    assert (running.code, running.jobs) == ("limit_user", ("7", "8"))
    assert running.sentence == (
        "User ann runs at most 3 at once, and those are 2 of job 7, 1 of job 8."
    )
    assert running.command == "holdfast limit show user/ann"
    assert (starts.code, starts.command) == ("rate_key", "holdfast limit show key/db")
    told = "Key db starts at most 10/1m, and has; the next may in about 6.0s."
    assert (starts.sentence, starts.until) == (told, here().wall + 6_000)


def test_a_bound_of_what_tasks_take_is_told_with_what_is_left_of_it() -> None:
    team = ("namespace", "team")
    cpus = Reached(Bound(team, 4_000, 500, resource="cpus", need=1_000), (("7", 2),))
    memory = Reached(Bound(team, 1 << 30, 1 << 30, resource="memory", need=1 << 31))
    first, second = explain(here(reached=(cpus, memory)))
    assert first.sentence == (
        "It needs 1 cpu, and namespace team has 0.5 cpus left of the 4 cpus it may have; "
        "it is held by 2 of job 7."
    )
    assert second.sentence == (
        "It needs 2Gi of memory, and namespace team may never have more than 1Gi of memory."
    )
    # Two amounts of one limit are two reasons, also for a whole job.
    whole = explain_job(JobSituation(job_id="1", groups=(Group(3, here(reached=(cpus, memory))),)))
    assert [(reason.resource, reason.tasks) for reason in whole] == [("cpus", 3), ("memory", 3)]


def test_a_gang_waits_for_all_of_it_and_for_room_for_all_of_it() -> None:
    absent = only(here(troop=Troop(4, 3, 9)))
    assert absent.code == "gang_not_ready"
    assert absent.sentence == "All 4 of its gang start at once, and 3 could start now."
    crowded = only(here(troop=Troop(4, 4, 3, "zone", 8)))
    assert crowded.code == "gang_room"
    assert crowded.sentence == (
        "All 4 of its gang start at once on workers of one zone; there is room for 3."
    )
    assert only(here(troop=Troop(9, 9, 3, most=4))).sentence == (
        "All 9 of its gang start at once; there is room for 3, and for no more than 4 where "
        "nothing else runs."
    )
    assert only(here(troop=Troop(4, 4, 0, "rakc"))).sentence == (
        "All of its gang start on workers of one rakc, and none has such a thing."
    )
    assert only(here(troop=Troop(4, 4, 4))).code == "in_line"


def test_what_is_free_may_be_kept_for_others() -> None:
    reason = only(here(before=("7", "8")))
    assert (reason.code, reason.jobs) == ("kept_for_others", ("7", "8"))
    assert reason.command == "holdfast job explain 7"
    assert only(here(before=("7",), is_next=True, ahead=3)).sentence == (
        "A worker has room for it: it is about to be given out, after 3 before it."
    )


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
    may_return = state is TaskState.QUARANTINED
    reason = only(here(state=state, how=how, attempt=3, pause=Pause(), may_return=may_return))
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


def test_a_job_tells_two_bounds_apart_and_two_times_once() -> None:
    full = Reached(Bound(("key", "db"), 1, 0))
    other = Reached(Bound(("key", "disk"), 1, 0))
    later = here(not_before=NOW + 1, not_before_wall=WALL + 1, reached=(full, other))
    told = explain_job(JobSituation(job_id="5", groups=(Group(4, later), Group(1, later))))
    assert [(reason.code, reason.tasks) for reason in told] == [
        ("not_begun", 5), ("limit_key", 5), ("limit_key", 5),
    ]  # fmt: skip
    assert told[1].command != told[2].command


def test_a_job_that_is_fed_further_says_so_and_one_that_has_ended_how() -> None:
    (fed,) = explain_job(JobSituation(job_id="5", sealed=False))
    assert fed.code == "open"
    (ended,) = explain_job(JobSituation(job_id="5", ended="SUCCEEDED"))
    assert (ended.sentence, ended.command) == ("It ended SUCCEEDED.", "holdfast job show 5")
    failed = JobSituation(job_id="5", ended="FAILED", reason="quarantined")
    (told,) = explain_job(failed)
    assert (told.sentence, told.command) == ("It ended FAILED: quarantined.", "holdfast job show 5")
    (told,) = explain_job(msgspec.structs.replace(failed, may_return=True))
    assert told.command == "holdfast job retry 5"


def test_where_attempts_are_ended_for_it_that_is_said() -> None:
    busy, making = explain(here(desks=(FULL,), ends_on=("w2",)))
    assert (busy.code, making.code, making.workers) == ("workers_busy", "making_room", ("w2",))


def test_a_gang_needs_all_its_room_under_a_bound() -> None:
    gang = Troop(3, 3, 9)
    assert only(here(troop=gang, spec=a_spec(max_parallel=4), active=2)).code == "max_parallel"
    assert only(here(troop=gang, spec=a_spec(max_parallel=5), active=2)).code == "in_line"


def test_a_reason_that_is_in_no_table_is_no_reason() -> None:
    with pytest.raises(BrokenInvariant):
        Reason(code="whatever", sentence="So.")


def test_spans_and_amounts_are_short() -> None:
    assert [quantity(name, 1_500) for name in ("cpus", "gpus", "licence")] == [
        "1.5 cpus", "1500 gpus", "1.5 licence",
    ]  # fmt: skip
    assert [span(ms) for ms in (-5, 999, 59_900, 3_599_000, 86_399_000, 90_000_000)] == [
        "0ms", "999ms", "59.9s", "59m 59s", "23h 59m", "1d 1h",
    ]  # fmt: skip
    assert [amount(n) for n in (5, 1 << 10, 3 << 19, 1 << 40)] == ["5 bytes", "1Ki", "1.5Mi", "1Ti"]
