"""Streams: jobs that are watched, and the log as it grows."""

import asyncio
import json

import pytest

from holdfast.api import events as events_module
from holdfast.api import streams as streams_module
from holdfast.api.limits import Limits
from holdfast.core.task import TaskState
from holdfast.wire.watching import (
    Alive,
    Begun,
    Ended,
    Finished,
    Grown,
    Missing,
    Opened,
    Reopened,
    unpacked,
)


class Watching:
    """A watcher of jobs: every message as it comes."""

    def __init__(self, house, token: str | None = None) -> None:
        self._house = house
        self._token = token
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._held = bytearray()
        self._messages: list[object] = []
        self.gone = asyncio.Event()

    async def open(self) -> str:
        self.task = asyncio.ensure_future(
            self._house.get("/watch", gone=self.gone, heard=self._pieces, token=self._token)
        )
        opened = await self.next()
        assert isinstance(opened, Opened)
        return opened.stream

    async def next(self) -> object:
        while not self._messages:
            self._held += await self._pieces.get()
            self._messages += unpacked(self._held)
        return self._messages.pop(0)


def test_a_job_that_is_watched_is_told_from_how_it_stands(inside):
    async def story(house):
        watching = Watching(house)
        stream = await watching.open()
        await house.submit(3)
        assert (await house.post(f"/watch/{stream}", {"jobs": ["1", "9"]})).value == {}
        assert await watching.next() == Missing("9", "not_found", "there is no job 9")
        assert await watching.next() == Begun("1", b"\x00\x00\x00", b"", True, "", "")
        await house.post("/tasks/1/1/cancel")
        told = await watching.next()
        assert (told.spans, told.state) == (((1, 1),), int(TaskState.KILLED))
        await house.post("/jobs/1/cancel")
        messages = [await watching.next() for _ in range(4)]
        assert any(isinstance(each, Finished) for each in messages)
        assert messages[-1] == Ended("1", "KILLED", "cancelled")
        watching.gone.set()
        assert (await watching.task).status == 200
        assert not house.served.coordinator.watchers.held()

    inside(story)


def test_a_job_that_is_dropped_is_told_no_more(inside):
    async def story(house):
        watching = Watching(house)
        stream = await watching.open()
        await house.submit()
        await house.submit()
        await house.post(f"/watch/{stream}", {"jobs": ["1", "2"]})
        assert [(await watching.next()).job_id for _ in "12"] == ["1", "2"]
        # What is not watched may be dropped; a repeat changes nothing.
        told = await house.post(f"/watch/{stream}", {"jobs": [], "drop": ["1", "9", "1"]})
        assert (told.status, told.value) == (200, {})
        assert house.served.coordinator.watchers.held() == {"2"}
        await house.post("/jobs/1/cancel")
        await house.post("/jobs/2/cancel")
        assert (await watching.next()).job_id == "2"
        # What is dropped and named at once is told anew.
        await house.post(f"/watch/{stream}", {"jobs": ["2"], "drop": ["2"]})
        while not isinstance(told := await watching.next(), Begun):
            assert told.job_id == "2"
        assert (told.job_id, told.ended) == ("2", "KILLED")
        other = await house.token("read")
        no = await house.post(f"/watch/{stream}", {"jobs": [], "drop": ["2"]}, token=other)
        assert (no.status, house.served.coordinator.watchers.held()) == (404, {"2"})
        many = {"jobs": ["2"] * 6_000, "drop": ["2"] * 6_000}
        assert (await house.post(f"/watch/{stream}", many)).status == 413
        watching.gone.set()
        await watching.task

    inside(story)


def test_a_job_is_watched_from_its_first_moment(inside):
    async def story(house):
        watching = Watching(house)
        stream = await watching.open()
        body = {"kind": "function", "target": "m:f", "sealed": False, "watch": stream}
        told = await house.post("/jobs", body)
        assert told.value["watched"] is True
        assert await watching.next() == Begun("1", b"", b"", False, "", "")
        await house.post("/jobs/1/items", {"first": 0, "items": ["AA=="]})
        assert await watching.next() == Grown("1", 1, False)
        watching.gone.set()
        await watching.task
        nowhere = await house.post("/jobs", {**body, "watch": stream})
        assert (nowhere.status, nowhere.value["watched"]) == (201, False)

    inside(story)


def test_what_is_sent_back_is_told(inside):
    async def story(house):
        watching = Watching(house)
        stream = await watching.open()
        await house.submit(1)
        item = (await house.exchange(1)).value["runs"][0]["items"][0]
        where = {"job_id": "1", "index": 0, "lease_id": item["lease_id"], "ran_ms": 1}
        ended = {"reason": "failed", "error": "no", "traceback": "", "exit_code": 1}
        await house.exchange(2, started=[where], failed=[{**where, **ended}])
        await house.post(f"/watch/{stream}", {"jobs": ["1"]})
        begun = await watching.next()
        assert (begun.states, begun.ended) == (bytes([TaskState.QUARANTINED]), "FAILED")
        assert int.from_bytes(begun.ends, "little") > 0
        await house.post("/jobs/1/retry")
        assert await watching.next() == Reopened("1", ((0, 0),))
        watching.gone.set()
        await watching.task

    inside(story)


