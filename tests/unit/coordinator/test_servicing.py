"""What workers say of their services: endpoints follow readiness, and the rest is safe to lose."""

from typing import Any

import pytest

from holdfast.coordinator.crews import LiveCrew
from holdfast.coordinator.gridviews import NOTHING_HEARD
from holdfast.coordinator.surroundings import Surroundings
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.spec import JobSpec, ServicePolicy
from holdfast.core.task import TaskState
from holdfast.scheduler.explain import JobSituation, explain, explain_job
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import (
    Failed,
    Hello,
    PartitionNews,
    Progress,
    Sample,
    ServiceNews,
    Started,
)
from holdfast.wire.servicing import PartitionClaim

JOB = JobId("1")
TERM_MS = 10_000
POLICY = ServicePolicy(restarts=5, refill_ms=60_000, delay_ms=1_000, endpoint="web")
SPEC = JobSpec(name="greeter", kind="service", target="", cpus_milli=0, service=POLICY)
HELLO = Hello("host", 1, "test")


def a_service(replicas: int = 1, *, spec: JobSpec = SPEC) -> Service:
    service = Service(ManualClock(), SeededDice(1), term_ms=TERM_MS)
    items = tuple(b"plan" for _ in range(replicas))
    assert isinstance(service.do(c.SubmitJob(spec=spec, items=items, sealed=False)), Accepted)
    service.settle()
    return service


def begun(service: Service, slots: int = 1) -> tuple[Post, tuple[int, ...]]:
    """A worker runs the replicas; under which leases."""
    worker = Post(service)
    runs = worker.hear(slots=slots, hello=HELLO).runs
    items = [item for run in runs for item in run.items]
    leases = tuple(item.lease_id for item in items)
    started = tuple(Started(JOB, item.index, item.lease_id, 0) for item in items)
    worker.hear(slots=slots, held=leases, started=started)
    return worker, leases


def news(lease: int, state: str, address: str = "host:1", why: str = "") -> ServiceNews:
    return ServiceNews(LeaseId(lease), state, address, why)


def reached(service: Service) -> list[str]:
    state = service.coordinator.state
    return [
        endpoint.address for task in state.endpoints.get("web", {}).values()
        for endpoint in task.endpoints
    ]  # fmt: skip


def told(service: Service) -> list[str]:
    kinds = (e.EndpointRegistered, e.EndpointRemoved)
    events = [event for record in service.records() for event in record.events]
    return [type(event).__name__ for event in events if isinstance(event, kinds)]


def test_an_endpoint_comes_and_goes_with_readiness() -> None:
    service = a_service()
    worker, (lease,) = begun(service)
    worker.hear(held=(lease,), services=(news(lease, "starting"),))
    assert reached(service) == []
    worker.hear(held=(lease,), services=(news(lease, "ready"),))
    assert reached(service) == ["host:1"]
    worker.hear(held=(lease,), services=(news(lease, "unready", why="GET / answered 500"),))
    assert reached(service) == []
    worker.hear(held=(lease,), services=(news(lease, "ready", "host:2"),))
    assert reached(service) == ["host:2"]
    worker.hear(held=(lease,), services=(news(lease, "stopping"),))
    assert reached(service) == []
    assert told(service) == ["EndpointRegistered", "EndpointRemoved"] * 2
    service.check()
    assert service.troubles == []


def test_what_is_told_again_is_recorded_once() -> None:
    service = a_service()
    worker, (lease,) = begun(service)
    for _ in range(3):
        worker.hear(held=(lease,), services=(news(lease, "ready"),))
    assert told(service) == ["EndpointRegistered"]


def test_no_endpoint_outlives_its_replica() -> None:
    service = a_service()
    worker, (lease,) = begun(service)
    worker.hear(held=(lease,), services=(news(lease, "ready"),))
    failed = Failed(JOB, Index(0), LeaseId(lease), 5, "failed", "exited 1", "", 1)
    worker.hear(failed=(failed,), services=(news(lease, "ready"),))
    assert reached(service) == []
    servicing = service.exchanges.servicing
    service.exchanges.prune(service.coordinator.now())
    assert servicing.standing(LeaseId(lease)) is None


def test_a_stopped_replica_is_told_to_stop_and_is_reached_no_more() -> None:
    service = a_service(2)
    worker, (first, second) = begun(service, 2)
    both = (news(first, "ready"), news(second, "ready", "host:2"))
    worker.hear(slots=2, held=(first, second), services=both)
    service.do(c.StopReplicas(job_id=JOB, indices=(Index(0),)))
    reply = worker.hear(slots=2, held=(first, second))
    assert [stop.lease_id for stop in reply.stops] == [first]
    assert reached(service) == ["host:2"]


