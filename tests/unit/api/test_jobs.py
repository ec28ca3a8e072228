"""Jobs over HTTP: what is asked, what is answered, and what is refused."""

import asyncio
import base64

import msgspec
import pytest

from holdfast.wire.bodies import Command, Submit

COMMAND = {"command": {"argv": ["true"]}}


def done(job_id: str, index: int, lease_id: int, result: bytes = b"") -> dict[str, object]:
    told = base64.b64encode(result).decode()
    return {
        "job_id": job_id, "index": index, "lease_id": lease_id, "ran_ms": 1, "result": told,
    }  # fmt: skip


async def run_all(house, job_id: str, count: int, number: int = 1) -> int:
    """Play a worker until every task of the job has succeeded; the next number to use."""
    runs = (await house.exchange(number)).value["runs"]
    while count:
        items = [item for run in runs for item in run["items"]]
        started = [
            {"job_id": job_id, "index": i["index"], "lease_id": i["lease_id"], "ran_ms": 0}
            for i in items
        ]
        ends = [done(job_id, i["index"], i["lease_id"], b"r%d" % i["index"]) for i in items]
        number, count = number + 1, count - len(items)
        told = await house.exchange(number, started=started, done=ends)
        assert told.value["verdicts"] == []
        runs = told.value["runs"]
    return number + 1


def test_a_job_is_made_shown_and_listed(inside):
    async def story(house):
        told = await house.post("/jobs", {**COMMAND, "name": "first", "labels": {"team": "a"}})
        assert told.status == 201
        assert told.headers["location"] == "/api/v1/jobs/1"
        shown = await house.get("/jobs/1")
        assert shown.value == told.value
        assert shown.value["spec"]["labels"] == {"team": "a"}
        listed = (await house.get("/jobs")).value
        assert [job["id"] for job in listed["jobs"]] == ["1"]
        assert (listed["schema"], listed["next"]) == (1, None)

    inside(story)


def test_an_unchanged_job_is_not_told_twice(inside):
    async def story(house):
        await house.submit()
        tag = (await house.get("/jobs/1")).headers["etag"]
        again = await house.get("/jobs/1", if_none_match=tag)
        assert (again.status, again.content) == (304, b"")
        await house.post("/jobs/1/cancel")
        assert (await house.get("/jobs/1", if_none_match=tag)).status == 200

    inside(story)


def test_programs_speak_msgpack(inside):
    async def story(house):
        body = msgspec.msgpack.encode(Submit(command=Command(argv=["true"])))
        packed = "application/msgpack"
        told = await house.post("/jobs", body, content_type=packed, accept=packed)
        assert (told.status, told.headers["content-type"]) == (201, packed)
        assert told.value["id"] == "1"
        refused = await house.get("/jobs/9", accept=packed)
        assert (refused.headers["content-type"], refused.code) == (packed, "not_found")

    inside(story)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "malformed"),
        (b"[" * 100_000, 422, "invalid"),
        (b'{"name": "\xff"}', 400, "malformed"),
        (b"[]", 422, "invalid"),
        ({"nobody": 1}, 422, "invalid"),
        ({}, 422, "invalid"),
        ({"command": {"argv": []}}, 422, "invalid"),
        ({**COMMAND, "kind": "magic"}, 422, "invalid"),
        ({**COMMAND, "count": -1}, 422, "invalid"),
        ({**COMMAND, "count": 10**30}, 413, "too_large"),
        ({**COMMAND, "count": 10**9}, 413, "too_large"),
        ({**COMMAND, "timeout": "soon"}, 422, "invalid"),
        ({**COMMAND, "not_before": "tomorrow"}, 422, "invalid"),
        ({**COMMAND, "not_before": "2026-03-01T12:00:00"}, 422, "invalid"),
        ({**COMMAND, "priority": 10**40}, 422, "invalid"),
        ({**COMMAND, "retries": "3"}, 422, "invalid"),
        ({**COMMAND, "items": ["AA=="]}, 422, "invalid"),
        ({"kind": "function", "items": ["AA=="]}, 422, "invalid"),
        ({**COMMAND, "retry": {"backoff": "never"}}, 422, "invalid"),
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(inside, body, status, code):
    async def story(house):
        told = await house.post("/jobs", body)
        assert (told.status, told.code) == (status, code), told.content
        assert told.headers["content-type"] == "application/problem+json"
        assert (await house.get("/jobs")).value["jobs"] == []

    inside(story)


def test_a_body_of_another_type_is_refused_and_the_right_one_is_named(inside):
    async def story(house):
        told = await house.post("/jobs", b"a=b", content_type="application/x-www-form-urlencoded")
        assert (told.status, told.code) == (415, "unsupported_media_type")
        assert "application/json" in told.value["detail"]

    inside(story)


