"""Why a task is where it is: every reason by itself, and reasons that hold together."""

from typing import Any

import pytest

from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import Instant, WorkerId
from holdfast.core.placing import WAIT, Constraint, Placing
from holdfast.core.shape import Shape
from holdfast.core.spec import JobSpec
from holdfast.core.task import TaskState
from holdfast.scheduler.desks import CORDONED, DRAINING, SILENT, Desk
from holdfast.scheduler.explain import (
    Group,
    JobSituation,
    Pause,
    Reached,
    Situation,
    Tie,
    Troop,
    explain,
    explain_job,
    standing_of,
)
from holdfast.scheduler.ledger import Bound
from holdfast.scheduler.reasons import Reason, amount, quantity, span
from holdfast.scheduler.seats import Amounts, Slot, seat_of

NOW, WALL = Instant(1_000_000), Instant(9_000_000)


def a_shape(spec: JobSpec) -> Shape:
    return Shape(
        cpus_milli=spec.cpus_milli, memory_bytes=spec.memory_bytes, gpus=spec.gpus, code="true",
        queue=spec.queue, namespace=spec.namespace, resources=spec.placing.resources,
        constraints=spec.placing.constraints,
    )  # fmt: skip


def a_desk(
    name: str,
    *held: Shape,
    slots: int = 1,
    standing: str = "open",
    frees_ms: int | None = None,
    zone: str = "",
    **total: Any,
) -> Desk:
    """A worker of one cpu, unless told otherwise, with a slot for each of what it holds and
    `slots` in all."""
    has = Amounts(**{"cpus_milli": 1_000, **total})
    shapes = [*held, *[None] * (slots - len(held))]
    rows = [Slot(n, int(shape is not None), shape) for n, shape in enumerate(shapes)]
    attributes = {"zone": zone} if zone else {}
    return Desk(seat_of(WorkerId(name), 1, has, rows, attributes), standing, frees_ms)


def a_spec(**needs: Any) -> JobSpec:
    return JobSpec(name="j", kind="command", target="true", **needs)


def here(**rest: Any) -> Situation:
    spec = rest.pop("spec", a_spec())
    known = {"state": TaskState.WAITING, "desks": (ROOMY,), "shape": a_shape(spec), **rest}
    return Situation(job_id="5", task="5/3", spec=spec, now=NOW, wall=WALL, **known)


SMALL = a_shape(a_spec())
ROOMY = a_desk("w1")
FULL = a_desk("w2", SMALL)


def only(situation: Situation) -> Reason:
    (reason,) = explain(situation)
    return reason


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
    assert "at most 2 tasks at once, and 2 are under way" in reason.sentence
    assert only(here(spec=a_spec(max_parallel=2), active=1)).code == "in_line"


def test_a_server_that_leaves_gives_nothing_out() -> None:
    assert only(here(is_granting=False)).code == "server_leaving"


def test_without_workers_nothing_runs() -> None:
    reason = only(here(desks=()))
    assert (reason.code, reason.command) == ("no_worker", "holdfast worker start")


@pytest.mark.parametrize(
    ("needs", "told"),
    [
        ({"cpus_milli": 2_500}, "it needs 2.5 cpus, and the most is 1 cpus"),
        ({"memory_bytes": 3 << 30}, "it needs 3Gi of memory, and the most is 0 bytes of memory"),
        ({"gpus": 1}, "it needs 1 gpus, and the most is 0 gpus"),
        (
            {"placing": Placing(resources=(("licence", 2_000),))},
            "it needs 2 licence, and the most is 0 licence",
        ),
        (
            {"cpus_milli": 2_000, "gpus": 8},
            "it needs 2 cpus, and the most is 1 cpus; it needs 8 gpus, and the most is 0 gpus",
        ),
    ],
)
def test_what_needs_more_than_any_worker_has_is_told_with_what(
    needs: dict[str, Any], told: str
) -> None:
    reason = only(here(spec=a_spec(**needs)))
    assert (reason.code, reason.command) == ("too_large", "holdfast worker list")
    assert reason.sentence == f"It fits on no worker: {told}."


