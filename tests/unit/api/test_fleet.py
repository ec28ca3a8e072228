"""Workers, leases, queues, endpoints and tokens over HTTP."""

import asyncio

import pytest

from holdfast.core.ids import WorkerId
from holdfast.wire.sinks import FileSink


async def one_lease(house) -> dict[str, object]:
    """A running attempt of the worker by hand: where it is and under which lease."""
    await house.submit()
    item = (await house.exchange(1)).value["runs"][0]["items"][0]
    where = {"job_id": "1", "index": 0, "lease_id": item["lease_id"]}
    await house.exchange(2, started=[{**where, "ran_ms": 0}], held=[item["lease_id"]])
    return where


def test_workers_are_shown_with_who_they_are_and_what_they_hold(inside):
    async def story(house):
        await house.submit()
        hello = {"host": "h1", "pid": 7, "version": "1", "attributes": [["zone", "eu"]]}
        await house.exchange(1, hello=hello)
        listed = (await house.get("/workers")).value["workers"]
        assert [(w["name"], w["state"], w["leases"], w["host"]) for w in listed] == [
            ("w1", "BUSY", 1, "h1")
        ]
        shown = (await house.get("/workers/w1")).value
        assert shown["attributes"] == {"zone": "eu"}
        assert [lease["attempt"] for lease in shown["leases"]] == ["1/0:1"]
        assert (await house.get("/workers/w9")).code == "not_found"
        notices = (await house.get("/transactions")).value["transactions"]
        told = [each for each in notices if each["position"] is None]
        assert [each["actions"][0]["action"] for each in told] == ["worker_registered"]

    inside(story)


def test_a_cordoned_worker_gets_nothing_and_a_drained_one_gives_back(inside):
    async def story(house):
        await house.submit(2)
        first = (await house.exchange(1)).value["runs"]
        held = [item["lease_id"] for run in first for item in run["items"]]
        told = (await house.post("/workers/w1/drain", {"reason": "hot"})).value
        assert told == {"recalled": 2, "left": 2}
        reply = (await house.exchange(2, held=held)).value
        assert sorted(reply["recalls"]) == sorted(held)
        listed = (await house.get("/workers")).value["workers"][0]
        assert (listed["state"], listed["reason"]) == ("CORDONED", "hot")
        back = [
            {"job_id": "1", "index": i["index"], "lease_id": i["lease_id"], "started": False}
            for run in first
            for i in run["items"]
        ]
        assert (await house.exchange(3, released=back)).value["runs"] == []
        assert (await house.post("/workers/w1/uncordon")).value == {}
        assert len((await house.exchange(4)).value["runs"]) == 2

    inside(story)


def test_a_drained_worker_is_told_until_it_is_uncordoned(inside):
    async def story(house):
        hello = {"host": "h1", "pid": 7, "version": "1"}
        assert (await house.exchange(1)).value["drain"] is False
        parked = asyncio.ensure_future(house.exchange(2, hello=hello))
        while not house.served.exchanges.workers["w1"].send:
            await asyncio.sleep(0)
        await house.post("/workers/w1/drain")
        # It is answered at once, though there is nothing to ask back.
        assert (await parked).value["drain"] is True
        parked = asyncio.ensure_future(house.exchange(3, draining=True))
        await house.submit()
        assert (await house.get("/workers")).value["workers"][0]["state"] == "DRAINED"
        assert not parked.done()
        await house.post("/workers/w1/uncordon")
        assert (await parked).value["drain"] is False
        assert len((await house.exchange(4)).value["runs"]) == 1
        # A worker that does not listen just then is told with the next answer.
        await house.post("/workers/w1/drain")
        await house.post("/workers/w1/uncordon")
        await house.post("/workers/w1/drain", {"reason": "hot"})
        assert (await house.get("/workers/w1")).value["reason"] == "hot"
        assert (await house.exchange(5, held=[1])).value["drain"] is True
        assert (await house.post("/workers/w7/drain")).value == {"recalled": 0, "left": 0}

    async def after_a_restart(house):
        # The cordon is in the log; that it was more, the worker knows.
        told = (await house.exchange(6, draining=True, held=[1])).value
        assert (told["drain"], told["runs"]) == (True, [])
        assert (await house.get("/workers")).value["workers"][0]["state"] == "DRAINING"
        other = await house.exchange(1, worker="w7")
        assert other.value["drain"] is False

    inside(story)
    inside(after_a_restart)


def test_leases_come_in_pages_in_the_order_they_were_granted(inside):
    async def story(house):
        await house.submit(2)
        await house.exchange(1)
        first = (await house.get("/leases?limit=1")).value
        rest = (await house.get(f"/leases?cursor={first['next']}")).value
        ids = [lease["lease_id"] for lease in first["leases"] + rest["leases"]]
        assert ids == sorted(ids)
        assert (len(ids), rest["next"]) == (2, None)

    inside(story)


