"""Requests about many over HTTP: previewed, done in one request, looked at, undone."""

import pytest


async def some_jobs(house, count: int = 3, **rest) -> list[str]:
    return [await house.submit(count=2, name="batch", **rest) for _ in range(count)]


def cancel(**selection) -> dict:
    return {"verb": "cancel_jobs", "selection": selection, "reason": "wrong input"}


async def states(house) -> list[str]:
    jobs = (await house.get("/jobs")).value["jobs"]
    return [job["state"] for job in reversed(jobs)]


def test_a_preview_tells_how_many_and_some_of_them_and_does_nothing(inside) -> None:
    async def story(house):
        await some_jobs(house, 12)
        told = await house.post("/operations", {**cancel(names=["all"]), "dry_run": True})
        assert told.value["jobs"] == 12
        assert told.value["tasks"] == 24
        assert told.value["sample"] == [str(number) for number in range(1, 11)]
        assert set(await states(house)) == {"PENDING"}
        assert (await house.get("/operations")).value["operations"] == []

    inside(story)


def test_one_request_cancels_many_and_is_undone(inside) -> None:
    async def story(house):
        await some_jobs(house)
        await house.submit(name="other")
        done = (await house.post("/operations", cancel(name="bat*"))).value
        assert (done["state"], done["total"]) == ("DONE", 3)
        assert done["outcomes"] == {"jobs": 3, "tasks": 6}
        assert await states(house) == ["KILLED"] * 3 + ["PENDING"]
        kills = [
            each
            for each in (await house.get("/transactions")).value["transactions"]
            if each["command"] == "KillJob"
        ]
        assert {each["request_id"] for each in kills} == {done["id"]}
        assert {each["reason"] for each in kills} == {"wrong input"}
        path = f"/operations/{done['id']}/undo"
        told = (await house.post(path, {"dry_run": True})).value
        assert told["outcomes"] == {"tasks": 6}
        undone = (await house.post(path, {"reason": "right after all"})).value
        assert (undone["verb"], undone["undoes"]) == ("undo", done["id"])
        assert undone["outcomes"] == {"jobs": 3, "tasks": 6}
        assert await states(house) == ["PENDING"] * 4
        shown = (await house.get(f"/operations/{done['id']}")).value
        assert (shown["undone_by"], shown["can_undo"]) == (undone["id"], False)
        again = await house.post(path, {})
        assert again.code == "conflict"
        listed = (await house.get("/operations")).value["operations"]
        assert [each["id"] for each in listed] == [undone["id"], done["id"]]

    inside(story)


def test_what_had_begun_stays_stopped_and_is_counted(inside) -> None:
    async def story(house):
        await house.submit(count=3)
        items = (await house.exchange(1)).value["runs"][0]["items"]
        lease = items[0]["lease_id"]
        at = {"job_id": "1", "index": items[0]["index"], "lease_id": lease, "ran_ms": 1}
        held = [item["lease_id"] for item in items]
        await house.exchange(2, held=held, started=[at], leave=True)
        done = (await house.post("/operations", cancel(names=["1"]))).value
        assert done["outcomes"] == {"jobs": 1, "tasks": 3}
        undone = (await house.post(f"/operations/{done['id']}/undo", {})).value
        assert undone["outcomes"] == {"jobs": 1, "tasks": 2, "started": 1}
        task = (await house.get("/tasks/1/0")).value
        assert task["state"] == "KILLED"

    inside(story)


def test_the_same_key_finds_the_same_operation_after_a_restart(inside) -> None:
    body = cancel(names=["1-2"])

    async def story(house):
        await some_jobs(house)
        first = (await house.post("/operations", body, idempotency_key="k")).value
        assert first["outcomes"] == {"jobs": 2, "tasks": 4}

    async def later(house):
        house.admin = await house.token("admin")
        (known,) = (await house.get("/operations")).value["operations"]
        assert known["state"] == "DONE"

    inside(story)
    inside(later)


