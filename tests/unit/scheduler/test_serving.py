"""Where replicas of a service go, and what is said of one that waits."""

import msgspec

from holdfast.core import commands as c
from holdfast.core.ids import JobId
from holdfast.core.service import FALLS, FALLS_MS, Replica
from holdfast.core.spec import ServicePolicy
from holdfast.scheduler.explain import JobSituation, explain_job
from holdfast.testing.floor import Floor, a_machine
from holdfast.testing.situations import NOW, WALL, a_spec, here, only

POLICY = ServicePolicy(restarts=100, refill_ms=600_000, delay_ms=0)
SPEC = msgspec.structs.replace(
    a_spec(), name="web", kind="service", target="", cpus_milli=0, service=POLICY
)


def serve(floor: Floor, job_id: str, replicas: int = 1, **wants: object) -> None:
    spec = msgspec.structs.replace(SPEC, **wants)
    floor.world.submit(job_id, spec=spec, items=(b"plan",) * replicas, sealed=False)


def fall(floor: Floor, job_id: str, worker: str, times: int = FALLS) -> None:
    """A replica ends by itself on this worker, again and again."""
    for _ in range(times):
        (lease,) = floor.world.grant(job_id, 0, worker=worker)
        floor.world.start(job_id, 0, lease, worker=worker)
        floor.world.fail(job_id, 0, lease, worker=worker)


def places(floor: Floor) -> list[str]:
    return [pick.worker for pick in floor.plan().picks]


def test_no_replica_goes_where_the_service_crash_looped_while_there_is_another_place() -> None:
    floor = Floor(bad=a_machine(8), good=a_machine(1))
    serve(floor, "one")
    fall(floor, "one", "bad", FALLS - 1)
    assert places(floor) == ["bad"]
    fall(floor, "one", "bad", 1)
    assert places(floor) == ["good"]
    # Nor a fresh one, nor one of the next job of the same service; others do as they like.
    floor.world.did(c.AddTasks(job_id=JobId("one"), first=1, items=(b"plan",)))
    serve(floor, "two")
    floor.submit("work", 3)
    made = floor.plan().picks
    assert {pick.worker for pick in made if pick.job_id in ("one", "two")} == {"good"}
    assert {pick.worker for pick in made if pick.job_id == "work"} == {"bad"}


def test_where_there_is_no_other_place_it_is_begun_there_all_the_same() -> None:
    floor = Floor(bad=a_machine(8), small=a_machine(1, zone="eu"))
    serve(floor, "one", memory_bytes=1 << 29)
    fall(floor, "one", "bad")
    assert places(floor) == ["small"]
    del floor.machines["small"]
    assert places(floor) == ["bad"]


def test_what_lies_far_back_is_forgiven() -> None:
    floor = Floor(bad=a_machine(8), good=a_machine(1))
    serve(floor, "one")
    fall(floor, "one", "bad")
    floor.world.sleep(FALLS_MS)
    assert places(floor) == ["bad"]


def test_a_replica_that_waits_for_another_place_keeps_no_room_where_it_does_not_go() -> None:
    floor = Floor(bad=a_machine(1), good=a_machine(1))
    serve(floor, "one", cpus_milli=1_000, priority=5)
    fall(floor, "one", "bad")
    floor.submit("busy")
    floor.world.grant("busy", 0, worker="good")
    floor.submit("work")
    assert [(pick.job_id, pick.worker) for pick in floor.plan().picks] == [("work", "bad")]


def test_a_restart_is_no_reason_to_move() -> None:
    """One end by itself says nothing about the worker: what is spread stays where it is."""
    floor = Floor(v=a_machine(1), w=a_machine(8))
    serve(floor, "one")
    fall(floor, "one", "w", 1)
    assert places(floor) == ["w"]
    assert floor.world.task("one").avoid == ""


def test_replicas_never_stand_behind_each_other_in_a_slot() -> None:
    floor = Floor(w=a_machine(2))
    floor.length = 10
    serve(floor, "one", 5)
    assert [tuple(pick.indices) for pick in floor.plan().picks] == [(0,), (1,)]


def test_one_that_waits_to_be_begun_again_says_how_often_it_ended_and_until_when() -> None:
    spec = msgspec.structs.replace(SPEC, service=ServicePolicy(restarts=10, refill_ms=60_000))
    replica = Replica(restarts=3, total=7, whole_at=NOW + 170_000)
    reason = only(here(spec=spec, attempt=3, replica=replica, not_before=NOW + 4_000))
    assert (reason.code, reason.until) == ("restarting", WALL + 4_000)
    assert reason.sentence == (
        "It is begun again in 4.0s: it ended by itself 3 times in a row; "
        "3 of 10 restarts are in use, and one comes back every 1m 0s."
    )
    assert reason.command == "holdfast task reschedule 5/3 --now"


def test_a_service_runs_until_it_is_ended() -> None:
    (reason,) = explain_job(JobSituation(job_id="5", sealed=False, is_service=True))
    assert reason.code == "service"
