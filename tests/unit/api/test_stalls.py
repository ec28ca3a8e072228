"""Stalls over HTTP: seen by whoever reads, ended by operators, counted in the metrics."""

from typing import Any

from holdfast.coordinator.settings import ASK, Settings

IMPATIENT = Settings(stall_ms=1, stall_recovery=ASK)


async def a_stalled_one(house: Any) -> dict[str, Any]:
    """An attempt that told progress and then nothing; the stall that it is."""
    await house.submit(retries=1)
    item = (await house.exchange(1)).value["runs"][0]["items"][0]
    at = {"job_id": "1", "index": 0, "lease_id": item["lease_id"], "ran_ms": 1}
    told = [{"lease_id": item["lease_id"], "done": 1, "total": 2, "note": ""}]
    await house.exchange(2, held=[item["lease_id"]], started=[at], progress=told)
    while True:
        # Looked for anew with every turn, until a moment has passed since its word.
        house.served.stalls.adjust(IMPATIENT)
        found = (await house.get("/stalls")).value["stalls"]
        if found:
            return dict(found[0])


def test_a_stall_is_listed_counted_told_of_and_approved_once(inside) -> None:
    async def story(house):
        assert (await house.get("/stalls")).value == {"schema": 1, "stalls": [], "next": None}
        checks = (await house.get("/readyz?verbose")).value["checks"]
        assert checks["stalls"] == "none"
        stall = await a_stalled_one(house)
        assert (stall["id"], stall["kind"], stall["worker"]) == ("1/0:1", "no_progress", "w1")
        assert stall["recoverable"]
        assert stall["command"] == "holdfast stall approve 1/0:1"
        assert (await house.get("/stalls?kind=sink_stuck")).value["stalls"] == []
        checks = (await house.get("/readyz?verbose")).value["checks"]
        assert checks["stalls"] == "1 no_progress: `holdfast stall list`"
        text = (await house.get("/metrics")).content.decode()
        assert 'holdfast_stalls{kind="no_progress"} 1' in text
        for path in ("/tasks/1/0/explain", "/jobs/1/explain"):
            first, second = (await house.get(path)).value["reasons"]
            assert (first["code"], second["code"]) == ("stalled", "held")
            assert first["sentence"].startswith("It hangs for ")
            assert first["command"] == stall["command"]
        body = {"ids": ["1/0:1", "9/9:1"], "reason": "it is dead"}
        done = (await house.post("/stalls/approve", body)).value["stalls"]
        assert [(each["id"], each["outcome"]) for each in done] == [
            ("1/0:1", "recovered"), ("9/9:1", "not_stalled"),
        ]  # fmt: skip
        task = (await house.get("/tasks/1/0")).value
        assert (task["state"], task["failures"]["used"]) == ("WAITING", 1)
        assert task["attempts"][0]["reason"] == "timed_out"
        text = (await house.get("/metrics")).content.decode()
        assert 'holdfast_stalls_recovered_total{kind="no_progress"} 1' in text
        records = (await house.get("/transactions")).value["transactions"]
        (recovery,) = [each for each in records if each["command"] == "RecoverStalled"]
        assert recovery["reason"] == "it is dead"
        assert recovery["actor"].startswith("token:")

    inside(story)


def test_every_stall_is_approved_at_once_where_that_is_said(inside) -> None:
    async def story(house):
        await a_stalled_one(house)
        done = (await house.post("/stalls/approve", {"every": True})).value["stalls"]
        assert [each["outcome"] for each in done] == ["recovered"]
        assert (await house.post("/stalls/approve", {"every": True})).value["stalls"] == []

    inside(story)


def test_what_makes_no_sense_is_refused_and_a_reader_may_not_approve(inside) -> None:
    async def story(house):
        assert (await house.get("/stalls?kind=lazy")).code == "invalid"
        assert (await house.post("/stalls/approve", {})).code == "invalid"
        assert (await house.post("/stalls/approve", {"ids": ["1"] * 1_001})).code == "too_large"
        reader = await house.token("read")
        assert (await house.get("/stalls", token=reader)).status == 200
        assert (await house.post("/stalls/approve", {"every": True}, token=reader)).status == 403

    inside(story)