def test_one_that_was_cut_off_is_told_and_gone_on_with(inside, monkeypatch) -> None:
    async def story(house):
        await some_jobs(house, 4)
        monkeypatch.setattr("holdfast.coordinator.operations.COMMANDS_A_STEP", 1)
        steps = house.served.ask
        slices = 0

        async def ask(question):
            nonlocal slices
            slices += question.__name__ == "slice_of"
            if slices == 2:
                house.service.operations.stop()
            return await steps(question)

        monkeypatch.setattr(house.served, "ask", ask)
        cut = (await house.post("/operations", cancel(names=["all"]))).value
        assert cut["state"] == "INTERRUPTED"

    async def later(house):
        (cut,) = (await house.get("/operations")).value["operations"]
        assert cut["state"] == "INTERRUPTED"
        stopped = (await states(house)).count("KILLED")
        assert 1 <= stopped <= 2
        done = (await house.post(f"/operations/{cut['id']}/resume")).value
        assert done["state"] == "DONE"
        assert done["outcomes"] == {"jobs": 4, "tasks": 8}
        assert await states(house) == ["KILLED"] * 4
        undone = (await house.post(f"/operations/{cut['id']}/undo", {})).value
        assert undone["outcomes"] == {"jobs": 4, "tasks": 8}

    inside(story)
    monkeypatch.undo()
    inside(later)


def test_tasks_are_cancelled_moved_and_moved_back(inside) -> None:
    async def story(house):
        await house.submit(count=5, delay="1h")
        before = (await house.get("/tasks/1/3")).value["not_before"]
        move = {"verb": "reschedule_tasks", "selection": {"names": ["1/2-4"]}, "delay": "2h"}
        moved = (await house.post("/operations", move)).value
        assert moved["outcomes"] == {"jobs": 1, "tasks": 3}
        assert (await house.get("/tasks/1/3")).value["not_before"] > before
        undone = (await house.post(f"/operations/{moved['id']}/undo", {})).value
        assert undone["outcomes"] == {"jobs": 1, "tasks": 3}
        back = (await house.get("/tasks/1/3")).value["not_before"]
        assert back[:19] == before[:19]
        stop = {"verb": "cancel_tasks", "selection": {"names": ["1/0-9:2"]}}
        assert (await house.post("/operations", stop)).value["outcomes"]["tasks"] == 3
        listed = (await house.get("/jobs/1/tasks")).value["tasks"]
        assert [each["state"] for each in listed] == [
            "KILLED", "WAITING", "KILLED", "WAITING", "KILLED",
        ]  # fmt: skip

    inside(story)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"verb": "dance", "selection": {"names": ["all"]}}, "invalid"),
        ({"verb": "cancel_jobs", "selection": {}}, "invalid"),
        (cancel(names=["77"]), "not_found"),
        (cancel(names=["1/3"]), "invalid"),
        (cancel(states=["LAZY"]), "invalid"),
        (cancel(names=["all"], older_than="soon"), "invalid"),
        ({**cancel(names=["all"]), "delay": "1h"}, "invalid"),
        ({"verb": "purge_tasks", "selection": {"names": ["all"]}}, "invalid"),
    ],
)
def test_what_makes_no_sense_is_refused(inside, body, code) -> None:
    async def story(house):
        assert (await house.post("/operations", body)).code == code
        assert (await house.get("/operations/op-9")).code == "not_found"

    inside(story)


def test_whoever_may_cancel_may_cancel_many_and_no_more(inside) -> None:
    async def story(house):
        await some_jobs(house)
        token = await house.token("cancel")
        done = await house.post("/operations", cancel(names=["1"]), token=token)
        assert done.value["outcomes"] == {"jobs": 1, "tasks": 2}
        retry = {"verb": "retry_jobs", "selection": {"names": ["all"]}}
        assert (await house.post("/operations", retry, token=token)).code == "forbidden"
        undo = f"/operations/{done.value['id']}/undo"
        assert (await house.post(undo, {}, token=token)).status == 403

    inside(story)
