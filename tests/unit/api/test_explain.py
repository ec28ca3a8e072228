"""Why tasks and jobs are where they are, and how they came there, asked over HTTP."""

import pytest

from holdfast.api import census as census_module
from holdfast.cli.folders import FromFolder
from holdfast.coordinator import explaining as explain_module
from holdfast.coordinator.inspect import Moment
from holdfast.coordinator.ports import SystemClock
from holdfast.core.ids import Instant

HELLO = {"host": "h", "pid": 1, "version": "1"}


async def both_fail(house) -> None:
    """The two tasks of the first job begin and fail."""
    began = [{"job_id": "1", "index": n, "lease_id": n + 1, "ran_ms": 0} for n in range(2)]
    lost = {
        "job_id": "1", "index": 1, "lease_id": 2, "ran_ms": 1, "reason": "failed",
        "error": "ValueError: no\nand more", "traceback": "", "exit_code": 1,
    }  # fmt: skip
    await house.exchange(1)
    await house.exchange(2, started=began, held=[1, 2])
    await house.exchange(3, failed=[lost, {**lost, "index": 0, "lease_id": 1}])


async def why(house, path: str) -> list[str]:
    told = await house.get(f"{path}/explain")
    assert told.status == 200, told.content
    assert all(
        set(reason) >= {"code", "sentence", "command", "until"} for reason in told.value["reasons"]
    )
    return [reason["code"] for reason in told.value["reasons"]]


def test_a_task_tells_why_it_waits_who_holds_it_and_how_it_ended(inside):
    async def story(house):
        await house.submit()
        assert await why(house, "/tasks/1/0") == ["no_worker"]
        item = (await house.exchange(1)).value["runs"][0]["items"][0]
        where = {"job_id": "1", "index": 0, "lease_id": item["lease_id"]}
        held = (await house.get("/tasks/1/0/explain")).value
        assert (held["id"], held["state"]) == ("1/0", "LEASED")
        assert "Worker w1 holds attempt 1 of it, for " in held["reasons"][0]["sentence"]
        await house.exchange(2, started=[{**where, "ran_ms": 0}], held=[item["lease_id"]])
        assert await why(house, "/tasks/1/0") == ["held"]
        failed = {
            **where, "ran_ms": 1, "reason": "failed", "error": "ValueError: no\nmore",
            "traceback": "", "exit_code": None,
        }  # fmt: skip
        await house.exchange(3, failed=[failed])
        ended = (await house.get("/tasks/1/0/explain")).value["reasons"][0]
        assert ended["sentence"] == "It ended QUARANTINED with attempt 1: failed: ValueError: no."
        assert ended["command"] == "holdfast job retry 1"
        assert await why(house, "/jobs/1") == ["finished"]

    inside(story)


def test_a_paused_queue_is_told_with_whose_will_it_was(inside):
    async def story(house):
        await house.post("/queues/default/pause", {"reason": "maintenance"})
        await house.submit(3)
        for path in ("/tasks/1/2", "/jobs/1"):
            told = (await house.get(f"{path}/explain")).value["reasons"]
            assert [reason["code"] for reason in told] == ["queue_paused", "no_worker"]
            assert told[0]["sentence"].startswith("Queue default is paused by token:")
            assert told[0]["sentence"].endswith(": maintenance.")
        assert told[0]["tasks"] == 3

    inside(story)