def test_what_fits_on_no_single_worker_is_too_large_though_each_need_is_met_somewhere() -> None:
    desks = (a_desk("a", cpus_milli=4_000), a_desk("b", gpus=1))
    reason = only(here(spec=a_spec(cpus_milli=4_000, gpus=1), desks=desks))
    assert reason.code == "too_large"
    told = "1 of 2 have less than 1 gpus; 1 of 2 have less than 4 cpus"
    assert reason.sentence == f"It fits on no worker: {told}."
    assert (dict(reason.counts), reason.workers) == ({"cpus": 1, "gpus": 1}, ("a", "b"))


def test_a_worker_without_slots_takes_nothing() -> None:
    reason = only(here(desks=(a_desk("w1", slots=0),)))
    assert (reason.code, reason.counts) == ("too_large", (("slots", 1),))


def test_what_must_hold_and_holds_nowhere_is_told_beside_what_is_too_large() -> None:
    wish = Constraint("zone", "in", ("east", "west"))
    spec = a_spec(gpus=1, placing=Placing(constraints=(wish, Constraint("zone", "exists"))))
    desks = (a_desk("a", zone="north", gpus=1), a_desk("b"), a_desk("c", zone="east"))
    unmet, large = explain(here(spec=spec, desks=desks))
    assert (unmet.code, unmet.workers) == ("constraint_unmet", ("a", "b"))
    told = "zone in east,west on 2 of 3; zone exists on 1 of 3"
    assert unmet.sentence == f"What it requires does not hold: {told}."
    assert (large.code, large.workers) == ("too_large", ("b", "c"))


def test_what_is_only_preferred_holds_nothing_up() -> None:
    wish = Constraint("zone", "eq", ("east",), 5)
    assert only(here(spec=a_spec(placing=Placing(constraints=(wish,))))).code == "in_line"


@pytest.mark.parametrize(
    ("full", "needs", "short"),
    [
        (FULL, {}, "1 cpus and a slot"),
        (a_desk("w2", a_shape(a_spec(cpus_milli=1)), slots=2), {}, "0.001 cpus"),
        (
            a_desk("w2", a_shape(a_spec(cpus_milli=0, memory_bytes=8)), slots=2, memory_bytes=8),
            {"memory_bytes": 8},
            "8 bytes of memory",
        ),
        (
            a_desk("w2", a_shape(a_spec(cpus_milli=0, gpus=1)), slots=2, gpus=1),
            {"gpus": 1},
            "1 gpus",
        ),
        (a_desk("w2", SMALL, cpus_milli=2_000), {}, "a slot"),
    ],
)
def test_workers_that_are_full_are_busy(full: Desk, needs: dict[str, Any], short: str) -> None:
    reason = only(here(spec=a_spec(**needs), desks=(full,)))
    assert (reason.code, reason.command) == ("workers_busy", "holdfast worker show w2")
    told = "One worker that it fits on (w2) is busy; the nearest is w2"
    assert reason.sentence == f"{told}, short of {short}."


def test_the_nearest_of_the_busy_ones_is_named_with_when_something_ends_there() -> None:
    half = a_shape(a_spec(cpus_milli=500))
    near = a_desk("near", half, slots=2, frees_ms=90_000)
    reason = only(here(desks=(FULL, near)))
    assert reason.sentence.endswith(
        "the nearest is near, short of 0.5 cpus, where something ends in about 1m 30s."
    )
    assert reason.until == WALL + 90_000
    assert (dict(reason.counts), reason.workers) == ({"cpus": 2, "slots": 1}, ("near", "w2"))


@pytest.mark.parametrize(
    ("standing", "command"),
    [
        (CORDONED, "holdfast worker uncordon w9"),
        (DRAINING, "holdfast worker list"),
        (SILENT, "holdfast worker list"),
    ],
)
def test_workers_that_take_nothing_are_told_by_why(standing: str, command: str) -> None:
    reason = only(here(desks=(a_desk("w9", standing=standing),)))
    assert (reason.code, reason.command) == (f"workers_{standing}", command)
    assert reason.sentence == f"One worker that it fits on (w9) is {standing}."


