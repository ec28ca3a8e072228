"""The log itself over HTTP: which it is, where it comes from, and the word that lets it work."""

import pytest

from holdfast.core import commands as c
from holdfast.core.ids import LeaseId
from holdfast.core.lineage import FORK


def forked(house) -> str:
    """The log becomes another one, as if its folder had been forked before it was served."""
    coordinator = house.service.served.coordinator
    state = coordinator.state
    former = state.log_id
    coordinator.execute(
        c.ForkLog(
            log_id="f" * 32, head=b"", head_position=state.position, kind=FORK,
            epoch=state.epoch + 1, next_lease=LeaseId(100), next_job=7,
        ),
        actor="test",
    )  # fmt: skip
    return former


def test_a_forked_log_says_what_it_is_and_works_when_somebody_says_so(inside):
    async def story(house):
        assert (await house.get("/log")).value["lineage"] == []
        former = forked(house)
        shown = (await house.get("/log")).value
        assert (shown["log_id"], shown["suspended"]) == ("f" * 32, "fork")
        assert [each["log_id"] for each in shown["lineage"]] == [former]
        checks = (await house.get("/readyz?verbose")).value["checks"]
        assert "holdfast log resume" in checks["suspended"]
        assert await house.submit() == "7"
        reasons = (await house.get("/tasks/7/0/explain")).value["reasons"]
        assert "log_suspended" in [reason["code"] for reason in reasons]
        assert (await house.post("/log/resume", {"reason": "looked"})).value == {"was": "fork"}
        assert (await house.post("/log/resume")).value == {"was": None}
        assert (await house.exchange(1)).value["runs"][0]["items"][0]["lease_id"] == 100

    inside(story)


@pytest.mark.slow
def test_a_served_log_is_made_small_by_hand(inside):
    async def story(house):
        await house.submit()
        told = (await house.post("/log/compact")).value
        assert told["position"] > 0
        shown = (await house.get("/log")).value
        assert shown["snapshot_position"] == told["position"]

    inside(story)
