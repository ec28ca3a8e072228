"""What is in quarantine, asked over HTTP: lists, groups, numbers, and what operators decide."""

from holdfast.core import commands as c
from holdfast.core.ids import Index, JobId

BROKEN = "ValueError: no pixels in {}"
STACK = 'Traceback\n  File "/tmp/{}/images.py", line {}, in open_image\n'


def failure(job, index, lease_id, error, traceback, reason="failed"):
    return {
        "job_id": job, "index": index, "lease_id": lease_id, "ran_ms": 1, "reason": reason,
        "error": error, "traceback": traceback, "exit_code": None,
    }  # fmt: skip


async def failed(house, *errors, name="thumbs", number=1):
    """A job whose tasks failed with these errors, each a text or a reason to end for."""
    job = await house.submit(len(errors), name=name)
    hello = {"host": "here", "pid": 1, "version": "1"}
    left = dict(enumerate(errors))
    while left:
        told = await house.exchange(number, hello=hello)
        items = [item for run in told.value["runs"] for item in run["items"]]
        reports = []
        for item in items:
            error = left.pop(item["index"])
            late = error == "timed_out"
            words = "it took longer than 5s" if late else error
            trace = "" if late else STACK.format(item["index"], item["index"] + 3)
            reason = "timed_out" if late else "failed"
            lease_id = item["lease_id"]
            reports.append(failure(job, item["index"], lease_id, words, trace, reason))
        number += 1
        await house.exchange(number, failed=reports)
        number += 1
    return job, number


def test_failures_that_are_the_same_are_one_group_with_a_sample(inside):
    async def story(house):
        errors = [*(BROKEN.format(n) for n in range(3)), "KeyError: 'a'", "timed_out"]
        job, _ = await failed(house, *errors)
        told = (await house.get("/quarantine/groups")).value
        assert told["next"] is None
        assert [group["count"] for group in told["groups"]] == [3, 1, 1]
        assert sorted(g["reason"] for g in told["groups"]) == ["failed", "failed", "timeout"]
        group = told["groups"][0]
        assert group["error"].startswith("ValueError images.py:open_image: no pixels in")
        assert group["sample"].startswith(f"{job}/")
        assert (group["jobs"], group["names"]) == (1, ["thumbs"])
        assert group["first_at"] <= group["last_at"]
        assert group["fingerprint"] in group["command"]

    inside(story)


def test_a_list_comes_in_pages_and_is_narrowed(inside):
    async def story(house):
        first, number = await failed(house, *(BROKEN.format(n) for n in range(4)), name="old")
        second, _ = await failed(house, "timed_out", BROKEN.format(9), number=number)
        found, cursor = [], ""
        while cursor is not None:
            told = (await house.get(f"/quarantine?limit=2&cursor={cursor}")).value
            assert len(told["tasks"]) <= 2
            found += [view["id"] for view in told["tasks"]]
            cursor = told["next"]
        assert sorted(found) == sorted(
            [*(f"{first}/{n}" for n in range(4)), f"{second}/0", f"{second}/1"]
        )
        mark = (await house.get("/quarantine/groups")).value["groups"][0]["fingerprint"]
        for query, count in {
            "reason=timeout": 1, "reason=failed,timeout": 6, f"job={first}": 4, "name=thu*": 2,
            f"fingerprint={mark[:6]}": 5, f"fingerprint=fp:{mark}": 5, "older_than=1h": 0,
            f"reason=failed&job={second}": 1,
        }.items():  # fmt: skip
            told = (await house.get(f"/quarantine?{query}")).value
            assert len(told["tasks"]) == count, query
        view = (await house.get(f"/quarantine?job={second}&reason=timeout")).value["tasks"][0]
        assert (view["attempts"], view["worker"]) == (1, "w1")
        assert view["error"] == "it took longer than 5s"

    inside(story)


def test_one_is_shown_with_its_attempts_and_what_is_not_there_is_said(inside):
    async def story(house):
        job, _ = await failed(house, BROKEN.format(1))
        told = (await house.get(f"/quarantine/{job}/0")).value
        assert told["reason"] == "failed"
        assert [a["attempt"] for a in told["attempts"]] == [1]
        assert "open_image" in told["traceback"]
        other = await house.submit()
        told = await house.get(f"/quarantine/{other}/0")
        assert (told.status, told.code) == (404, "not_found")
        assert "is WAITING, not in quarantine" in told.value["detail"]

    inside(story)


def test_numbers_say_what_there_is_and_what_came_of_late(inside):
    async def story(house):
        await failed(house, BROKEN.format(1), BROKEN.format(2), "timed_out")
        aside = await house.submit(2)
        command = c.SetAside(job_id=JobId(aside), indices=(Index(0),), note="disk")
        await house.served.ask(lambda k: k.execute(command, actor="test"))
        told = (await house.get("/quarantine/stats")).value
        assert told["by_reason"] == {"failed": 2, "timeout": 1, "operator": 1}
        assert told["by_worker"] == {"w1": 3, "none": 1}
        assert (told["total"], told["last_hour"], told["last_day"]) == (4, 4, 4)
        assert sum(told["by_fingerprint"].values()) == 4

    inside(story)