def test_a_key_finds_its_job_and_no_other(inside):
    async def story(house):
        first = await house.post("/jobs", {**COMMAND, "key": "nightly"})
        again = await house.post("/jobs", {**COMMAND, "key": "nightly"})
        assert (first.status, again.status) == (201, 200)
        assert first.value["id"] == again.value["id"]
        other = await house.post("/jobs", {**COMMAND, "key": "nightly", "count": 2})
        assert (other.status, other.code) == (422, "key_reused")

    inside(story)


def test_an_open_job_is_fed_and_sealed(inside):
    async def story(house):
        body = {"kind": "function", "target": "m:f", "sealed": False}
        assert (await house.post("/jobs", body)).status == 201
        told = await house.post("/jobs/1/items", {"first": 0, "items": ["AA==", "AQ=="]})
        assert told.value == {"count": 2}
        wrong = await house.post("/jobs/1/items", {"first": 1, "items": ["AA==", "AQ=="]})
        assert (wrong.status, wrong.code) == (409, "conflict")
        assert (await house.post("/jobs/1/alive")).value == {}
        assert (await house.post("/jobs/1/seal", {"count": 2})).value == {}
        late = await house.post("/jobs/1/items", {"first": 2, "items": ["AA=="]})
        assert (late.status, late.code) == (409, "job_sealed")
        assert (await house.get("/jobs/1")).value["sealed"]

    inside(story)


def test_a_job_is_stopped_and_what_a_limit_stopped_is_sent_back(inside):
    async def story(house):
        await house.submit(5)
        told = await house.post("/jobs/1/cancel", {"reason": "wrong input"})
        assert told.value == {"stopped": 5}
        assert (await house.post("/jobs/1/cancel")).value == {"stopped": 0}
        assert (await house.get("/jobs/1")).value["state"] == "KILLED"
        assert (await house.post("/jobs/1/retry")).value == {"retried": 0}
        refused = await house.post("/jobs/1/retry", {"indices": [0]})
        assert (refused.status, refused.code) == (409, "invalid_transition")

    inside(story)


def test_a_job_that_is_not_there_says_whether_it_ever_was(inside):
    async def story(house):
        paths = (("GET", ""), ("POST", "/cancel"), ("POST", "/alive"), ("GET", "/tasks"))
        for method, path in paths:
            told = await house.ask(method, f"/jobs/77{path}", {})
            assert (told.status, told.code) == (404, "not_found")
        odd = await house.get("/jobs/%2e%2e%2fetc%00")
        assert odd.status == 404

    inside(story)


def test_waiting_ends_with_the_job(inside):
    async def story(house):
        await house.submit(3)
        waiting = asyncio.ensure_future(house.get("/jobs/1?wait=5m"))
        await run_all(house, "1", 3)
        assert (await waiting).value["state"] == "SUCCEEDED"
        assert (await house.get("/jobs/1?wait=5m")).value["state"] == "SUCCEEDED"

    inside(story)


def test_waiting_ends_when_the_time_is_up_the_asker_goes_or_the_server_leaves(inside):
    async def story(house):
        await house.submit()
        assert (await house.get("/jobs/1?wait=1ms")).value["state"] == "PENDING"
        assert (await house.get("/jobs/1?wait=5m", leave=True)).status == 200
        waiting = asyncio.ensure_future(house.get("/jobs/1?wait=5m"))
        await asyncio.sleep(0)
        house.service.leave()
        assert (await waiting).value["state"] == "PENDING"
        assert not house.served.coordinator.watchers.held()
        assert (await house.get("/jobs/1?wait=later")).code == "invalid"

    inside(story)


def test_pages_show_every_job_once_newest_first(inside):
    async def story(house):
        await asyncio.gather(*(house.submit(name=f"n{number}") for number in range(25)))
        seen, cursor = [], ""
        while cursor is not None:
            told = (await house.get(f"/jobs?limit=10&cursor={cursor}")).value
            seen += [job["name"] for job in told["jobs"]]
            cursor = told["next"]
            if len(seen) == 10:
                # What comes meanwhile is not on the pages that follow.
                await house.submit(name="late")
        assert seen == [f"n{number}" for number in reversed(range(25))]

    inside(story)


