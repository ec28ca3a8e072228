"""The output of attempts over the interface: who may bring it, and how it is read and followed."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast.api import logs
from holdfast.coordinator.output import Quota

Inside = Callable[..., None]
MSGPACK = "application/msgpack"


async def leased(house: Any, number: int = 1, **rest: Any) -> tuple[str, dict[str, Any]]:
    """A job whose one task the worker w1 holds: the job, and how its writer names itself."""
    job_id = await house.submit(**rest)
    told = await house.exchange(number)
    (run,) = told.value["runs"]
    (item,) = run["items"]
    assert item["attempt"] == 1
    return job_id, {"worker": "w1", "incarnation": 1, "lease_id": item["lease_id"]}


async def put(house: Any, job_id: str, content: bytes, offset: int = 0, **rest: Any) -> Any:
    token = rest.pop("token", None)
    stream, attempt = rest.pop("stream", "stdout"), rest.pop("attempt", 1)
    query = "&".join(f"{name}={value}" for name, value in {"offset": offset, **rest}.items())
    return await house.ask(
        "PUT", f"/logs/{job_id}/0/{attempt}/{stream}?{query}", content, token=token
    )


async def finish(house: Any, job_id: str, lease_id: int, number: int = 2) -> None:
    """The command of the worker's one task ended well."""
    done = {"job_id": job_id, "index": 0, "lease_id": lease_id, "ran_ms": 5, "result": "wA=="}
    told = await house.exchange(number, done=[done], held=[])
    assert told.status == 200, told.content


def test_what_a_worker_brings_is_read_with_its_place(inside: Inside) -> None:
    async def story(house: Any) -> None:
        job_id, holder = await leased(house)
        told = await put(house, job_id, b"hello ", **holder)
        assert (told.status, told.value) == (200, {"next": 6})
        assert (await put(house, job_id, b"lo world\n", 3, **holder)).value == {"next": 12}
        told = await house.get(f"/logs/{job_id}/0/1/stdout?offset=2&limit=4")
        assert told.content == b"llo "
        assert told.headers["content-type"] == "application/octet-stream"
        assert told.headers["holdfast-offset"] == "2"
        assert told.headers["holdfast-next"] == "6"
        assert told.headers["holdfast-ended"] == "false"
        told = await house.get(f"/logs/{job_id}/0/1/stdout?offset=-6", accept=MSGPACK)
        assert told.value == {
            "offset": 6, "content": b"world\n", "next": 12, "dropped": 0, "ended": False,
        }  # fmt: skip

    inside(story)


def test_a_gap_is_refused_with_the_offset_to_go_on_from(inside: Inside) -> None:
    async def story(house: Any) -> None:
        job_id, holder = await leased(house)
        await put(house, job_id, b"hello", **holder)
        told = await put(house, job_id, b"x", 9, **holder)
        assert (told.status, told.code) == (409, "offset_gap")
        assert told.value["extra"] == {"offset": 5}
        told = await put(house, job_id, b"x", 9, skips=1, ended=1, **holder)
        assert told.value == {"next": 10}
        told = await house.get(f"/logs/{job_id}/0/1/stdout?offset=5")
        assert (told.headers["holdfast-dropped"], told.content) == ("4", b"x")
        assert told.headers["holdfast-ended"] == "true"

    inside(story)


def test_only_the_holder_of_the_attempt_may_write(inside: Inside) -> None:
    async def story(house: Any) -> None:
        job_id, holder = await leased(house)
        for wrong in ({"worker": "w2"}, {"lease_id": 99}, {"incarnation": 2}):
            told = await put(house, job_id, b"x", **{**holder, **wrong})
            assert (told.status, told.code) == (409, "lease_lost"), wrong
        assert (await put(house, job_id, b"x", attempt=2, **holder)).status == 404
        assert (await put(house, "99", b"x", **holder)).status == 404
        for stream in ("stdin", "..%2Fx", "stdout%00"):
            assert (await put(house, job_id, b"x", stream=stream, **holder)).status == 404
        other = await house.token("worker", worker="w2")
        told = await put(house, job_id, b"x", token=other, **holder)
        assert (told.status, told.code) == (403, "forbidden")
        reader = await house.token("read")
        assert (await put(house, job_id, b"x", token=reader, **holder)).status == 403
        own = await house.token("worker", worker="w1")
        assert (await put(house, job_id, b"x", token=own, **holder)).status == 200
        assert (await house.get(f"/logs/{job_id}/0/1/stdout", token=own)).status == 403
        assert (await house.get(f"/logs/{job_id}/0/1/stdout", token=reader)).content == b"x"

    inside(story)


