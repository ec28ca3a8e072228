"""Where a job may run, beside which and after what, over HTTP: recorded, shown and refused."""

import pytest

COMMAND = {"command": {"argv": ["true"]}}
CAPACITY = {"slots": 2, "cpus_milli": 2_000, "memory_bytes": 2**30, "gpus": 0}


async def offering(house, **resources):
    """A worker of two slots that offers these, in the zone eu."""
    await house.exchange(
        1,
        leave=True,
        capacity={**CAPACITY, "resources": [[name, n * 1_000] for name, n in resources.items()]},
        hello={
            "host": "h", "pid": 1, "version": "1", "attributes": [["zone", "eu"], ["cores", "8"]],
        },
    )  # fmt: skip


def test_everything_that_was_asked_for_is_recorded_and_shown(inside):
    async def story(house):
        first = await house.submit(3)
        told = await house.post(
            "/jobs",
            {
                **COMMAND,
                "count": 2,
                "resources": {"licence": 0.5},
                "constraints": [
                    "zone == eu",
                    {"attribute": "os", "operator": "exists", "weight": 3},
                ],
                "keys": {"customer-42": 1},
                "spread": "pack",
                "gang": True,
                "gang_by": "rack",
                "preempt": True,
                "after": [{"job": first, "task": 1, "condition": "failure"}, {"job": first}],
                "on_failed_parent": "wait",
                "key": "nightly",
                "unique_for": "1h",
                "existing": "replace",
            },
        )
        assert told.status == 201, told.content
        job = (await house.get("/jobs/2")).value
        assert job["after"] == [
            {"job": "1", "task": 1, "condition": "failure"},
            {"job": "1", "task": None, "condition": "success"},
        ]
        assert (job["blocked"], job["on_failed_parent"]) == (True, "wait")
        assert (job["parent"], job["detached"], job["user"]) == (None, False, "test")
        assert job["spec"]["placing"] == {
            "resources": {"licence": 0.5},
            "constraints": [
                {"attribute": "zone", "operator": "eq", "values": ["eu"], "weight": 0},
                {"attribute": "os", "operator": "exists", "values": [], "weight": 3},
            ],
            "keys": {"customer-42": 1},
            "spread": "pack",
            "gang": True,
            "gang_by": "rack",
            "preempt": True,
        }
        tasks = (await house.get("/jobs/2/tasks")).value["tasks"]
        assert [task["blocked"] for task in tasks] == [True, True]
        listed = (await house.get("/jobs")).value["jobs"]
        assert [(each["blocked"], each["user"]) for each in listed] == [
            (True, "test"), (False, "test"),
        ]  # fmt: skip

    inside(story)


def test_a_child_names_its_parent_and_ends_with_it(inside):
    async def story(house):
        parent = await house.submit()
        await house.submit(parent=parent)
        await house.submit(parent=parent, detached=True)
        assert (await house.get("/jobs/2")).value["parent"] == parent
        await house.post(f"/jobs/{parent}/cancel")
        states = {job["id"]: job["state"] for job in (await house.get("/jobs")).value["jobs"]}
        assert states == {"1": "KILLED", "2": "KILLED", "3": "PENDING"}
        late = await house.post("/jobs", {**COMMAND, "parent": parent})
        assert (late.status, late.code) == (409, "conflict")

    inside(story)


