"""What commits owe, asked over HTTP: pages, one entry, retried and given up."""

import base64

import msgspec

from holdfast.core import commands as c
from holdfast.core.ids import Index, JobId
from holdfast.core.owed import DebtName
from holdfast.wire.sinks import FileSink

SINKS = {"ledger": FileSink(path="/nowhere/ledger")}


def entry(body, *, key="", kind="effect", place="ledger"):
    packed = base64.b64encode(msgspec.msgpack.encode(body)).decode()
    return {"kind": kind, "place": place, "key": key, "body": packed}


async def committed(house, *owed, number=1):
    """A job whose only task has committed, and owes these."""
    house.served.exchanges.adjust_sinks(SINKS)
    job = await house.submit()
    hello = {"host": "here", "pid": 1, "version": "1"}
    told = await house.exchange(number, hello=hello)
    (item,) = [item for run in told.value["runs"] for item in run["items"]]
    done = {
        "job_id": job, "index": 0, "lease_id": item["lease_id"], "ran_ms": 1,
        "result": "wA==", "owed": list(owed),
    }  # fmt: skip
    told = await house.exchange(number + 1, done=[done])
    assert told.status == 200, told.content
    assert (await house.get(f"/tasks/{job}/0")).value["state"] == "COMMITTED"
    return job


async def park(house, job, *numbers):
    names = tuple(DebtName(JobId(job), Index(0), number) for number in numbers)
    await house.served.ask(
        lambda k: k.execute(c.ParkEffects(names=names, error="no answer"), actor="test")
    )


def test_a_list_comes_in_pages_in_the_order_of_the_commits(inside):
    async def story(house):
        job = await committed(house, *(entry(n, key="k") for n in range(5)))
        found, cursor = [], ""
        while cursor is not None:
            told = (await house.get(f"/effects?limit=2&cursor={cursor}")).value
            found += [view["id"] for view in told["effects"]]
            assert len(told["effects"]) <= 2
            cursor = told["next"]
        assert found == [f"{job}/0.{n}" for n in range(5)]
        await park(house, job, 3)
        told = (await house.get("/effects?state=parked,ready&kind=effect&sink=ledger")).value
        assert [view["id"] for view in told["effects"]] == [f"{job}/0.3"]
        assert (await house.get(f"/effects?job={job}0")).value["effects"] == []
        assert len((await house.get("/effects?state=owed")).value["effects"]) == 5

    inside(story)


def test_after_a_restart_the_order_is_the_same(inside):
    async def before(house):
        await committed(house, entry(1), entry(2))
        await committed(house, entry(3), number=3)

    async def after(house):
        told = (await house.get("/effects?limit=2")).value
        rest = (await house.get(f"/effects?cursor={told['next']}")).value
        ids = [view["id"] for view in told["effects"] + rest["effects"]]
        assert ids == ["1/0.0", "1/0.1", "2/0.0"]
        assert {view["code"] for view in told["effects"]} == {"no_sink"}

    inside(before)
    inside(after)


def test_what_makes_no_sense_is_told(inside):
    async def story(house):
        for query in ("state=lost", "kind=letter", "cursor=x", "cursor=1/2", "limit=many"):
            told = await house.get(f"/effects?{query}")
            assert (told.status, told.code) == (422, "invalid"), query
        for path in ("/effects/1/0", "/effects/1/0.0", "/effects/9/x.y", "/effects/1/0.-1"):
            told = await house.get(path)
            assert (told.status, told.code) == (404, "not_found"), path
        for body in ({}, {"ids": ["x"]}, {"ids": ["1/0.0"], "every": True}):
            told = await house.post("/effects/retry", body)
            assert (told.status, told.code) == (422, "invalid"), body
        told = await house.post("/effects/discard", {"every": True})
        assert (told.status, told.code) == (422, "invalid")
        assert "reason" in told.value["detail"]
        told = await house.post("/effects/retry", {"ids": ["7/0.0"]})
        assert (told.status, told.code) == (404, "not_found")

    inside(story)