def test_news_of_what_is_not_held_there_or_is_no_service_say_nothing() -> None:
    service = a_service()
    worker, (lease,) = begun(service)
    worker.hear(held=(lease,), services=(news(lease + 7, "ready"),))
    stranger = Post(service, name="stranger")
    stranger.hear(hello=HELLO, services=(news(lease, "ready"),), samples=(Sample(lease, 1, 1),))
    assert reached(service) == []
    service = a_service(spec=JobSpec(name="work", kind="function", target="work"))
    worker, (lease,) = begun(service)
    worker.hear(held=(lease,), services=(news(lease, "ready"),))
    assert service.coordinator.state.endpoints == {}


def test_after_a_restart_what_was_ready_still_is_and_the_rest_is_told_again() -> None:
    service = a_service()
    worker, (lease,) = begun(service)
    worker.hear(held=(lease,), services=(news(lease, "ready"),), samples=(Sample(lease, 10, 99),))
    service.settle()
    service.crash()
    assert reached(service) == ["host:1"]
    servicing = service.exchanges.servicing
    assert (servicing.standing(LeaseId(lease)), servicing.samples(LeaseId(lease))) == (None, ())
    assert worker.hear(held=(lease,), seen=0).who
    worker.hear(held=(lease,), hello=HELLO, services=(news(lease, "unready", why="slow"),))
    standing = service.exchanges.servicing.standing(LeaseId(lease))
    assert standing is not None
    assert standing.told == "unready: slow"
    assert reached(service) == []
    assert service.troubles == []


def test_partitions_are_heard_from_the_holder_alone_and_forgotten_with_the_lease() -> None:
    service = a_service()
    worker, (lease,) = begun(service)
    views, claim = service.exchanges.servicing.grid_views, PartitionClaim("0", 1, 1, "a")
    changed: list[str] = []
    service.exchanges.servicing.on_change = changed.append
    told = PartitionNews(LeaseId(lease), (claim,), 5_000, ago_ms=3)
    stranger = Post(service, name="stranger")
    stranger.hear(hello=HELLO, partitions=(told,))
    assert views.heard(LeaseId(lease)) == NOTHING_HEARD
    for _ in range(2):
        worker.hear(held=(lease,), partitions=(told,))
    heard = views.heard(LeaseId(lease))
    assert heard.view is not None
    assert (heard.view.at, heard.view.lasts_ms) == (service.coordinator.now() - 3, 15_000)
    # The same again is no reason to look at anything.
    assert changed == [JOB]
    worker.hear(held=(lease,), partitions=(PartitionNews(told.lease_id, problem="404"),))
    kept = views.heard(LeaseId(lease))
    assert (kept.view, kept.problem, changed) == (heard.view, "404", [JOB, JOB])
    worker.hear(failed=(Failed(JOB, Index(0), LeaseId(lease), 1, "failed", "x", "", 1),))
    service.exchanges.servicing.sweep()
    assert views.heard(LeaseId(lease)) == NOTHING_HEARD


def test_samples_are_kept_for_a_while_with_when_they_were_taken() -> None:
    service = a_service()
    worker, (lease,) = begun(service)
    for cpu_milli in range(30):
        sample = Sample(LeaseId(lease), cpu_milli, 1, 5.0, 20.0, ago_ms=3)
        worker.hear(held=(lease,), samples=(sample,))
    kept = service.exchanges.servicing.samples(LeaseId(lease))
    assert [sampled.sample.cpu_milli for sampled in kept] == list(range(6, 30))
    assert kept[-1].at == service.coordinator.now() - 3
    assert not [record for record in service.records() if record.command == "Sample"]


def test_metrics_are_ordered_once_of_each_replica_there_is_and_will_be() -> None:
    service = a_service()
    worker, (lease,) = begun(service)
    servicing = service.exchanges.servicing
    worker.say(held=(lease,))
    service.settle()
    assert not servicing.is_scraped(JOB)
    servicing.scrape(JOB)
    service.settle()
    assert worker.replies[-1].scrapes == (lease,)
    assert worker.hear(held=(lease,), samples=(Sample(LeaseId(lease), 1, 1),)).scrapes == ()
    service.do(c.AddTasks(job_id=JOB, first=1, items=(b"plan",)))
    reply = worker.hear(slots=2, held=(lease,))
    assert reply.scrapes == tuple(item.lease_id for run in reply.runs for item in run.items)


def test_metrics_that_are_ordered_before_a_worker_is_back_are_ordered_of_it_then() -> None:
    service = a_service()
    worker, (lease,) = begun(service)
    service.settle()
    service.crash()
    servicing = service.exchanges.servicing
    servicing.scrape(JOB)
    service.exchanges.prune(service.coordinator.now())
    assert worker.hear(held=(lease,), seen=0).scrapes == (lease,)