def test_a_paused_queue_is_not_given_out(inside):
    async def story(house):
        await house.submit()
        await house.post("/queues/default/pause", {"reason": "maintenance"})
        listed = (await house.get("/queues")).value["queues"]
        assert listed == [
            {"name": "default", "paused": True, "reason": "maintenance", "waiting_jobs": 1}
        ]
        house.service.leaving.set()
        assert (await house.exchange(1)).value["runs"] == []
        await house.post("/queues/default/resume")
        assert len((await house.exchange(2)).value["runs"]) == 1

    inside(story)


def test_a_queue_counts_what_waits_and_not_what_was_stopped(inside):
    async def story(house):
        first, second = await house.submit(), await house.submit()
        other = await house.submit(queue="night")
        later = await house.submit(delay="1h")

        async def waiting():
            listed = (await house.get("/queues")).value["queues"]
            return {each["name"]: each["waiting_jobs"] for each in listed}

        assert await waiting() == {"default": 2, "night": 1}
        for job in (second, other, later):
            assert (await house.post(f"/jobs/{job}/cancel")).status == 200
        # They may stand in line still, behind one that waits.
        assert await waiting() == {"default": 1}
        await house.post(f"/jobs/{first}/cancel")
        assert await waiting() == {"default": 0}

    inside(story)


def test_an_endpoint_lives_as_long_as_its_lease(inside):
    async def story(house):
        where = await one_lease(house)
        body = {**where, "worker": "w1", "incarnation": 1, "address": "10.0.0.1:9"}
        put = await house.ask("PUT", "/endpoints/chat%2Fa", {**body, "metadata": {"k": "v"}})
        assert put.value == {}
        found = (await house.get("/endpoints?name=chat/a")).value["endpoints"]
        assert [(e["address"], e["metadata"], e["task"]) for e in found] == [
            ("10.0.0.1:9", {"k": "v"}, "1/0")
        ]
        assert len((await house.get("/endpoints?prefix=chat/")).value["endpoints"]) == 1
        assert (await house.get("/endpoints?prefix=x")).value["endpoints"] == []
        stale = await house.ask("PUT", "/endpoints/b", {**body, "lease_id": 99})
        assert (stale.status, stale.code) == (409, "lease_lost")
        query = "&".join(f"{k}={v}" for k, v in {**where, "worker": "w1", "incarnation": 1}.items())
        assert (await house.ask("DELETE", f"/endpoints/chat%2Fa?{query}")).value == {}
        assert (await house.get("/endpoints")).value["endpoints"] == []
        await house.ask("PUT", "/endpoints/c", body)
        await house.post("/jobs/1/cancel")
        assert (await house.get("/endpoints")).value["endpoints"] == []

    inside(story)


def test_an_endpoint_is_replaced_only_where_it_is_the_one_that_was_meant(inside):
    async def story(house):
        where = await one_lease(house)
        body = {**where, "worker": "w1", "incarnation": 1, "address": "10.0.0.1:9"}

        async def put(address: str, **headers: str):
            return await house.ask("PUT", "/endpoints/a", {**body, "address": address}, **headers)

        missing = await put("x:1", if_match='"other"')
        assert (missing.status, missing.code) == (412, "precondition_failed")
        assert (await put("x:1", if_match="*")).status == 412
        first = await put("x:1", if_none_match="*")
        assert first.status == 200
        assert (await put("x:2", if_none_match="*")).status == 412
        tag = first.headers["etag"]
        listed = (await house.get("/endpoints?name=a")).value["endpoints"][0]
        assert (listed["address"], listed["etag"]) == ("x:1", tag)
        assert (await put("x:1")).headers["etag"] == tag
        second = await put("x:2", if_match=f'"zz", {tag}')
        assert second.headers["etag"] != tag
        stale = await put("x:3", if_match=tag)
        assert (stale.status, second.headers["etag"] in stale.value["detail"]) == (412, True)
        assert (await put("x:3", if_match=f"W/{second.headers['etag']}")).status == 412
        assert (await put("x:3", if_match="*")).status == 200
        # Whoever has lost the lease is told that, whatever they believe.
        body["lease_id"] = 99
        assert (await put("x:4", if_match="*")).code == "lease_lost"

    inside(story)


def test_tokens_are_made_listed_used_and_revoked(inside):
    async def story(house):
        made = await house.post("/tokens", {"name": "ci", "scopes": ["submit"], "ttl": "1h"})
        assert made.status == 201
        token = made.value["token"]
        body = {"command": {"argv": ["true"]}}
        assert (await house.post("/jobs", body, token=token)).status == 201
        listed = (await house.get("/tokens")).value["tokens"]
        assert [(t["name"], t["scopes"]) for t in listed][-1] == ("ci", ["submit"])
        assert all("digest" not in t and "token" not in t for t in listed)
        told = await house.get("/transactions")
        assert token.encode() not in told.content
        gone = await house.ask("DELETE", f"/tokens/{made.value['id']}")
        assert gone.value == {}
        assert (await house.post("/jobs", body, token=token)).status == 401
        again = await house.ask("DELETE", f"/tokens/{made.value['id']}")
        assert (again.status, again.code) == (404, "not_found")

    inside(story)


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["root"]},
        {"name": "", "scopes": ["read"]},
        {"name": "x", "scopes": ["read"], "ttl": "soon"},
        {"name": "x", "scopes": ["read"], "worker": "w1"},
        {"scopes": ["read"]},
    ],
)
def test_a_token_that_makes_no_sense_is_refused(inside, body):
    async def story(house):
        assert (await house.post("/tokens", body)).code == "invalid"

    inside(story)