@pytest.mark.parametrize(
    ("wish", "status", "code"),
    [
        ({"resources": {"licence": -1}}, 422, "invalid"),
        ({"resources": {"licence": 0.0001}}, 422, "invalid"),
        ({"resources": {"": 1}}, 422, "invalid"),
        ({"resources": {"cpus": 1}}, 422, "invalid"),
        ({"resources": {"licence": "one"}}, 422, "invalid"),
        ({"constraints": ["zone ~ eu"]}, 422, "invalid"),
        ({"constraints": ["cores >= many"]}, 422, "invalid"),
        ({"constraints": ["500 zone == eu"]}, 422, "invalid"),
        ({"constraints": [{"attribute": "zone", "operator": "like"}]}, 422, "invalid"),
        ({"constraints": [{"attribute": "zone", "operator": "eq"}]}, 422, "invalid"),
        ({"constraints": [{"attribute": "a", "operator": "exists", "why": 1}]}, 422, "invalid"),
        ({"keys": {"customer": -1}}, 422, "invalid"),
        ({"spread": "wide"}, 422, "invalid"),
        ({"gang_by": "rack"}, 422, "invalid"),
        ({"gang": True, "max_parallel": 1}, 422, "invalid"),
        ({"after": [{"job": "1"}]}, 422, "invalid"),
        ({"after": [{"job": "9"}]}, 404, "not_found"),
        ({"after": [{"job": ""}]}, 422, "invalid"),
        ({"after": [{"job": "9", "condition": "maybe"}]}, 422, "invalid"),
        ({"parent": "1"}, 422, "invalid"),
        ({"parent": "9"}, 404, "not_found"),
        ({"detached": True}, 422, "invalid"),
        ({"on_failed_parent": "shrug"}, 422, "invalid"),
        ({"existing": "replace"}, 422, "invalid"),
        ({"existing": "shrug", "key": "k"}, 422, "invalid"),
        ({"unique_for": "1h"}, 422, "invalid"),
        ({"unique_for": "soon", "key": "k"}, 422, "invalid"),
        ({"user": "somebody"}, 422, "invalid"),
    ],
)
def test_wishes_that_make_no_sense_are_refused_and_leave_nothing(inside, wish, status, code):
    async def story(house):
        told = await house.post("/jobs", {**COMMAND, **wish})
        assert (told.status, told.code) == (status, code), told.content
        assert (await house.get("/jobs")).value["jobs"] == []

    inside(story)


def test_who_asks_is_told_by_the_token_and_no_part_of_what_a_key_stands_for(inside):
    async def story(house):
        await house.submit(key="nightly")
        reader = await house.token("submit")
        again = await house.post("/jobs", {**COMMAND, "count": 1, "key": "nightly"}, token=reader)
        assert (again.status, again.value["id"]) == (200, "1")

    inside(story)


def test_a_resource_that_nobody_offers_is_refused_once_somebody_could_have_offered_it(inside):
    async def story(house):
        wish = {**COMMAND, "resources": {"licence": 1}}
        assert (await house.post("/jobs", wish)).status == 201
        await offering(house, scratch=4)
        refused = await house.post("/jobs", wish)
        assert (refused.status, refused.code) == (422, "invalid")
        assert "they offer scratch" in refused.value["detail"]
        assert "holdfast worker start --resource licence=N" in refused.value["detail"]
        assert (await house.post("/jobs", {**COMMAND, "resources": {"scratch": 9}})).status == 201
        assert len((await house.get("/jobs")).value["jobs"]) == 2

    inside(story)


def test_a_key_finds_its_job_although_nobody_offers_its_resource_any_more(inside):
    async def story(house):
        wish = {**COMMAND, "resources": {"licence": 1}, "key": "k", "must_fit": False}
        assert (await house.post("/jobs", wish, idempotency_key="a")).status == 201
        await offering(house)
        assert (await house.post("/jobs", wish)).value["id"] == "1"
        replaced = await house.post("/jobs", {**wish, "existing": "replace"})
        assert (replaced.status, replaced.code) == (422, "invalid")

    inside(story)


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({"cpus": 3}, "w1 has 2 cpus, not 3 cpus"),
        ({"memory": "2Gi"}, "w1 has 1Gi of memory, not 2Gi of memory"),
        ({"gpus": 1}, "w1 has 0 gpus, not 1 gpu"),
        ({"resources": {"licence": 2}}, "w1 has 1 licence, not 2 licence"),
        ({"constraints": ["zone == us"]}, "w1 is not zone == us"),
        ({"constraints": ["rack exists"]}, "w1 is not rack exists"),
        ({"gang": True, "count": 3}, "a gang of 3, and the workers have room for 2"),
        ({"gang": True, "gang_by": "rack", "count": 2}, "that agree in rack have room for 0"),
    ],
)
def test_what_must_fit_and_does_not_is_refused_with_every_reason(inside, wish, why):
    async def story(house):
        await offering(house, licence=1)
        body = {**COMMAND, **wish}
        refused = await house.post("/jobs", {**body, "must_fit": True})
        assert (refused.status, refused.code) == (409, "unschedulable")
        assert any(why in reason for reason in refused.value["reasons"]), refused.value
        assert (await house.get("/jobs")).value["jobs"] == []
        assert (await house.post("/jobs", body)).status == 201

    inside(story)