def test_the_worker_that_failed_it_is_avoided() -> None:
    avoided = only(here(avoid="w1"))
    assert (avoided.code, avoided.workers) == ("workers_avoided", ("w1",))
    assert only(here(avoid="w1", desks=(ROOMY, a_desk("w3")))).code == "in_line"
    busy, avoided = explain(here(avoid="w1", desks=(ROOMY, FULL)))
    assert (busy.code, avoided.code) == ("workers_busy", "workers_avoided")


def test_workers_are_counted_by_what_keeps_each_from_it_and_those_too_small_left_out() -> None:
    spec = a_spec(cpus_milli=1_000)
    desks = (
        a_desk("s", cpus_milli=500),
        *(a_desk(f"b{n}", SMALL, cpus_milli=2_000) for n in range(5)),
        *(a_desk(f"c{n}", standing=CORDONED) for n in range(2)),
        a_desk("d", standing=DRAINING),
        a_desk("e", standing=SILENT),
    )
    told = explain(here(spec=spec, desks=desks))
    assert [reason.code for reason in told] == [
        "workers_busy", "workers_cordoned", "workers_draining", "workers_silent",
    ]  # fmt: skip
    busy = "5 workers that it fits on (b0, b1, b2 and 2 more) are busy; the nearest is b0"
    assert told[0].sentence == f"{busy}, short of a slot."
    assert told[0].counts == (("slots", 5),)
    assert told[1].sentence == "2 workers that it fits on (c0, c1) are cordoned."
    assert told[1].command == "holdfast worker list"
    assert only(here(desks=(*desks, ROOMY))).code == "in_line"


def test_where_nobody_knows_the_workers_that_is_said() -> None:
    assert only(here(desks=None)).code == "workers_unknown"


def test_what_a_job_comes_after_is_told_and_what_cannot_come_true_any_more() -> None:
    ties = (Tie("7", "success"), Tie("8/2", "finish"), Tie("9", "failure", is_dead=True))
    opened, dead = explain(here(ties=ties, fate=WAIT))
    assert (opened.code, opened.jobs) == ("dependency", ("7", "8/2"))
    assert opened.sentence == "It comes after the success of 7, the finish of 8/2."
    assert opened.command == "holdfast job explain 7"
    assert (dead.code, dead.command) == ("dependency_failed", "holdfast job retry 9")
    told = "What it comes after did not come true: the failure of 9, and it waits all the same."
    assert dead.sentence == told


def test_a_bound_is_told_with_who_holds_what_it_allows() -> None:
    full = Reached(Bound(("user", "ann"), 3, 0), (("7", 2), ("8", 1)))
    rate = Reached(Bound(("key", "db"), 0, 0, is_rate=True))
    running, starts = explain(here(reached=(full, rate)))
    assert (running.code, running.jobs) == ("limit_user", ("7", "8"))
    assert running.sentence == (
        "User ann runs at most 3 at once, and those are 2 of job 7, 1 of job 8."
    )
    assert running.command == "holdfast limit show user/ann"
    assert (starts.code, starts.command) == ("rate_key", "holdfast limit show key/db")


def test_a_gang_waits_for_all_of_it_and_for_room_for_all_of_it() -> None:
    absent = only(here(troop=Troop(4, 3, 9)))
    assert absent.code == "gang_not_ready"
    assert absent.sentence == "All 4 of its gang start at once, and 3 could start now."
    crowded = only(here(troop=Troop(4, 4, 3, "zone")))
    assert crowded.code == "gang_room"
    assert crowded.sentence == (
        "All 4 of its gang start at once on workers of one zone; there is room for 3."
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


def test_a_worker_is_told_with_everything_that_stands_against_the_task_there() -> None:
    spec = a_spec(gpus=1, placing=Placing(constraints=(Constraint("zone", "eq", ("east",)),)))
    desks = (
        a_desk("a", a_shape(a_spec(cpus_milli=600)), zone="west", standing=CORDONED),
        a_desk("b", zone="east", gpus=1),
        a_desk("c", zone="east", gpus=1, slots=0),
    )
    assert dict(standing_of(here(spec=spec, desks=desks, avoid="b"))) == {
        "a": (
            "zone eq east does not hold", "it has 0 gpus, not 1 gpus", "0.4 cpus of 1 cpus free",
            "no slot is free", "cordoned",
        ),
        "b": ("avoided, since it failed there",),
        "c": ("it has no slot",),
    }  # fmt: skip


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