def test_one_entry_is_shown_with_its_body_and_its_tries_and_also_when_it_is_settled(inside):
    async def story(house):
        job = await committed(house, entry({"to": "ann"}, key="k"))
        await park(house, job, 0)
        told = (await house.get(f"/effects/{job}/0.0")).value
        assert (told["state"], told["key"], told["place"]) == ("PARKED", "k", "ledger")
        assert told["body"] == {"to": "ann"}
        log = house.served.log.log_id
        assert told["idempotency_key"] == f"{log}:{job}/0:{told['position']}:0"
        assert [each["action"] for each in told["history"]] == ["effect_parked"]
        assert told["history"][0]["details"]["error"] == "no answer"
        assert told["history_complete"] is True
        body = {"ids": [f"{job}/0.0"], "reason": "by hand"}
        assert (await house.post("/effects/discard", body)).value["discarded"] == 1
        told = (await house.get(f"/effects/{job}/0.0")).value
        assert (told["state"], told["tries"]) == ("DISCARDED", 1)
        assert told["history"][-1]["reason"] == "by hand"
        assert told["history"][-1]["actor"].startswith("token:")
        assert (await house.get(f"/effects/{job}/0.1")).status == 404
        assert (await house.get(f"/jobs/{job}")).value["state"] == "SUCCEEDED"

    inside(story)


def test_an_order_is_obeyed_once_however_often_it_comes(inside):
    async def story(house):
        job = await committed(house, entry(1), entry(2))
        await park(house, job, 0, 1)
        for _ in range(2):
            told = await house.post("/effects/retry", {"every": True}, idempotency_key="a")
            assert told.value == {"schema": 1, "retried": 2, "left": 0}
            await park(house, job, 0)
        parked = (await house.get("/effects?state=parked")).value["effects"]
        assert [view["id"] for view in parked] == [f"{job}/0.0"]

    inside(story)


def test_a_block_is_not_retried(inside):
    async def story(house):
        job = await committed(house, entry(None, kind="block", place=""))
        await park(house, job, 0)
        told = await house.post("/effects/retry", {"ids": [f"{job}/0.0"]})
        assert (told.status, told.code) == (409, "invalid_transition")
        assert f"holdfast effect discard {job}/0.0" in told.value["detail"]
        told = await house.post("/effects/retry", {"every": True})
        assert told.value["retried"] == 0

    inside(story)


def test_who_may_look_and_who_may_decide(inside):
    async def story(house):
        reader = await house.token("read")
        assert (await house.get("/effects", token=reader)).status == 200
        told = await house.post("/effects/retry", {"every": True}, token=reader)
        assert (told.status, told.code) == (403, "forbidden")
        operator = await house.token("operator")
        body = {"every": True, "reason": "x"}
        assert (await house.post("/effects/discard", body, token=operator)).status == 200

    inside(story)


def test_tasks_jobs_and_reasons_tell_what_is_owed(inside):
    async def story(house):
        job = await committed(house, entry(1), entry(2))
        await park(house, job, 0)
        told = (await house.get(f"/jobs/{job}")).value
        assert (told["state"], told["owed"]["parked"]) == ("RUNNING", 1)
        owed = (await house.get(f"/tasks/{job}/0")).value["owed"]
        assert [view["state"] for view in owed] == ["PARKED", "WAITING"]
        (listed,) = (await house.get("/jobs")).value["jobs"]
        assert listed["why"] == "effect_parked"
        for path in (f"/tasks/{job}/0/explain", f"/jobs/{job}/explain"):
            reasons = (await house.get(path)).value["reasons"]
            assert [each["code"] for each in reasons] == ["effect_parked", "no_carrier"]
            assert reasons[0]["command"] == f"holdfast effect retry {job}/0.0"

    inside(story)


def test_the_numbers_tell_what_is_owed_by_sink(inside):
    async def story(house):
        job = await committed(house, entry(1), entry(2))
        await park(house, job, 0)
        text = (await house.get("/metrics")).content.decode()
        assert 'holdfast_effects_owed{kind="effect",sink="ledger"} 2\n' in text
        assert 'holdfast_effects_parked{kind="effect",sink="ledger"} 1\n' in text
        assert "# TYPE holdfast_effects_delivered_total counter\n" in text
        assert "# TYPE holdfast_delivery_failures_total counter\n" in text
        (age,) = [line for line in text.splitlines() if line.startswith("holdfast_effects_old")]
        assert float(age.split()[1]) >= 0
        told = (await house.get("/readyz?verbose")).value["checks"]["owed"]
        assert told == "2 entries are owed, 1 of them parked"

    inside(story)