def test_what_must_fit_needs_a_worker_that_takes_work(inside):
    async def story(house):
        fits = {
            **COMMAND, "resources": {"licence": 1}, "constraints": ["zone in eu,us", "cores >= 8"],
            "gang": True, "gang_by": "zone", "count": 2, "cpus": 1, "must_fit": True,
        }  # fmt: skip
        assert (await house.post("/jobs", fits)).code == "unschedulable"
        await offering(house, licence=2)
        assert (await house.post("/jobs", fits)).status == 201
        await house.post("/workers/w1/cordon")
        refused = await house.post("/jobs", fits)
        assert refused.value["reasons"] == ["no worker is there to take it"]

    inside(story)


def test_a_worker_shows_what_it_offers_by_name(inside):
    async def story(house):
        await offering(house, licence=2)
        assert (await house.get("/workers/w1")).value["resources"] == {"licence": 2.0}

    inside(story)


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"resources": {"licences": 1}}, "invalid"),
        ({"constraints": ["zone ~ eu"]}, "invalid"),
        ({"cpus": 64, "must_fit": True}, "unschedulable"),
        ({"after": [{"job": "1"}]}, "invalid"),
        ({"parent": "1"}, "invalid"),
        ({"key": "k", "unique_for": "1h"}, "invalid"),
    ],
)
def test_a_schedule_is_held_to_the_same_words(inside, wish, code):
    async def story(house):
        await offering(house, licence=1)
        told = await house.post(
            "/schedules", {"name": "nightly", "every": "1h", "job": {**COMMAND, **wish}}
        )
        assert told.code == code, told.content
        assert (await house.get("/schedules")).value["schedules"] == []

    inside(story)


def test_runs_of_a_schedule_have_its_wishes_and_its_user(inside):
    async def story(house):
        wish = {"constraints": ["zone == eu"], "keys": {"k": 1}}
        told = await house.post(
            "/schedules", {"name": "nightly", "every": "1h", "job": {**COMMAND, **wish}}
        )
        assert told.status == 201, told.content
        await house.post("/schedules/nightly/run")
        job = (await house.get("/jobs/1")).value
        assert job["user"] == "test"
        assert job["spec"]["placing"]["keys"] == {"k": 1}

    inside(story)


async def failed_job(house):
    """A job whose only task has spent its budget."""
    await house.submit()
    run = (await house.exchange(1)).value["runs"][0]
    leased = {"job_id": "1", "index": 0, "lease_id": run["items"][0]["lease_id"], "ran_ms": 1}
    failed = {**leased, "reason": "failed", "error": "no", "traceback": "", "exit_code": 1}
    await house.exchange(2, started=[leased], failed=[failed])
    assert (await house.get("/jobs/1")).value["state"] == "FAILED"


def test_a_job_is_sent_back_under_other_terms(inside):
    async def story(house):
        await failed_job(house)
        terms = {"retries": 5, "memory": "4Gi", "constraints": ["zone == eu"]}
        told = await house.post("/jobs/1/retry", {"set": terms})
        assert told.value == {"retried": 1}, told.content
        spec = (await house.get("/jobs/1")).value["spec"]
        assert (spec["retries"], spec["memory_bytes"]) == (5, 4 * 2**30)
        assert spec["placing"]["constraints"][0]["values"] == ["eu"]
        assert spec["target"] == "true"

    inside(story)


@pytest.mark.parametrize(
    "terms",
    [
        {"retries": -1}, {"memory": "much"}, {"constraints": ["zone ~ a"]}, {"target": "other"},
        {"command": {"argv": ["rm"]}}, {"resources": {"licence": -1}}, {"gang": True},
    ],
)  # fmt: skip
def test_terms_that_make_no_sense_send_nothing_back(inside, terms):
    async def story(house):
        await failed_job(house)
        told = await house.post("/jobs/1/retry", {"set": terms})
        assert (told.status, told.code) == (422, "invalid"), told.content
        assert (await house.get("/jobs/1")).value["state"] == "FAILED"

    inside(story)
