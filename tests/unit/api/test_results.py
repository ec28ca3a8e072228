"""Results over HTTP: brought by workers before their commits, read by whoever may."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import commands as c
from holdfast.core.ids import Instant
from holdfast.wire.contents import new_digest
from holdfast.worker.payloads import encode_result

HELLO = {"host": "h", "pid": 1, "version": "1"}
CONTENT = encode_result("large " * 20_000)


def digest_of(content: bytes) -> bytes:
    digest = new_digest()
    digest.update(content)
    return digest.digest()


DIGEST = digest_of(CONTENT)
HERE = f"/results/{DIGEST.hex()}"


def base64ed(content: bytes) -> str:
    return base64.b64encode(content).decode()


def stored(digest: bytes = DIGEST, size: int = len(CONTENT)) -> dict[str, Any]:
    return {"digest": base64ed(digest), "size": size}


def path_in(folder: Path) -> Path:
    return folder / "results" / DIGEST.hex()[:2] / DIGEST.hex()[2:]


async def leased(house) -> dict[str, Any]:
    """A task, leased to the worker w1."""
    job = await house.submit()
    told = await house.exchange(1, hello=HELLO)
    house.service.leaving.set()
    [item] = [item for run in told.value["runs"] for item in run["items"]]
    return {"job_id": job, "index": 0, "lease_id": item["lease_id"]}


async def tell(house, number: int, lease: dict[str, Any], **rest: Any):
    """What the worker says of it: that it ended well, with this."""
    report = {**lease, "ran_ms": 5, "result": "", **rest}
    return await house.exchange(number, done=[report], held=[])


async def committed(house) -> str:
    """A task whose large result is in the store; where its result is read."""
    lease = await leased(house)
    assert (await house.ask("PUT", HERE, CONTENT)).status == 201
    told = await tell(house, 2, lease, stored=stored())
    assert (told.status, told.value["verdicts"]) == (200, [])
    return f"/tasks/{lease['job_id']}/0"


def test_a_large_result_is_brought_then_committed_then_read_also_after_a_restart(
    inside, tmp_path: Path
):
    async def story(house):
        task = await committed(house)
        assert task == "/tasks/1/0"
        await read(house)

    async def read(house):
        told = await house.get("/tasks/1/0/result")
        assert (told.status, told.content) == (200, CONTENT)
        assert told.headers["content-type"] == "application/octet-stream"
        assert told.headers["etag"] == f'"{DIGEST.hex()}"'
        shown = (await house.get("/tasks/1/0")).value
        assert (shown["result_bytes"], shown["result_digest"]) == (len(CONTENT), DIGEST.hex())
        [outcome] = (await house.get("/jobs/1/outcomes?indices=0")).value["outcomes"]
        assert outcome["result"] is None
        assert (outcome["result_digest"], outcome["result_bytes"]) == (DIGEST.hex(), len(CONTENT))

    inside(story)
    inside(read)
    assert path_in(tmp_path).read_bytes() == CONTENT


def test_bringing_it_twice_changes_nothing_and_looking_tells(inside, tmp_path: Path):
    async def story(house):
        assert (await house.ask("HEAD", HERE)).status == 404
        assert (await house.ask("PUT", HERE, CONTENT)).status == 201
        assert (await house.ask("PUT", HERE, CONTENT)).status == 200
        looked = await house.ask("HEAD", HERE)
        assert (looked.status, looked.content) == (200, b"")
        assert looked.headers["content-length"] == str(len(CONTENT))
        assert (await house.ask("PUT", HERE, CONTENT[:-1])).code == "invalid"
        assert (await house.ask("PUT", "/results/xyz", b"x")).status == 404

    inside(story)
    assert len([path for path in (tmp_path / "results").rglob("*") if path.is_file()]) == 1


def test_a_commit_that_refers_to_nothing_is_refused_whole_and_may_come_again(
    inside, tmp_path: Path
):
    async def story(house):
        lease = await leased(house)
        before = house.served.coordinator.state.position
        told = await tell(house, 2, lease, stored=stored())
        assert (told.status, told.code) == (409, "not_stored")
        assert DIGEST.hex() in told.value["detail"]
        assert house.served.coordinator.state.position == before
        assert (await house.ask("PUT", HERE, CONTENT)).status == 201
        os.truncate(path_in(tmp_path), 10)
        assert (await tell(house, 2, lease, stored=stored())).code == "not_stored"
        assert (await house.ask("PUT", HERE, CONTENT)).status == 200
        told = await tell(house, 2, lease, stored=stored())
        assert (told.status, told.value["verdicts"]) == (200, [])
        assert (await house.get(f"/tasks/{lease['job_id']}/0/result")).content == CONTENT

    inside(story)


@pytest.mark.parametrize(
    "report",
    [
        {"stored": stored(b"short")},
        {"stored": stored(), "result": "aGk="},
        {"stored": stored(size=-1)},
    ],
)
def test_what_no_worker_of_ours_would_say_is_refused(inside, report: dict[str, Any]):
    async def story(house):
        lease = await leased(house)
        assert (await tell(house, 2, lease, **report)).code == "invalid"

    inside(story)


def test_a_result_that_vanished_between_is_never_committed(inside, tmp_path: Path):
    """The door looks first; whoever comes in another way is judged all the same."""

    async def story(house):
        lease = await leased(house)
        assert (await house.ask("PUT", HERE, CONTENT)).status == 201
        house.served.results.has = flaky(house.served.results.has)
        await tell(house, 2, lease, stored=stored())
        shown = (await house.get(f"/tasks/{lease['job_id']}/0")).value
        assert shown["state"] == "QUARANTINED"
        assert shown["error"].endswith("its result was stored, and is not in the store any more")

    def flaky(has):
        asked = []

        def once(stored) -> bool:
            asked.append(stored)
            return has(stored) and len(asked) == 1

        return once

    inside(story)


def test_who_may_only_read_brings_nothing_and_who_may_only_work_reads_nothing(inside):
    async def story(house):
        reader, worker = await house.token("read"), await house.token("worker", worker="w1")
        assert (await house.ask("PUT", HERE, CONTENT, token=reader)).status == 403
        assert (await house.ask("PUT", HERE, CONTENT, token=worker)).status == 201
        assert (await house.ask("HEAD", HERE, token=worker)).status == 200
        house.admin, admin = worker, house.admin
        assert (await house.get("/tasks/1/0/result")).status == 403
        house.admin = admin

    inside(story)


def test_one_larger_than_the_setting_is_refused_in_words(inside, tmp_path: Path):
    async def story(house):
        house.served.results.largest_bytes = len(CONTENT) - 1
        told = await house.ask("PUT", HERE, CONTENT)
        assert (told.status, told.code) == (413, "too_large")
        assert "server.result_size" in told.value["detail"]
        assert "write it to a file" in told.value["detail"]

    inside(story)
    assert os.listdir(tmp_path / "results") == []


def test_a_small_result_is_read_from_the_log(inside):
    async def story(house):
        lease = await leased(house)
        await tell(house, 2, lease, result=base64ed(encode_result(42)))
        told = await house.get(f"/tasks/{lease['job_id']}/0/result")
        assert (told.status, told.content) == (200, encode_result(42))
        shown = (await house.get(f"/tasks/{lease['job_id']}/0")).value
        assert (shown["result_bytes"], shown["result_digest"]) == (1, None)

    inside(story)


def test_a_task_without_a_result_says_so(inside):
    async def story(house):
        job = await house.submit()
        told = await house.get(f"/tasks/{job}/0/result")
        assert (told.status, told.code) == (409, "conflict")
        assert "is WAITING, without a result" in told.value["detail"]
        assert (await house.get(f"/tasks/{job}/1/result")).status == 404
        assert (await house.get("/tasks/99/0/result")).status == 404

    inside(story)


@pytest.mark.parametrize("harm", ["missing", "cut short", "changed"])
def test_what_the_disk_lost_is_told_as_damage_before_a_byte_leaves(
    inside, tmp_path: Path, harm: str
):
    async def story(house):
        task = await committed(house)
        path = path_in(tmp_path)
        if harm == "missing":
            path.unlink()
        else:
            path.write_bytes(CONTENT[:-1] if harm == "cut short" else CONTENT[:-1] + b"?")
        told = await house.get(f"{task}/result")
        assert (told.status, told.code) == (500, "damaged")
        assert str(path) in told.value["detail"]
        assert (await house.get(task)).value["state"] == "SUCCEEDED"

    inside(story)


def test_the_result_of_a_forgotten_job_is_gone(inside):
    async def story(house):
        task = await committed(house)
        results, state = house.served.results, house.served.coordinator.state
        assert DIGEST in set(results.needed(state))
        tick = c.Tick(wall=Instant(1), held=frozenset(), keep_finished=0, keep_finished_ms=0)
        await house.served.ask(lambda k: k.execute(tick, actor="clock"))
        told = await house.get(f"{task}/result")
        assert (told.status, told.code) == (410, "gone")
        assert DIGEST not in set(results.needed(state))

    inside(story)