def test_whoever_wants_to_know_is_told_which_service_changed() -> None:
    service = a_service()
    worker, (lease,) = begun(service)
    changed: list[JobId] = []
    service.exchanges.servicing.on_change = changed.append
    worker.hear(held=(lease,), services=(news(lease, "ready"),))
    worker.hear(held=(lease,), services=(news(lease, "ready"),))
    assert changed == [JOB]


def test_a_replica_is_shown_and_explained_with_how_it_stands() -> None:
    service = a_service()
    worker, (lease,) = begun(service)
    worker.hear(held=(lease,), services=(news(lease, "unready", why="GET / answered 500"),))
    state = service.coordinator.state
    crew = LiveCrew(state, service.exchanges)

    def explained() -> str:
        now = service.coordinator.now()
        around = Surroundings(state, now, now, crew)
        return explain(around.situation(state.jobs[JOB], Index(0)))[0].sentence

    def whole() -> JobSituation:
        now = service.coordinator.now()
        return Surroundings(state, now, now, crew).whole(state.jobs[JOB])

    assert explained().endswith("; it is unready: GET / answered 500.")
    codes = [told.code for told in explain_job(whole())]
    assert codes == ["unready", "service"]
    view = service.exchanges.servicing.view(state.jobs[JOB], Index(0), int)
    assert view is not None
    assert (view["state"], view["why"], view["restarts"]) == ("unready", "GET / answered 500", 0)
    failed = Failed(JOB, Index(0), LeaseId(lease), 5, "failed", "exited 1", "", 1)
    worker.hear(failed=(failed,))
    assert state.jobs[JOB].states[0] != TaskState.RUNNING
    assert "it ended by itself once; 1 of 5 restarts are in use" in explained()


def test_nothing_of_a_service_counts_as_a_stall_however_long_it_runs() -> None:
    service = a_service()
    worker, (lease,) = begun(service)
    clock = service.clock
    assert isinstance(clock, ManualClock)
    # Even where it once said how far it was: nobody waits for a service to come to an end.
    worker.hear(held=(lease,), progress=(Progress(LeaseId(lease), 1, 0, ""),))
    for _ in range(200):
        clock.advance(TERM_MS // 2)
        worker.hear(held=(lease,), services=(news(lease, "ready"),))
    assert service.stalls.current() == []
    assert service.coordinator.state.jobs[JOB].states[0] == TaskState.RUNNING


@pytest.mark.parametrize("frame_survives", [True, False])
@pytest.mark.parametrize("crash_at", range(5))
def test_a_crash_at_any_step_neither_charges_twice_nor_leaves_an_endpoint(
    crash_at: int, *, frame_survives: bool
) -> None:
    """A worker repeats what got no answer, and tells everything when it is asked who it is."""
    service = a_service()
    worker, (lease,) = begun(service)
    failed = Failed(JOB, Index(0), LeaseId(lease), 5, "failed", "exited 1", "", 1)
    steps: list[dict[str, Any]] = [
        {"held": (lease,), "services": (news(lease, "ready"),)},
        {"held": (lease,), "services": (news(lease, "unready"),)},
        {"held": (lease,), "services": (news(lease, "ready", "host:2"),)},
        {"held": (lease,), "services": (news(lease, "stopping"),)},
        {"failed": (failed,)},
    ]
    for number, said in enumerate(steps):
        worker.say(**said)
        service.turn()
        if number == crash_at:
            service.crash(frame_survives=frame_survives)
            worker.say(**said, hello=HELLO, seen=0)
        elif service.writing:
            service.synced()
        service.settle()
        assert reached(service) == [[], ["host:1"], [], ["host:2"], [], []][number + 1]
    job = service.coordinator.state.jobs[JOB]
    assert job.service is not None
    assert [(r.restarts, r.total) for r in job.service.replicas.values()] == [(1, 1)]
    assert not job.sealed
    service.check()
    assert service.troubles == []


def test_replicas_that_cannot_be_asked_are_told_apart_from_those_that_can() -> None:
    service = a_service(3)
    worker, leases = begun(service, 3)
    states = ("ready", "ready", "starting")
    told_now = tuple(news(lease, state) for lease, state in zip(leases, states, strict=True))
    worker.hear(slots=3, held=leases, services=told_now)
    state, now = service.coordinator.state, service.coordinator.now()
    around = Surroundings(state, now, now, LiveCrew(state, service.exchanges))
    reasons = {reason.code: reason.tasks for reason in explain_job(around.whole(state.jobs[JOB]))}
    assert reasons == {"held": 2, "unready": 1, "service": 0}