def test_a_retry_is_a_canary_first_and_then_all_that_are_alike(inside):
    async def story(house):
        errors = [*(BROKEN.format(n) for n in range(3)), "timed_out"]
        job, _ = await failed(house, *errors)
        look = (await house.post("/quarantine/retry", {"every": True, "dry_run": True})).value
        assert (look["retried"], look["chosen"], look["more"]) == (0, 4, False)
        body = {"reasons": ["failed"], "canary": True}
        told = (await house.post("/quarantine/retry", body)).value
        assert told["retried"] == 1
        assert [view["job_id"] for view in told["tasks"]] == [job]
        shown = (await house.get(f"/tasks/{told['tasks'][0]['id']}")).value
        assert shown["state"] == "WAITING"
        mark = told["tasks"][0]["fingerprint"]
        body = {"fingerprint": f"fp:{mark}", "reason": "it works"}
        assert (await house.post("/quarantine/retry", body)).value["retried"] == 2
        assert (await house.get("/quarantine/stats")).value["by_reason"] == {"timeout": 1}
        newest = (await house.get("/transactions?limit=3")).value["transactions"]
        commands = [told["command"] for told in newest]
        assert commands == ["BeginOperation", "RetryQuarantined", "EndOperation"]
        assert newest[1]["reason"] == "it works"

    inside(story)


def test_a_purge_needs_a_reason_and_is_for_good(inside):
    async def story(house):
        job, _ = await failed(house, BROKEN.format(1), "timed_out")
        told = await house.post("/quarantine/purge", {"every": True})
        assert (told.status, told.code) == (422, "invalid")
        body = {"ids": [f"{job}/0", f"{job}/9", "77/0"], "reason": "not needed"}
        assert (await house.post("/quarantine/purge", body)).value["purged"] == 1
        task = (await house.get(f"/tasks/{job}/0")).value
        assert (task["state"], task["reason"]) == ("KILLED", "purged")
        assert [a["reason"] for a in task["attempts"]] == ["failed"]
        assert (await house.get(f"/jobs/{job}")).value["state"] == "FAILED"
        told = await house.post(f"/jobs/{job}/retry", {"indices": [0]})
        assert told.code == "invalid_transition"

    inside(story)


def test_the_same_request_again_is_answered_as_the_first_time(inside):
    async def story(house):
        job, _ = await failed(house, BROKEN.format(1))
        body = {"ids": [f"{job}/0"]}
        first = await house.post("/quarantine/retry", body, idempotency_key="once")
        again = await house.post("/quarantine/retry", body, idempotency_key="once")
        assert first.value["retried"] == again.value["retried"] == 1
        assert (await house.get(f"/jobs/{job}")).value["generation"] == 2

    inside(story)


def test_an_order_that_says_nothing_or_nonsense_is_refused(inside):
    async def story(house):
        for body in (
            {}, {"ids": ["12"]}, {"reasons": ["boredom"]}, {"older_than": "soon"},
            {"ids": ["1/0"], "every": True}, {"ids": ["1/0"], "canary": True},
        ):  # fmt: skip
            told = await house.post("/quarantine/retry", body)
            assert (told.status, told.code) == (422, "invalid"), body
        for query in ("reason=boredom", "older_than=soon", "cursor=x", "cursor=1.x"):
            assert (await house.get(f"/quarantine?{query}")).status == 422, query

    inside(story)


def test_a_task_is_forced_by_an_operator_for_a_reason(inside):
    async def story(house):
        job = await house.submit()
        path = f"/tasks/{job}/0/force"
        body = {"to": "quarantined", "reason": "look at it first"}
        reader = await house.token("read", "submit", "cancel")
        assert (await house.post(path, body, token=reader)).status == 403
        told = (await house.post(path, body)).value
        assert (told["from"], told["to"], told["moved"]) == ("WAITING", "QUARANTINED", True)
        assert (await house.post(path, body)).value["moved"] is False
        told = await house.post(path, {"to": "succeeded", "reason": "I know it"})
        assert (told.status, told.code) == (409, "invalid_transition")
        assert "only the holder of its current lease commits" in told.value["detail"]
        assert (await house.post(path, {"to": "waiting", "reason": ""})).code == "invalid"
        history = (await house.get(f"/tasks/{job}/0/history")).value["transactions"]
        forced = [a for t in history for a in t["actions"] if a["action"] == "task_forced"]
        assert [a["details"]["reason"] for a in forced] == ["look at it first"]

    inside(story)


def test_a_retry_is_an_operation_that_can_be_undone_while_nothing_has_begun(inside):
    async def story(house):
        job, number = await failed(house, BROKEN.format(1), BROKEN.format(2), BROKEN.format(3))
        told = (await house.post("/quarantine/retry", {"every": True})).value
        shown = (await house.get(f"/operations/{told['operation']}")).value
        assert (shown["verb"], shown["outcomes"]["tasks"]) == ("retry_tasks", 3)
        await house.exchange(number)
        undone = (await house.post(f"/operations/{told['operation']}/undo", {})).value
        assert undone["outcomes"]["tasks"] == 1
        assert undone["outcomes"]["started"] == 2
        left = (await house.get("/quarantine")).value["tasks"]
        assert [view["reason"] for view in left] == ["operator"]
        assert left[0]["job_id"] == job

    inside(story)
