"""Schedules over HTTP: made, repeated, replaced as meant, run by hand; mistakes change nothing."""

import msgspec
import pytest

JOB = {"command": {"argv": ["true"]}, "queue": "slow"}


def body(name="nightly", **changes):
    return {"name": name, "cron": "30 2 * * *", "zone": "Europe/Berlin", "job": JOB, **changes}


def table(**changes):
    return {key: value for key, value in body(**changes).items() if key != "name"}


def test_a_schedule_is_made_shown_listed_and_removed(inside):
    async def story(house):
        told = await house.post("/schedules", body())
        assert told.status == 201, told.content
        assert told.headers["etag"]
        assert told.value["state"] == "ACTIVE"
        assert told.value["job"]["spec"]["labels"] == {"schedule": "nightly"}
        assert len(told.value["coming"]) == 5
        again = await house.post("/schedules", body())
        assert again.status == 200
        listed = await house.get("/schedules")
        assert [view["name"] for view in listed.value["schedules"]] == ["nightly"]
        assert (await house.get("/schedules?namespace=other")).value["schedules"] == []
        coming = await house.get("/schedules/nightly/next?count=3")
        assert coming.value["coming"] == told.value["coming"][:3]
        assert (await house.ask("DELETE", "/schedules/nightly")).status == 200
        assert (await house.get("/schedules/nightly")).code == "not_found"

    inside(story)


@pytest.mark.parametrize(
    "changes",
    [
        {"cron": ""},
        {"every": "10m"},
        {"cron": "", "every": "0s"},
        {"cron": "", "every": "999ms"},
        {"cron": "", "every": "soon"},
        {"cron": "0 0 30 2 *"},
        {"cron": "* * * * * *"},
        {"zone": "Mars/Olympus"},
        {"missed": "some"},
        {"overlap": "queue"},
        {"start": "tomorrow"},
        {"name": ""},
        {"job": {}},
        {"job": {**JOB, "key": "k"}},
        {"job": {**JOB, "delay": "5s"}},
        {"job": {**JOB, "sealed": False}},
        {"job": {**JOB, "retries": -1}},
    ],
    ids=str,
)
def test_a_mistake_is_told_and_nothing_is_recorded(inside, changes):
    async def story(house):
        before = house.served.coordinator.state.position
        told = await house.post("/schedules", body(**changes))
        assert told.status == 422, told.content
        assert told.headers["content-type"] == "application/problem+json"
        assert told.value["detail"]
        assert house.served.coordinator.state.position == before

    inside(story)


def test_a_name_in_use_is_a_conflict_and_replacing_names_what_is_meant(inside):
    async def story(house):
        first = await house.post("/schedules", body())
        other = body(overlap="replace")
        assert (await house.post("/schedules", other)).code == "conflict"
        tag = first.headers["etag"]
        wrong = await house.ask(
            "PUT", "/schedules/nightly", table(overlap="replace"), if_match='"7777"'
        )
        assert wrong.code == "precondition_failed"
        there = await house.ask(
            "PUT", "/schedules/nightly", table(overlap="replace"), if_none_match="*"
        )
        assert there.code == "precondition_failed"
        right = await house.ask("PUT", "/schedules/nightly", table(overlap="replace"), if_match=tag)
        assert right.status == 200, right.content
        assert right.value["overlap"] == "replace"
        assert right.headers["etag"] != tag
        stale = await house.ask("DELETE", "/schedules/nightly", if_match=tag)
        assert stale.code == "precondition_failed"
        fresh = await house.ask("PUT", "/schedules/other", table(), if_none_match="*")
        assert fresh.status == 201

    inside(story)


def test_a_run_by_hand_is_one_job_however_often_it_is_asked(inside):
    made = {}

    async def story(house):
        await house.post("/schedules", body())
        told = await house.post("/schedules/nightly/run", idempotency_key="once")
        assert told.status == 201
        made.update(id=told.value["job_id"], token=house.admin)
        again = await house.post("/schedules/nightly/run", idempotency_key="once")
        assert again.value == told.value
        job = house.served.coordinator.state.jobs[made["id"]]
        command = msgspec.msgpack.decode(job.shared)
        assert command["env"]["HOLDFAST_SCHEDULED_AT"].startswith("20")
        assert len(house.served.coordinator.state.jobs) == 1

    async def after_a_restart(house):
        again = await house.post(
            "/schedules/nightly/run", token=made["token"], idempotency_key="once"
        )
        assert again.value["job_id"] == made["id"]
        assert len(house.served.coordinator.state.jobs) == 1
        shown = await house.get("/schedules/nightly")
        assert (shown.value["last_job"], shown.value["runs"]) == (made["id"], 1)

    inside(story)
    inside(after_a_restart)


def test_a_backfill_tells_its_jobs_and_repeats_none(inside):
    async def story(house):
        await house.post("/schedules", body())
        wanted = {"first": "2026-03-28T00:00:00Z", "last": "2026-03-31T00:00:00Z"}
        told = await house.post("/schedules/nightly/backfill", wanted, idempotency_key="b")
        assert (len(told.value["job_ids"]), told.value["instants"]) == (3, 3)
        again = await house.post("/schedules/nightly/backfill", wanted)
        assert (again.value["job_ids"], again.value["instants"]) == ([], 3)
        for wrong in (
            {"first": "2026-03-28T00:00:00Z", "last": "2999-01-01T00:00:00Z"},
            {"first": "2026-03-28T00:00:00Z", "last": "2026-03-27T00:00:00Z"},
            {"first": "yesterday"},
            {"first": ""},
        ):
            assert (await house.post("/schedules/nightly/backfill", wrong)).code == "invalid"
        much = {"first": "1990-01-01T00:00:00Z"}
        assert (await house.post("/schedules/nightly/backfill", much)).code == "too_large"
        assert len(house.served.coordinator.state.jobs) == 3

    inside(story)


def test_a_pause_is_shown_with_its_reason_until_it_is_resumed(inside):
    async def story(house):
        await house.post("/schedules", body())
        paused = await house.post("/schedules/nightly/pause", {"reason": "holidays"})
        assert (paused.value["state"], paused.value["reason"]) == ("PAUSED", "holidays")
        assert paused.value["next_at"] is None
        resumed = await house.post("/schedules/nightly/resume", {})
        assert (resumed.value["state"], resumed.value["reason"]) == ("ACTIVE", None)
        for verb in ("pause", "resume", "run"):
            assert (await house.post(f"/schedules/nobody/{verb}", {})).code == "not_found"
        wanted = {"first": "2026-03-28T00:00:00Z"}
        assert (await house.post("/schedules/nobody/backfill", wanted)).code == "not_found"
        assert (await house.get("/schedules/nobody/next")).code == "not_found"

    inside(story)


@pytest.mark.parametrize(
    ("scope", "method", "path", "is_allowed"),
    [
        ("read", "GET", "/schedules", True),
        ("read", "POST", "/schedules", False),
        ("submit", "POST", "/schedules", True),
        ("submit", "PUT", "/schedules/nightly", False),
        ("submit", "POST", "/schedules/nightly/pause", False),
        ("operator", "POST", "/schedules/nightly/pause", True),
        ("cancel", "DELETE", "/schedules/nightly", False),
        ("operator", "DELETE", "/schedules/nightly", True),
    ],
)
def test_who_may_do_what(inside, scope, method, path, is_allowed):
    async def story(house):
        token = await house.token(scope)
        told = await house.ask(method, path, body() if method != "GET" else None, token=token)
        assert (told.status == 403) != is_allowed

    inside(story)