def test_a_stream_belongs_to_its_token_and_ends_when_the_server_leaves(inside):
    async def story(house):
        watching = Watching(house)
        stream = await watching.open()
        stranger = await house.token("read")
        told = await house.post(f"/watch/{stream}", {"jobs": ["1"]}, token=stranger)
        assert (told.status, told.code) == (404, "not_found")
        house.service.leave()
        assert (await watching.task).status == 200
        late = Watching(house)
        assert await late.open()
        assert (await late.task).status == 200

    inside(story)


def test_a_silent_stream_shows_that_it_is_alive(inside, monkeypatch):
    monkeypatch.setattr(streams_module, "ALIVE_S", 0.01)

    async def story(house):
        watching = Watching(house)
        await watching.open()
        assert await watching.next() == Alive()
        watching.gone.set()
        await watching.task

    inside(story)


def test_who_does_not_read_is_let_go(inside, monkeypatch):
    monkeypatch.setattr(streams_module, "MOST_UNSENT", 100)

    async def story(house):
        await house.submit(1_000)
        listener = house.service.streams.open(house_identity(house))
        house.service.streams.watch(house_identity(house), listener.name, "1")
        async with asyncio.timeout(5):
            while not listener.closed:
                await asyncio.sleep(0)
        assert len([frame async for frame in listener.frames()]) == 1
        house.service.streams.drop(listener)
        assert not house.served.coordinator.watchers.held()

    inside(story)


def house_identity(house):
    from holdfast.api.identity import identify

    return identify(house.served.coordinator.state, f"Bearer {house.admin}", 0)


class Following:
    """A reader of server-sent events: each as it comes."""

    def __init__(self, house) -> None:
        self._house = house
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._text = ""
        self.gone = asyncio.Event()

    def open(self, target: str = "/events", **headers: str) -> "asyncio.Task":
        self.task = asyncio.ensure_future(
            self._house.get(target, gone=self.gone, heard=self._pieces, **headers)
        )
        return self.task

    async def next(self) -> dict[str, str]:
        """The next event that is one."""
        while True:
            while "\n\n" not in self._text:
                self._text += (await self._pieces.get()).decode()
            block, _, self._text = self._text.partition("\n\n")
            fields = dict(line.split(": ", 1) for line in block.splitlines())
            if "id" in fields:
                return fields


def test_the_log_is_told_from_its_beginning_and_goes_on(inside):
    async def story(house):
        following = Following(house)
        following.open("/events?since=0")
        first = await following.next()
        assert (first["id"], first["event"]) == ("1", "OpenLog")
        await following.next()
        await house.submit()
        told = await following.next()
        data = json.loads(told["data"])
        assert (told["event"], data["position"]) == ("SubmitJob", int(told["id"]))
        assert {"action": "job_submitted", "entity": "1", "details": {"num_tasks": 1}} in data[
            "actions"
        ]
        following.gone.set()
        assert (await following.task).headers["content-type"] == "text/event-stream"

    inside(story)


def test_a_reader_goes_on_where_it_stopped(inside):
    async def story(house):
        await house.submit()
        await house.submit()
        last = house.served.coordinator.state.position
        following = Following(house)
        following.open(last_event_id=str(last - 1))
        assert (await following.next())["id"] == str(last)
        house.service.leave()
        assert (await following.task).status == 200

    inside(story)


def test_a_reader_who_names_no_place_is_told_what_comes(inside):
    async def story(house):
        await house.submit()
        following = Following(house)
        following.open()
        await following._pieces.get()
        await house.post("/jobs/1/cancel")
        assert (await following.next())["event"] == "KillJob"
        following.gone.set()
        await following.task

    inside(story)


@pytest.mark.parametrize("since", ["x", "-1", "9" * 30, "100000"])
def test_a_place_that_is_none_is_refused(inside, since):
    async def story(house):
        assert (await house.get(f"/events?since={since}")).code == "invalid"

    inside(story)


def test_a_silent_log_shows_that_its_reader_is_heard(inside, monkeypatch):
    monkeypatch.setattr(events_module, "ALIVE_S", 0.01)

    async def story(house):
        following = Following(house)
        following.open()
        await following._pieces.get()
        assert await following._pieces.get() == events_module.ALIVE
        following.gone.set()
        await following.task

    inside(story)


def test_so_many_may_follow_the_log_and_no_more(inside):
    async def follow(house):
        gone, heard = asyncio.Event(), asyncio.Queue()
        task = asyncio.ensure_future(house.get("/events", gone=gone, heard=heard))
        await heard.get()
        return gone, task

    async def story(house):
        house.service.limits = Limits(followers=2)
        first, second = await follow(house), await follow(house)
        told = await house.get("/events")
        assert (told.status, told.code) == (503, "queue_full")
        assert told.headers["retry-after"] == "5"
        first[0].set()
        await first[1]
        third = await follow(house)
        for gone, task in (second, third):
            gone.set()
            assert (await task).status == 200
        assert house.service.followers == 0

    inside(story)
