"""Services through the API: how a replica stands is shown, and strange news are refused."""

import pytest

from holdfast.cli.tables import job_text, task_text
from holdfast.core import commands as c
from holdfast.core.spec import JobSpec, ServicePolicy

POLICY = ServicePolicy(restarts=5, refill_ms=600_000, delay_ms=1_000, endpoint="web")
SPEC = JobSpec(name="greeter", kind="service", target="", cpus_milli=0, service=POLICY)


async def replica(house) -> int:
    """A worker runs a replica; under which lease."""
    submit = c.SubmitJob(spec=SPEC, items=(b"plan",), sealed=False)
    house.served.coordinator.execute(submit, actor="")
    (run,) = (await house.exchange(1)).value["runs"]
    lease = run["items"][0]["lease_id"]
    began = {"job_id": "1", "index": 0, "lease_id": lease, "ran_ms": 0}
    await house.exchange(2, held=[lease], started=[began])
    return lease


def test_how_a_replica_stands_is_shown_and_where_it_is_reached(inside):
    async def story(house):
        lease = await replica(house)
        news = {"lease_id": lease, "state": "ready", "address": "host:8000"}
        sample = {"lease_id": lease, "cpu_milli": 5, "memory_bytes": 9, "requests_per_s": 2.5}
        told = await house.exchange(3, held=[lease], services=[news], samples=[sample])
        assert told.status == 200, told.content
        (endpoint,) = (await house.get("/endpoints?name=web")).value["endpoints"]
        assert endpoint["address"] == "host:8000"
        task = (await house.get("/tasks/1/0")).value
        assert (task["service"]["state"], task["service"]["address"]) == ("ready", "host:8000")
        assert "ready at host:8000, 0 restarts" in task_text(task)
        (listed,) = (await house.get("/jobs/1/tasks")).value["tasks"]
        assert listed["service"] == task["service"]
        job = (await house.get("/jobs/1")).value
        assert (job["state"], job["spec"]["service"]["endpoint"]) == ("RUNNING", "web")
        assert "web, until it is ended; 5 restarts, one back in 10m" in job_text(job, "")

    inside(story)


def test_one_that_fell_says_how_often_and_until_when_it_waits(inside):
    async def story(house):
        lease = await replica(house)
        failed = {
            "job_id": "1", "index": 0, "lease_id": lease, "ran_ms": 5, "reason": "failed",
            "error": "live probe failed: GET / answered 500", "traceback": "", "exit_code": None,
        }  # fmt: skip
        await house.exchange(3, failed=[failed])
        task = (await house.get("/tasks/1/0")).value
        assert (task["state"], task["service"]["restarts"]) == ("WAITING", 1)
        assert task["service"]["budget_whole_at"] > task["not_before"]
        assert task["failures"]["used"] == task["losses"]["used"] == 0
        (attempt,) = task["attempts"]
        assert attempt["error"] == "live probe failed: GET / answered 500"
        (reason, *_) = (await house.get("/tasks/1/0/explain")).value["reasons"]
        assert reason["code"] == "restarting"
        codes = [told["code"] for told in (await house.get("/jobs/1/explain")).value["reasons"]]
        assert codes == ["restarting", "service"]

    inside(story)


@pytest.mark.parametrize(
    "strange",
    [
        {"services": [{"lease_id": 1, "state": "fine"}]},
        {"services": [{"lease_id": 1, "state": "ready", "address": "x" * 5_000}]},
        {"samples": [{"lease_id": 1, "cpu_milli": -1, "memory_bytes": 0}]},
        {"samples": [{"lease_id": 1, "cpu_milli": 1, "memory_bytes": 0, "latency_ms": -0.5}]},
    ],
)
def test_news_that_no_worker_can_have_are_refused_and_harm_nobody(inside, strange):
    async def story(house):
        lease = await replica(house)
        told = await house.exchange(3, held=[lease], **strange)
        assert (told.status, told.code) == (422, "invalid"), told.content
        assert (await house.get("/tasks/1/0")).value["state"] == "RUNNING"

    inside(story)
