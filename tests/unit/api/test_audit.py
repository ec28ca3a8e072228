"""The audit trail over HTTP: pages, filters, the head, the file; strict callers; its numbers."""

import json

import pytest

from holdfast.coordinator.auditfile import check_file


async def pages(house, query: str = "", limit: int = 3) -> list[list[dict]]:
    found, cursor = [], ""
    while cursor is not None:
        told = (await house.get(f"/audit?limit={limit}&cursor={cursor}{query}")).value
        found.append(told["entries"])
        cursor = told["next"]
        assert len(found) < 100
    return found


def test_pages_of_any_size_have_every_line_once_and_in_order(inside):
    async def story(house):
        for number in range(5):
            job_id = await house.submit(number + 1)
            await house.post(f"/jobs/{job_id}/cancel", {"reason": "no"})
            await house.get(f"/jobs/{job_id}9")
            await house.post(f"/tasks/{job_id}/7/cancel", {})
        house.served.coordinator.refusing.notes.close()
        (whole,) = await pages(house, limit=1_000)
        assert sum(each["status"] == "refused" for each in whole) == 5
        positions = [each["position"] for each in whole if each["position"]]
        assert sorted(set(positions)) == list(range(1, house.served.coordinator.state.position + 1))
        for limit in (1, 2, 5, 17):
            parts = await pages(house, limit=limit)
            assert [each for part in reversed(parts) for each in part] == whole

    inside(story)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("command=KillJob", 2),
        ("command=transition_NEW_to_WAITING", 2),
        ("job=2", 3),
        ("task=2/1", 3),
        ("task=1/1", 1),
        ("operator=nobody", 0),
        ("refused=true", 1),
        ("since=2999-01-01T00:00:00Z", 0),
        ("until=1999-01-01T00:00:00Z", 0),
        ("job=2&refused=true", 0),
    ],
)
def test_lines_are_chosen_by_who_what_and_when(inside, query, count):
    async def story(house):
        await house.submit(2)
        await house.submit(3)
        await house.post("/jobs/2/cancel", {"reason": "enough"})
        await house.post("/tasks/1/5/cancel", {})
        house.served.coordinator.refusing.notes.close()
        told = (await house.get(f"/audit?{query}")).value["entries"]
        assert len(told) == count, told

    inside(story)


def test_who_asked_and_why_is_told_with_every_move(inside):
    async def story(house):
        await house.submit(2)
        await house.post("/jobs/1/cancel", {"reason": "enough"})
        told = (await house.get("/audit?command=KillJob")).value["entries"]
        move = next(each for each in told if each["task_id"])
        assert (move["from"], move["to"], move["reason"]) == ("WAITING", "KILLED", "enough")
        assert (move["source"], move["status"]) == ("state_machine", "validated")
        assert (move["action"], move["task_id"]) == ("transition_WAITING_to_KILLED", "1/0-1")
        assert move["operator"].startswith("token:")

    inside(story)


def test_a_mistyped_filter_is_told(inside):
    async def story(house):
        for query in ("task=x", "since=yesterday", "refused=maybe"):
            told = await house.get(f"/audit?{query}")
            assert (told.status, told.code) == (422, "invalid")

    inside(story)


def test_the_file_is_whole_and_ends_at_the_head(inside):
    async def story(house):
        for _ in range(5):
            await house.submit(3)
        head = (await house.get("/audit/head")).value
        file = (await house.get("/audit/export")).content.splitlines(keepends=True)
        span = check_file(file).span
        assert (span.last, span.head, span.log_id) == (
            head["position"], head["head"], head["log_id"],
        )  # fmt: skip
        part = (await house.get("/audit/export?first=3&last=4")).content.splitlines(keepends=True)
        assert {json.loads(line)["position"] for line in part[1:-1]} == {3, 4}

    inside(story)


def test_a_strict_request_is_told_of_a_repeat_and_others_are_not(inside):
    async def story(house):
        await house.submit()
        assert (await house.post("/jobs/1/cancel", {})).value == {"stopped": 1}
        position = house.served.coordinator.state.position
        again = await house.post("/jobs/1/cancel?strict=true", {})
        assert (again.status, again.code) == (409, "repeated")
        wish = 'respond-async, handling="strict"'
        assert (await house.post("/jobs/1/cancel", {}, prefer=wish)).code == "repeated"
        assert (await house.post("/jobs/1/cancel", {})).value == {"stopped": 0}
        assert house.served.coordinator.state.position == position

    inside(story)


def test_an_answer_that_was_lost_is_given_again_to_who_is_strict(inside):
    async def story(house):
        await house.submit()
        headers = {"idempotency_key": "one", "prefer": "handling=strict"}
        told = [await house.post("/jobs/1/cancel", {}, **headers) for _ in range(2)]
        assert [each.value for each in told] == [{"stopped": 1}] * 2

    inside(story)


def test_001_99_moves_and_times_are_told_to_prometheus(inside):
    async def story(house):
        await house.submit(4)
        await house.post("/jobs/1/cancel", {"reason": "no"})
        await house.post("/jobs/1/cancel", {"reason": "no"})
        lines = (await house.get("/metrics")).content.decode().splitlines()
        assert 'holdfast_transitions_total{from="NEW",to="WAITING"} 4' in lines
        assert 'holdfast_transitions_total{from="WAITING",to="KILLED"} 4' in lines
        assert 'holdfast_repeats_total{command="KillJob"} 1' in lines
        assert "holdfast_restarts_total 0" in lines
        names = {line.split("{")[0].split(" ")[0] for line in lines}
        for name in (
            "state_seconds_bucket", "sync_seconds_sum", "frame_records_count", "replay_seconds",
            "oldest_ready_seconds", "leases_expired_total", "audit_head_position",
        ):  # fmt: skip
            assert f"holdfast_{name}" in names
        (head,) = [line for line in lines if line.startswith("holdfast_audit_head_info{")]
        told = (await house.get("/audit/head")).value
        assert f'position="{told["position"]}",head="{told["head"]}"' in head

    inside(story)