def test_the_token_of_one_worker_does_not_speak_for_another(inside):
    async def story(house):
        made = await house.post("/tokens", {"name": "w", "scopes": ["worker"], "worker": "w2"})
        house.admin, admin = made.value["token"], house.admin
        told = await house.exchange(1)
        assert (told.status, told.code) == (403, "forbidden")
        house.service.leaving.set()
        assert (await house.exchange(1, worker="w2")).status == 200
        body = {"job_id": "1", "index": 0, "lease_id": 1, "worker": "w1", "incarnation": 1}
        put = await house.ask("PUT", "/endpoints/a", {**body, "address": "x"})
        assert put.code == "forbidden"
        assert (await house.ask("DELETE", "/endpoints/a?worker=w1")).code == "forbidden"
        house.admin = admin

    inside(story)


LINGERS = {
    "lease_id": 7, "slot": 0, "cpus_milli": 1_000, "memory_bytes": 0, "gpus": 0,
    "resources": [["licence", 1_000]],
}  # fmt: skip


@pytest.mark.parametrize(
    "strange",
    [
        {"worker": ""},
        {"worker": "w" * 201},
        {"worker": "a\nb"},
        {"incarnation": 10**30},
        {"incarnation": -1},
        {"seen": 2**60},
        {"capacity": {"slots": 10**9, "cpus_milli": 1, "memory_bytes": 0, "gpus": 0}},
        {"capacity": {"slots": 1, "cpus_milli": 10**30, "memory_bytes": 0, "gpus": 0}},
        {"held": ["x"]},
        {"lingering": [LINGERS | {"memory_bytes": -1}]},
        {"lingering": [LINGERS | {"resources": [["licence", 10**30]]}]},
        {"progress": [{"lease_id": 1, "done": -1, "total": 0, "note": ""}]},
        {"started": [{"job_id": "1"}]},
    ],
)
def test_what_no_worker_can_be_is_refused_and_harms_nobody(inside, strange):
    async def story(house):
        await house.submit()
        told = await house.exchange(1, **strange)
        assert (told.status, told.code) == (422, "invalid"), told.content
        assert len((await house.exchange(1)).value["runs"]) == 1

    inside(story)


def test_an_attempt_that_lingers_is_told_with_what_it_takes(inside):
    async def story(house):
        await house.submit()
        told = await house.exchange(1, occupied=1, lingering=[LINGERS])
        assert told.status == 200, told.content

    inside(story)


def test_a_worker_known_to_be_dead_holds_nothing(inside):
    async def story(house):
        await one_lease(house)
        house.served.lose(WorkerId("w1"), "it ended with code -9")
        task = (await house.get("/tasks/1/0")).value
        assert (task["state"], task["attempts"][0]["reason"]) == ("WAITING", "worker_lost")
        assert task["losses"]["used"] == 1
        # Another process of that name is let in at once.
        reply = (await house.exchange(1, incarnation=2)).value
        assert (reply["refused"], len(reply["runs"])) == ("", 1)

    inside(story)


def test_how_far_an_attempt_says_it_is_shown_with_its_task(inside):
    async def story(house):
        where = await one_lease(house)
        lease = where["lease_id"]
        assert (await house.get("/tasks/1/0")).value["progress"] is None
        told = {"lease_id": lease, "done": 3, "total": 0, "note": "third"}
        await house.exchange(3, held=[lease], progress=[told])
        progress = (await house.get("/tasks/1/0")).value["progress"]
        assert (progress["done"], progress["total"], progress["note"]) == (3, None, "third")
        assert progress["at"].endswith("Z")
        (listed,) = (await house.get("/jobs/1/tasks")).value["tasks"]
        assert listed["progress"] == progress

    inside(story)


def test_what_is_owed_is_told_to_whoever_asks_whether_all_is_well(inside):
    async def story(house):
        house.served.exchanges.adjust_sinks({"ledger": FileSink(path="/ledger")})
        assert (await house.get("/readyz?verbose")).value["checks"]["owed"] == "nothing"
        where = await one_lease(house)
        owed = [{"kind": "effect", "place": "ledger", "key": "", "body": ""}]
        done = {**where, "ran_ms": 1, "result": "", "owed": owed}
        await house.exchange(3, done=[done])
        assert (await house.get("/readyz?verbose")).value["checks"]["owed"] == "1 entry is owed"

    inside(story)