def test_who_held_an_attempt_may_bring_the_rest_after_its_end(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(house: Any) -> None:
        job_id, holder = await leased(house)
        await finish(house, job_id, holder["lease_id"])
        for _ in range(2):
            assert (await put(house, job_id, b"late", **holder)).value == {"next": 4}
        told = await put(house, job_id, b"late", **{**holder, "lease_id": 99})
        assert told.code == "lease_lost"
        monkeypatch.setattr(logs, "LATE_MS", -1)
        assert (await put(house, job_id, b"late", **holder)).code == "lease_lost"

    inside(story)


def test_a_reader_waits_for_more_and_for_the_end(inside: Inside) -> None:
    async def story(house: Any) -> None:
        job_id, holder = await leased(house)
        following = asyncio.ensure_future(house.get(f"/logs/{job_id}/0/1/stdout?wait=30s"))
        await house.get("/livez")
        assert not following.done()
        await put(house, job_id, b"hello", **holder)
        assert (await following).content == b"hello"
        following = asyncio.ensure_future(house.get(f"/logs/{job_id}/0/1/stdout?offset=5&wait=30s"))
        await house.get("/livez")
        await put(house, job_id, b"", 5, ended=1, **holder)
        told = await following
        assert (told.content, told.headers["holdfast-ended"]) == (b"", "true")

    inside(story)


def test_a_stream_that_ends_without_a_byte_keeps_nobody_waiting(inside: Inside) -> None:
    async def story(house: Any) -> None:
        job_id, holder = await leased(house)
        following = asyncio.ensure_future(house.get(f"/logs/{job_id}/0/1/stderr?wait=30s"))
        await house.get("/livez")
        assert (await put(house, job_id, b"", stream="stderr", ended=1, **holder)).status == 200
        assert (await following).headers["holdfast-ended"] == "true"
        assert (await house.get(f"/jobs/{job_id}/logs")).value["logs"] == []

    inside(story)


def test_an_attempt_whose_worker_said_nothing_ends_after_a_while(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(house: Any) -> None:
        job_id, holder = await leased(house)
        await put(house, job_id, b"half a li", **holder)
        await finish(house, job_id, holder["lease_id"])
        target = f"/logs/{job_id}/0/1/stdout?offset=9"
        assert (await house.get(target)).headers["holdfast-ended"] == "false"
        monkeypatch.setattr(logs, "LINGER_MS", 0)
        assert (await house.get(target)).headers["holdfast-ended"] == "true"

    inside(story)


def test_what_is_not_there_is_told_apart(inside: Inside) -> None:
    async def story(house: Any) -> None:
        job_id, _ = await leased(house)
        assert (await house.get(f"/logs/{job_id}/0/1/stdout")).content == b""
        for target in ("0/3/stdout", "1/1/stdout", "0/0/stdout", "x/1/stdout", "0/1/stdall"):
            assert (await house.get(f"/logs/{job_id}/{target}")).status == 404, target
        assert (await house.get("/logs/99/0/1/stdout")).status == 404
        assert (await house.get(f"/logs/{job_id}/0/1/stdout?offset=x")).code == "invalid"
        assert (await house.get(f"/logs/{job_id}/0/1/stdout?wait=x")).code == "invalid"

    inside(story)


def test_an_attempt_that_has_not_begun_can_be_waited_for(inside: Inside) -> None:
    async def story(house: Any) -> None:
        job_id = await house.submit()
        target = f"/logs/{job_id}/0/1/stdout"
        assert (await house.get(target)).headers["holdfast-ended"] == "false"
        following = asyncio.ensure_future(house.get(f"{target}?wait=30s"))
        await house.get("/livez")
        (run,) = (await house.exchange(1)).value["runs"]
        lease_id = run["items"][0]["lease_id"]
        await put(house, job_id, b"hello", worker="w1", incarnation=1, lease_id=lease_id)
        assert (await following).content == b"hello"
        assert (await house.get(f"/logs/{job_id}/0/2/stdout")).status == 200
        await finish(house, job_id, lease_id)
        assert (await house.get(f"/logs/{job_id}/0/2/stdout")).status == 404

    inside(story)


def test_a_server_that_leaves_sends_whoever_follows_to_the_next(inside: Inside) -> None:
    async def story(house: Any) -> None:
        job_id, holder = await leased(house)
        await put(house, job_id, b"hello", **holder)
        target = f"/logs/{job_id}/0/1/stdout?wait=30s"
        following = asyncio.ensure_future(house.get(f"{target}&offset=5"))
        await house.get("/livez")
        house.service.leave()
        assert (await following).status == 503
        assert (await house.get(target)).content == b"hello"

    inside(story)


def test_many_chunks_come_in_one_request_and_each_has_its_answer(inside: Inside) -> None:
    async def story(house: Any) -> None:
        job_id, holder = await leased(house)
        lease = holder["lease_id"]
        chunks = [
            (job_id, 0, 1, lease, "stdout", 0, b"out\n", False, True),
            (job_id, 0, 1, lease, "stderr", 3, b"err\n", False, False),
            (job_id, 0, 1, lease + 1, "stderr", 0, b"err\n", False, False),
            ("77", 0, 1, lease, "stderr", 0, b"err\n", False, False),
            ("..", 0, 1, lease, "stderr", 0, b"err\n", False, False),
            (job_id, 0, 1, lease, "stderr", -1, b"err\n", False, False),
        ]
        body = msgspec.msgpack.encode(["w1", 1, chunks])
        told = await house.post("/logs", body, content_type=MSGPACK)
        assert told.value["chunks"] == [
            {"next": 4, "code": ""},
            {"next": 0, "code": "offset_gap"},
            {"next": 0, "code": "lease_lost"},
            {"next": 0, "code": "not_found"},
            {"next": 0, "code": "not_found"},
            {"next": 0, "code": "invalid"},
        ]
        other = await house.token("worker", worker="w2")
        told = await house.post("/logs", body, content_type=MSGPACK, token=other)
        assert told.code == "forbidden"

    inside(story)


def test_a_job_lists_what_its_attempts_have_printed(inside: Inside) -> None:
    async def story(house: Any) -> None:
        job_id, holder = await leased(house)
        await put(house, job_id, b"x" * 100, ended=1, **holder)
        await put(house, job_id, b"yy", stream="stderr", **holder)
        told = await house.get(f"/jobs/{job_id}/logs")
        assert told.value["next"] is None
        assert told.value["logs"] == [
            {"index": 0, "attempt": 1, "stream": "stderr", "size": 2, "kept": 2, "ended": False},
            {"index": 0, "attempt": 1, "stream": "stdout", "size": 100, "kept": 60, "ended": True},
        ]
        assert (await house.get("/jobs/99/logs")).status == 404

    inside(story, quota=Quota(stream_bytes=64))


def test_output_that_made_room_is_gone_and_stays_so_after_a_restart(inside: Inside) -> None:
    quota = Quota(stream_bytes=64, all_bytes=3 * 8192)
    jobs: list[str] = []

    async def story(house: Any) -> None:
        for number in range(4):
            job_id, holder = await leased(house, 2 * number + 1)
            await put(house, job_id, b"x", ended=1, **holder)
            await finish(house, job_id, holder["lease_id"], 2 * number + 2)
            jobs.append(job_id)

    async def later(house: Any) -> None:
        told = await house.get(f"/logs/{jobs[0]}/0/1/stdout")
        assert (told.status, told.code) == (410, "gone")
        assert (await house.get(f"/logs/{jobs[3]}/0/1/stdout")).content == b"x"

    inside(story, quota=quota)
    inside(later, quota=quota)


def test_what_nobody_ended_is_ended_and_what_is_forgotten_is_removed(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LINGER_MS", 0)

    async def story(house: Any) -> None:
        job_id, holder = await leased(house)
        await put(house, job_id, b"x", **holder)
        root = house.served.log.path / "output"
        (root / "4711" / "0").mkdir(parents=True)
        (root / "4711" / "0" / "0-1-stdout-0").write_bytes(b"of a job long forgotten")

        async def once(_: float) -> None:
            raise asyncio.CancelledError

        monkeypatch.setattr(logs.asyncio, "sleep", once)
        with pytest.raises(asyncio.CancelledError):
            await logs.keep_tidy(house.service)
        assert [each.name for each in root.iterdir()] == [job_id]
        assert not (await house.get(f"/jobs/{job_id}/logs")).value["logs"][0]["ended"]
        await finish(house, job_id, holder["lease_id"])
        with pytest.raises(asyncio.CancelledError):
            await logs.keep_tidy(house.service)
        assert (await house.get(f"/jobs/{job_id}/logs")).value["logs"][0]["ended"]

    inside(story)