def test_who_paused_long_ago_is_not_looked_for(inside, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(explain_module, "MOST_READ", 1)

    async def story(house):
        await house.post("/queues/default/pause", {"reason": "maintenance"})
        await house.submit()
        told = (await house.get("/tasks/1/0/explain")).value["reasons"]
        assert told[0]["sentence"] == "Queue default is paused: maintenance."

    inside(story)


def test_workers_are_looked_at_as_they_are(inside):
    async def story(house):
        await house.submit(4)
        held = (await house.exchange(1)).value["runs"]
        assert len(held) == 2
        assert await why(house, "/tasks/1/3") == ["workers_busy"]
        await house.submit(cpus=64)
        told = (await house.get("/tasks/2/0/explain")).value["reasons"]
        assert [reason["code"] for reason in told] == ["too_large"]
        assert "it needs 64 cpus, and the most is 2 cpus" in told[0]["sentence"]
        await house.post("/workers/w1/cordon")
        assert await why(house, "/tasks/1/3") == ["workers_cordoned"]
        items = [item for run in held for item in run["items"]]
        began = [
            {"job_id": "1", "index": i["index"], "lease_id": i["lease_id"], "ran_ms": 0}
            for i in items
        ]
        leases = [item["lease_id"] for item in items]
        await house.exchange(2, draining=True, started=began, held=leases)
        assert await why(house, "/tasks/1/3") == ["workers_draining"]
        worker = house.served.exchanges.workers["w1"]
        worker.seen_at = worker.answered_at = -1_000_000
        house.served.coordinator._back_at = -1_000_000
        assert await why(house, "/tasks/1/3") == ["workers_silent"]

    inside(story)


def test_times_bounds_and_counts_of_a_job_are_told(inside):
    async def story(house):
        await house.submit(delay="1h")
        late = (await house.get("/tasks/1/0/explain")).value["reasons"][0]
        assert late["code"] == "not_begun"
        assert late["until"].endswith("Z")
        await house.submit(not_before="2999-01-01T00:00:00Z")
        assert "not_begun" in await why(house, "/tasks/2/0")
        await house.submit(5, max_parallel=1, retries=3, retry={"delay": "1h", "jitter": 0})
        await house.exchange(1)
        assert await why(house, "/jobs/3") == ["max_parallel", "held"]
        told = (await house.get("/jobs/3/explain")).value
        assert [(each["tasks"], each["example"]) for each in told["reasons"]] == [
            (4, "3/1"), (1, "3/0"),
        ]  # fmt: skip
        lost = {
            "job_id": "3", "index": 0, "lease_id": 1, "ran_ms": 1, "reason": "failed",
            "error": "no", "traceback": "", "exit_code": 1,
        }  # fmt: skip
        began = {"job_id": "3", "index": 0, "lease_id": 1, "ran_ms": 0}
        await house.exchange(2, started=[began], held=[1])
        await house.exchange(3, failed=[lost])
        assert await why(house, "/tasks/3/0") == ["backing_off", "max_parallel"]
        await house.post("/jobs", {"kind": "function", "target": "m:f", "sealed": False})
        assert await why(house, "/jobs/4") == ["open"]

    inside(story)


def test_what_is_not_there_is_not_explained(inside):
    async def story(house):
        await house.submit()
        for path in ("/tasks/1/1", "/tasks/9/0", "/tasks/1/x", "/jobs/9"):
            assert (await house.get(f"{path}/explain")).code == "not_found"
        assert (await house.get("/tasks/1/1/history")).code == "not_found"

    inside(story)


def test_a_task_has_a_history(inside):
    async def story(house):
        await house.submit(2)
        await house.post("/tasks/1/1/reschedule", {"delay": "1h"})
        await house.post("/jobs/1/cancel", {"reason": "enough"})
        told = (await house.get("/tasks/1/1/history")).value
        commands = [view["command"] for view in told["transactions"]]
        assert commands == ["SubmitJob", "RescheduleTask", "KillJob"]
        assert told["complete"] is True
        assert told["transactions"][-1]["reason"] == "enough"
        other = (await house.get("/tasks/1/0/history")).value["transactions"]
        assert [view["command"] for view in other] == ["SubmitJob", "KillJob"]

    inside(story)


def test_every_worker_is_told_by_itself_where_that_is_asked_for(inside):
    async def story(house):
        await house.submit(4)
        await house.exchange(1)
        assert "standing" not in (await house.get("/tasks/1/3/explain")).value
        for path in ("/tasks/1/3", "/jobs/1"):
            told = (await house.get(f"{path}/explain?level=3")).value
            against = ["it needs 1 cpu, and 0 cpus is free", "no slot is free"]
            assert told["standing"] == [{"worker": "w1", "against": against}]
            assert told["reasons"][0]["cure"]

    inside(story)


def test_a_place_in_the_line_counts_every_task_that_goes_before(inside):
    async def story(house):
        async def ahead(what: str) -> int:
            return (await house.get(f"/{what}/explain")).value["ahead"]

        await house.submit(4)
        # Two of them run now.
        await house.exchange(1)
        assert [await ahead(f"tasks/1/{index}") for index in (2, 3)] == [0, 1]
        await house.submit(3)
        await house.submit(2, cpus=0.5)
        await house.submit(1, priority=5)
        assert await ahead("jobs/4") == 0
        assert await ahead("jobs/1") == 1
        assert await ahead("jobs/2") == 1 + 2
        assert await ahead("tasks/2/2") == 1 + 2 + 2
        # Those of another shape came before it as well.
        assert await ahead("jobs/3") == 1 + 2 + 3
        # What nobody may be given goes before nobody.
        await house.post("/queues/default/pause", {})
        assert await ahead("jobs/3") == 0

    inside(story)


@pytest.mark.parametrize(("gang", "offered"), [(False, "job retry 1"), (True, "job show 1")])
def test_a_retry_is_offered_where_it_would_send_something_back(inside, gang: bool, offered: str):
    async def story(house):
        await house.submit(2, gang=gang)
        await both_fail(house)
        purge = {"ids": ["1/1"], "reason": "given up"}
        assert (await house.post("/quarantine/purge", purge)).value["purged"] == 1
        (told,) = (await house.get("/jobs/1/explain")).value["reasons"]
        assert told["command"] == f"holdfast {offered}"
        (told,) = (await house.get("/tasks/1/0/explain")).value["reasons"]
        assert told["command"] == f"holdfast {'task show 1/0' if gang else offered}"
        (told,) = (await house.get("/tasks/1/1/explain")).value["reasons"]
        assert told["command"] == "holdfast task show 1/1"
        answer = await house.post("/jobs/1/retry", {})
        assert answer.status == (409 if gang else 200), answer.content

    inside(story)


def test_a_job_that_ended_badly_is_told_with_what_one_of_its_tasks_says(inside):
    async def story(house):
        await house.submit(2)
        await both_fail(house)
        (told,) = (await house.get("/jobs/1/explain")).value["reasons"]
        assert told["sentence"] == "It ended FAILED: quarantined; 1/0: ValueError: no."
        assert (told["command"], told["example"]) == ("holdfast job retry 1", "1/0")
        await house.submit(after=[{"job": "1"}])
        (told,) = (await house.get("/jobs/2/explain")).value["reasons"]
        assert told["sentence"] == (
            "It ended FAILED: dependency_failed; it came after the success of 1."
        )
        assert told["command"] == "holdfast job retry 2"

    inside(story)


def summed(told) -> dict[str, tuple[int, int]]:
    return {each["code"]: (each["tasks"], each["jobs"]) for each in told["reasons"]}


def test_a_whole_server_tells_what_everything_waits_for(inside, monkeypatch):
    monkeypatch.setattr(census_module, "PORTION_JOBS", 1)

    async def story(house):
        assert (await house.get("/explain/summary")).value["waiting"] == 0
        await house.submit(4)
        await house.exchange(1)
        await house.submit(3)
        await house.submit(2, cpus=64)
        await house.submit(5, delay="1h")
        await house.submit(1, queue="big")
        await house.post("/queues/big/pause")
        told = (await house.get("/explain/summary")).value
        assert told["waiting"] == 13
        assert summed(told) == {
            "workers_busy": (5, 2), "not_begun": (5, 1), "too_large": (2, 1),
            "queue_paused": (1, 1),
        }  # fmt: skip
        assert told["reasons"][0]["means"]
        assert told["reasons"][0]["cure"]
        metrics = (await house.get("/metrics")).content.decode()
        assert 'holdfast_waiting_tasks{reason="workers_busy"} 5\n' in metrics
        listed = (await house.get("/jobs")).value["jobs"]
        assert [job["why"] for job in listed] == [
            "queue_paused", "not_begun", "too_large", "workers_busy", "workers_busy",
        ]  # fmt: skip

    inside(story)


def test_the_summary_and_the_reasons_of_each_task_agree(inside):
    async def story(house):
        await house.submit(3)
        await house.submit(2, max_parallel=1)
        await house.exchange(1, capacity={"slots": 8, "cpus_milli": 4_000, "memory_bytes": 0,
                                          "gpus": 0})  # fmt: skip
        await house.submit(6)
        first: dict[str, int] = {}
        for job, count in (("1", 3), ("2", 2), ("3", 6)):
            for index in range(count):
                told = (await house.get(f"/tasks/{job}/{index}/explain")).value
                if told["state"] == "WAITING":
                    code = told["reasons"][0]["code"]
                    first[code] = first.get(code, 0) + 1
        told = (await house.get("/explain/summary")).value
        assert {code: tasks for code, (tasks, _) in summed(told).items()} == first
        assert set(first) >= {"max_parallel"}

    inside(story)


def test_a_dry_run_tells_what_would_be_and_records_nothing(inside):
    async def story(house):
        body = {"command": {"argv": ["true"]}, "count": 3, "key": "once"}
        told = await house.post("/jobs?dry_run=true", body)
        assert (told.status, told.value["starting"], told.value["tasks"]) == (200, 0, 3)
        assert [reason["code"] for reason in told.value["reasons"]] == ["no_worker"]
        await house.submit(1)
        await house.exchange(1)
        position = house.served.coordinator.state.position
        told = (await house.post("/jobs?dry_run=true", body)).value
        assert told["workers"] == {"all": 1, "fitting": 1, "free": 1}
        assert told["starting"] == 1
        assert [(reason["code"], reason["tasks"]) for reason in told["reasons"]] == [
            ("next", 1), ("in_line", 2),
        ]  # fmt: skip
        assert told["reasons"][1]["command"] is None
        large = (await house.post("/jobs?dry_run=true", {**body, "cpus": 64})).value
        assert large["workers"] == {"all": 1, "fitting": 0, "free": 0}
        assert large["reasons"][0]["command"] == "holdfast worker list"
        assert house.served.coordinator.state.position == position
        made = (await house.post("/jobs", body)).value["id"]
        assert (await house.post("/jobs?dry_run=true", body)).value["existing"] == made

    inside(story)


def test_a_dry_run_refuses_what_would_be_refused(inside):
    async def story(house):
        for body in (
            {"command": {"argv": ["true"]}, "count": -1},
            {"command": {"argv": ["true"]}, "cpus": -1},
            {"command": {"argv": ["true"]}, "timeout": "soon"},
        ):
            told = await house.post("/jobs?dry_run=true", body)
            meant = await house.post("/jobs", body)
            assert (told.status, told.value["detail"]) == (meant.status, meant.value["detail"])
        assert (await house.post("/jobs?dry_run=maybe", body)).status == 422
        assert (await house.post("/jobs?dry_run=maybe", {**body, "timeout": ""})).status == 422

    inside(story)


def test_the_folder_of_a_server_tells_of_the_past_what_the_server_told_then(inside):
    async def story(house):
        path = house.served.log.path
        await house.submit(4)
        coordinator = house.served.coordinator
        alone = coordinator.state.position
        # Moments are told apart by position and millisecond, and a worker that joins moves no
        # position: it has to join in a later millisecond.
        coordinator.clock = SystemClock(Instant(coordinator.state.time + 1))
        await house.exchange(1, hello=HELLO)
        await house.submit(1, cpus=64)
        told = {
            job: (await house.get(f"/jobs/{job}/explain?level=3")).value for job in ("1", "2")
        }
        source = FromFolder(path)
        for job, view in told.items():
            again = source.explain_job(source.job(job), 3)
            assert again["reasons"] == view["reasons"]
            assert again["standing"] == view["standing"]
        then = FromFolder(path, Moment(position=alone))
        reasons = then.explain_job(then.job("1"))["reasons"]
        assert [(reason["code"], reason["tasks"]) for reason in reasons] == [("no_worker", 4)]
        assert then.summary()["waiting"] == 4

    inside(story)
