"""Requirements enforced on local workers: what they measure, what follows, and what is held."""

import pytest

from holdfast.coordinator.reconciling.deployment import KIND, memory_of, workload_of
from holdfast.runtimes.status import Status
from holdfast.testing.hosted import Hosted, function, manifest
from holdfast.wire.exchange import Sample

NFR = {
    "mode": "enforce", "minThroughputRps": 50, "maxReplicas": 5, "stability": "20s",
    "cooldown": "20s", "staleAfter": "60s",
}  # fmt: skip


def status(hosted: Hosted) -> Status:
    resource = hosted.read()
    assert resource is not None
    return resource.status


def load(hosted: Hosted, ms: int, requests_per_s: float) -> None:
    """So many requests come, and the replicas share them."""
    for _ in range(ms // 5_000):
        running = hosted.running()
        for host in hosted.hosts:
            host.samples = {
                lease: Sample(lease, 100, 1 << 20, requests_per_s / len(running), 5.0)
                for lease in host.running
            }
        hosted.pass_time(5_000, step_ms=5_000)


def test_load_scales_a_function_up_once_and_holds(hosted: Hosted) -> None:
    measured = function("hello", replicas=2, metrics={"path": "/metrics"})
    hosted.apply(manifest("greeter", measured, nfr=NFR))
    load(hosted, 90_000, 100.0)
    assert len(hosted.running()) == 4
    assert hosted.phase() == "available"
    assert status(hosted).nfr_recommendations["replicas/hello"].basis == "throughput"
    assert [each.target for each in status(hosted).last_applied_recommendations] == [4]
    before = hosted.reasons().count("NFRApplied")
    load(hosted, 60_000, 100.0)
    assert len(hosted.running()) == 4
    assert hosted.reasons().count("NFRApplied") == before == 1


def test_a_scrape_is_ordered_where_metrics_are_declared_and_again_after_a_restart(
    hosted: Hosted,
) -> None:
    measured = function("hello", metrics={"path": "/metrics"})
    hosted.apply(manifest("greeter", measured, function("bye")))
    hosted.pass_time(3_000)

    def ordered() -> set[str]:
        state = hosted.service.coordinator.state
        servicing = hosted.service.exchanges.servicing
        return {job.spec.name for job in state.jobs.values() if servicing.is_scraped(job.job_id)}

    assert ordered() == {"greeter--hello"}
    assert status(hosted).metrics_targets == ("greeter--hello /metrics",)
    hosted.service.crash()
    hosted.pass_time(1_000)
    assert ordered() == {"greeter--hello"}


@pytest.mark.slow
def test_what_is_recommended_no_more_goes_back_to_what_was_declared_step_by_step(
    hosted: Hosted,
) -> None:
    measured = function("hello", replicas=2, metrics={"path": "/metrics"})
    hosted.apply(manifest("greeter", measured, nfr=NFR))
    load(hosted, 90_000, 120.0)
    assert len(hosted.running()) == 5
    for host in hosted.hosts:
        host.samples = {}
    seen = []
    for _ in range(60):
        hosted.pass_time(5_000, step_ms=5_000)
        if not seen or seen[-1] != len(hosted.running()):
            seen.append(len(hosted.running()))
    assert seen == [5, 4, 3, 2]
    assert hosted.phase() == "available"


@pytest.mark.slow
def test_memory_that_is_enforced_is_a_new_revision_and_a_restart_keeps_it(hosted: Hosted) -> None:
    asks = {"cpu": "100m", "memory": "64Mi"}
    nfr = {
        "mode": "enforce", "dimensions": ["memory"], "stability": "10s", "cooldown": "10s",
        "analyzer": {"static": {"memory": "128Mi"}},
    }  # fmt: skip
    content = manifest("greeter", function("hello", resources=asks), nfr=nfr, template="edge")
    hosted.apply(content)
    hosted.settle()
    before = hosted.running()
    for host in hosted.hosts:
        host.samples = {lease: Sample(lease, 10, 16 << 20) for lease in host.running}
    hosted.pass_time(30_000, step_ms=1_000)
    stored = hosted.service.coordinator.state.resources[KIND, "greeter--hello"]
    assert workload_of(stored).memory_bytes == 128 << 20
    assert not memory_of(stored).is_scraped
    assert hosted.phase() == "available"
    assert hosted.running() != before
    hosted.service.crash()
    hosted.pass_time(60_000, step_ms=2_000)
    (job,) = [job for job in hosted.jobs() if not job.sealed]
    assert job.spec.memory_bytes == 128 << 20


@pytest.mark.slow
def test_a_thousand_steady_runtimes_write_nothing_when_they_are_looked_at() -> None:
    hosted = Hosted(workers=16)
    count = 1_000
    for number in range(count):
        hosted.apply(manifest(f"r{number}", function("a")))
    hosted.pass_time(3_000, step_ms=1_000)
    assert hosted.reconciling.tally.phases() == {"available": count}
    before = len(hosted.service.records())
    loop, now = hosted.reconciling.reconciler, hosted.now()
    for number in range(count):
        loop.enqueue(f"r{number}")
    while (due := loop.step(now)) and due <= now:
        pass
    hosted.service.settle()
    actors = {each.actor for each in hosted.service.records()[before:]}
    assert "runtimes" not in actors