def test_lists_are_narrowed_by_what_the_jobs_are(inside):
    async def story(house):
        await house.submit(name="alpha", labels={"team": "a", "tier": "1"})
        await house.submit(name="beta", labels={"team": "b"}, namespace="lab", queue="slow")
        await house.post("/jobs/2/cancel")

        async def names(query: str) -> list[str]:
            told = await house.get(f"/jobs?{query}")
            return [job["name"] for job in told.value["jobs"]]

        assert await names("state=killed,failed") == ["beta"]
        assert await names("state=pending") == ["alpha"]
        assert await names("name=al*") == ["alpha"]
        assert await names("label=team=a&label=tier=1") == ["alpha"]
        assert await names("label=team=a&label=tier=2") == []
        assert await names("namespace=lab") == ["beta"]
        assert await names("queue=slow") == ["beta"]
        for wrong in ("state=odd", "limit=x", "limit=1&limit=2", "label=x", "cursor=-1"):
            assert (await house.get(f"/jobs?{wrong}")).code == "invalid"

    inside(story)


def test_tasks_come_in_pages_and_by_state(inside):
    async def story(house):
        await house.submit(5)
        await house.post("/tasks/1/3/cancel")
        told = (await house.get("/jobs/1/tasks?limit=2")).value
        assert [task["index"] for task in told["tasks"]] == [0, 1]
        rest = (await house.get(f"/jobs/1/tasks?cursor={told['next']}")).value
        assert [task["index"] for task in rest["tasks"]] == [2, 3, 4]
        assert rest["next"] is None
        killed = (await house.get("/jobs/1/tasks?state=killed")).value
        assert [task["index"] for task in killed["tasks"]] == [3]

    inside(story)


def test_results_and_attempts_are_told_from_the_log(inside):
    async def story(house):
        await house.submit(4, max_failed_tasks=3)
        await run_all(house, "1", 4)
        told = (await house.get("/jobs/1/outcomes?indices=0-2,3")).value["outcomes"]
        assert [base64.b64decode(each["result"]) for each in told] == [b"r0", b"r1", b"r2", b"r3"]
        assert {each["state"] for each in told} == {"SUCCEEDED"}
        task = (await house.get("/tasks/1/2")).value
        assert task["state"] == "SUCCEEDED"
        assert [attempt["status"] for attempt in task["attempts"]] == ["DONE"]
        assert task["attempts"][0]["worker"] == "w1"
        for wrong, code in (
            ("", "invalid"),
            ("indices=a", "invalid"),
            ("indices=0-2000", "too_large"),
            ("indices=0-999,5000-5999", "too_large"),
            ("indices=4", "not_found"),
        ):
            assert (await house.get(f"/jobs/1/outcomes?{wrong}")).code == code
        assert (await house.get("/tasks/1/4")).code == "not_found"
        assert (await house.get("/tasks/1/x")).code == "not_found"

    inside(story)


def test_a_failed_task_tells_what_it_ended_with(inside):
    async def story(house):
        await house.submit(2)
        run = (await house.exchange(1)).value["runs"][0]
        item = run["items"][0]
        where = {"job_id": "1", "index": 0, "lease_id": item["lease_id"], "ran_ms": 1}
        failed = {**where, "reason": "failed", "error": "no", "traceback": "tb", "exit_code": 3}
        await house.exchange(2, started=[where], failed=[failed])
        await house.post("/jobs/1/cancel", {"reason": "enough"})
        first, second = (await house.get("/jobs/1/outcomes?indices=0,1")).value["outcomes"]
        assert (first["state"], first["error"], first["exit_code"]) == ("QUARANTINED", "no", 3)
        assert (second["state"], second["result"]) == ("KILLED", None)
        assert second["error"] == "enough"
        shown = (await house.get("/tasks/1/0")).value
        assert (shown["error"], shown["failures"]["used"]) == ("no", 1)
        assert (await house.post("/jobs/1/retry")).value == {"retried": 1}

    inside(story)


def test_a_waiting_task_is_moved_in_time(inside):
    async def story(house):
        await house.submit()
        assert (await house.post("/tasks/1/0/reschedule", {"delay": "1h"})).value == {}
        assert (await house.get("/jobs/1/tasks")).value["tasks"][0]["not_before"] is not None
        both = {"delay": "1h", "not_before": "2030-01-01T00:00:00Z"}
        assert (await house.post("/tasks/1/0/reschedule", both)).code == "invalid"
        await house.post("/tasks/1/0/cancel")
        assert (await house.post("/tasks/1/0/reschedule")).code == "invalid_transition"

    inside(story)


def test_a_command_that_is_to_run_no_time_is_refused_and_the_field_is_named(inside):
    async def story(house):
        body = {"command": {"argv": ["true"]}}
        told = await house.post("/jobs", {**body, "count": 0})
        assert (told.status, told.code) == (422, "invalid")
        assert "`count` is 0" in told.value["detail"]
        assert (await house.post("/jobs", body)).value["tasks"] == 1
        assert (await house.post("/jobs", {**body, "count": 3})).value["tasks"] == 3

    inside(story)
