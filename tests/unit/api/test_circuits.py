"""Circuits over HTTP: seen by whoever reads, moved by operators, counted in the metrics."""

import pytest


async def an_open_one(house) -> str:
    """A command that failed twice in a row, and its job."""
    told = await house.post(
        "/jobs",
        {
            "kind": "command", "command": {"argv": ["/bin/call"]}, "retries": 9,
            "retry": {"backoff": "none"}, "circuit": "1/1m", "retry_budget": "5/1m",
        },
    )  # fmt: skip
    assert told.status == 201, told.content
    item = (await house.exchange(1)).value["runs"][0]["items"][0]
    failed = {
        "job_id": "1", "index": 0, "lease_id": item["lease_id"], "ran_ms": 1, "reason": "failed",
        "error": "refused", "traceback": "", "exit_code": 1,
    }  # fmt: skip
    await house.exchange(2, failed=[failed])
    return "1"


def test_an_open_circuit_is_listed_explained_counted_and_closed(inside):
    async def story(house):
        assert (await house.get("/circuits")).value["circuits"] == []
        job_id = await an_open_one(house)
        spec = (await house.get(f"/jobs/{job_id}")).value["spec"]
        assert (spec["circuit"], spec["retry_budget"]) == ("1/1m", "5/1m")
        (shown,) = (await house.get("/circuits")).value["circuits"]
        assert (shown["id"], shown["state"]) == ("function/default//bin/call", "OPEN")
        assert shown["cause"] == "task 1/0 failed: refused"
        assert shown["until"] > shown["since"]
        (reason,) = (await house.get("/tasks/1/0/explain")).value["reasons"]
        assert reason["code"] == "circuit_open"
        assert reason["command"].startswith("holdfast circuit close function/default//bin/call")
        text = (await house.get("/metrics")).content.decode()
        assert 'holdfast_circuits{kind="function",state="OPEN"} 1' in text
        assert 'holdfast_waiting_tasks{reason="circuit_open"} 1' in text
        where = "/circuits/function/default%2F%2Fbin%2Fcall"
        assert (await house.post(f"{where}/close", {"reason": "mended"})).value["changed"]
        assert not (await house.post(f"{where}/close", {})).value["changed"]
        assert (await house.get("/circuits")).value["circuits"] == []
        actions = [
            action["action"]
            for each in (await house.get("/transactions")).value["transactions"]
            for action in each["actions"]
        ]
        assert {"circuit_opened", "circuit_closed"} <= set(actions)

    inside(story)


def test_a_circuit_is_opened_by_hand_once(inside):
    async def story(house):
        told = await house.post("/circuits/sink/ledger/open", {"reason": "moving"})
        assert told.value == {"changed": True}
        assert (await house.post("/circuits/sink/ledger/open", {})).value == {"changed": False}
        (shown,) = (await house.get("/circuits")).value["circuits"]
        assert (shown["until"], shown["cause"]) == (None, "opened by hand: moving")

    inside(story)


@pytest.mark.parametrize("path", ["/circuits/queue/x/open", "/circuits/queue/x/close"])
def test_what_is_no_circuit_is_refused(inside, path):
    async def story(house):
        assert (await house.post(path, {})).code == "invalid"

    inside(story)


@pytest.mark.parametrize(
    "guard", [{"circuit": "often"}, {"retry_budget": "0/1m"}, {"retry_budget": "1000000/1m"}]
)
def test_a_guard_that_makes_no_sense_is_refused(inside, guard):
    async def story(house):
        body = {"kind": "command", "command": {"argv": ["x"]}, **guard}
        told = await house.post("/jobs", body)
        assert told.status == 422, told.content
        assert next(iter(guard)) in told.value["detail"]

    inside(story)


def test_a_reader_may_look_and_not_touch(inside):
    async def story(house):
        token = await house.token("read")
        assert (await house.ask("GET", "/circuits", token=token)).status == 200
        refused = await house.ask("POST", "/circuits/sink/x/open", {}, token=token)
        assert refused.code == "forbidden"

    inside(story)
