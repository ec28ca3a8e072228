"""What every deliverer promises: each delivery is answered for once, and nothing holds it up."""

import json
import os
import threading
import time
from contextlib import contextmanager

import pytest

from holdfast.core.owed import FILE
from holdfast.testing.fleet import wait_until
from holdfast.testing.posting import a_delivery, a_parcel
from holdfast.wire.delivery import Parcel
from holdfast.wire.sinks import FileSink, FunctionSink
from holdfast.worker.delivering import Settled
from holdfast.worker.delivering_process import ProcessDeliverer
from holdfast.worker.delivering_threads import ThreadDeliverer

PATIENCE_S = 60.0
STARTED_MS = 1_000_000
SENDING = '''
import json, os, threading, time
from pathlib import Path

def note(effect):
    folder = Path(effect.body["folder"])
    with open(folder / "noted", "a") as file:
        file.write(json.dumps([effect.key, effect.id]) + "\\n")

def fail(effect):
    raise ValueError("not today")

def hang(effect):
    note(effect)
    while not Path(effect.body["folder"], "go").exists():
        time.sleep(0.005)

def hang_once(effect):
    first = not Path(effect.body["folder"], "noted").exists()
    note(effect)
    while first and not Path(effect.body["folder"], "go").exists():
        time.sleep(0.005)

def until_left(effect):
    hang(effect)
    # Those who have nothing to do are the last to be told to leave, and the first to go.
    while any(thread.name == "holdfast-idle" for thread in threading.enumerate()):
        time.sleep(0.005)

def linger(effect):
    while not Path(effect.body["folder"], "other").exists():
        time.sleep(0.005)

def die(effect):
    os.abort()

def fragile(effect):
    note(effect)
    if effect.id.startswith("log:7/50:"):
        os.abort()
'''


class Clock:
    """It goes on when a test says so, and stands still however slow the machine is."""

    def __init__(self):
        self.ahead_ms = 0

    def __call__(self):
        return STARTED_MS + self.ahead_ms


class Stage:
    def __init__(self, make, folder):
        self.clock = Clock()
        self.news = threading.Event()
        self.folder = folder
        self.deliverer = make(self.news.set, self.clock)

    def give(self, target, *numbers, key="", place="mail", **settings):
        sink = FunctionSink(f"holdfast_sending:{target}", **settings)
        some = [a_delivery(n, {"folder": str(self.folder)}, key=key) for n in numbers]
        self.deliverer.give([a_parcel(*some, sink=sink, place=place)])

    def until(self, is_enough):
        """Harvest until so much is there."""
        found = Settled([], [])
        give_up_at = time.monotonic() + PATIENCE_S
        while not is_enough(found):
            assert time.monotonic() < give_up_at, (found, self.deliverer.carrying())
            self.news.wait(0.05)
            self.news.clear()
            more = self.deliverer.harvest()
            found = Settled(found.delivered + more.delivered, found.bounced + more.bounced)
        return found

    def settled(self, count):
        return self.until(lambda found: len(found.delivered) + len(found.bounced) >= count)

    def noted(self):
        try:
            lines = (self.folder / "noted").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line)[1] for line in lines]

    def release(self):
        (self.folder / "go").touch()


@pytest.fixture(params=[ThreadDeliverer, ProcessDeliverer])
def make(request):
    return request.param


@pytest.fixture
def stage(make, tmp_path, monkeypatch):
    (tmp_path / "holdfast_sending.py").write_text(SENDING)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Stage(make, tmp_path)
    try:
        yield made
    finally:
        made.release()
        made.deliverer.close(0)


def numbers(names):
    return [name.index for name in names]


def test_each_delivery_is_answered_for_once(stage):
    stage.give("note", 1, 2, 3)
    assert len(stage.deliverer.carrying()) == 3
    found = stage.settled(3)
    assert numbers(found.delivered) == [1, 2, 3]
    assert not found.bounced
    assert stage.deliverer.carrying() == ()
    assert stage.deliverer.next_due() == 0
    assert stage.deliverer.harvest() == Settled([], [])
    assert stage.noted() == [f"log:7/{n}:9:0" for n in (1, 2, 3)]


def test_one_place_keeps_its_order_and_places_do_not_wait_for_each_other(stage):
    stage.give("hang", 1, place="slow")
    stage.give("hang", 2, place="slow")
    stage.give("note", 3, place="quick")
    found = stage.settled(1)
    assert numbers(found.delivered) == [3]
    assert numbers(stage.deliverer.carrying()) == [1, 2]
    stage.release()
    assert numbers(stage.settled(2).delivered) == [1, 2]


def test_what_fails_is_told_and_what_waits_behind_it_comes_back(stage):
    stage.give("fail", 1, 2, key="k")
    first, second = stage.settled(2).bounced
    assert "not today" in first.error
    assert not first.is_untried
    assert second.is_untried


def test_what_has_not_begun_is_given_back(stage):
    stage.give("hang", 1, 2)
    stage.give("note", 3)
    wait_until(stage.noted)
    stage.deliverer.take_back()
    # What is asked is asked in order: when this is done, that was heard.
    stage.give("note", 9, place="other")
    stage.settled(1)
    stage.release()
    found = stage.settled(3)
    assert numbers(found.delivered) == [1]
    assert numbers(bounced.name for bounced in found.bounced) == [2, 3]
    assert all(bounced.is_untried for bounced in found.bounced)
    # It may be given something again, whatever became of that before.
    stage.give("note", 3)
    assert numbers(stage.settled(1).delivered) == [3]


def test_what_hangs_is_given_up_and_the_place_goes_on(stage):
    stage.give("hang_once", 1, 2, timeout="10s")
    wait_until(stage.noted)
    assert stage.deliverer.harvest() == Settled([], [])
    stage.clock.ahead_ms += 10_000
    first, second = stage.settled(2).bounced
    assert "longer than 10 s" in first.error
    assert not first.is_untried
    assert second.is_untried
    stage.give("hang_once", 1, 2, timeout="10s")
    assert numbers(stage.settled(2).delivered) == [1, 2]


def test_progress_puts_the_end_off(stage):
    for number in range(3):
        stage.give("note", number, timeout="10s")
        stage.settled(1)
        stage.clock.ahead_ms += 9_000


def test_closing_waits_for_what_has_begun(stage):
    stage.give("until_left", 1, 2)
    wait_until(stage.noted)
    stage.give("note", 9, place="idle")
    stage.settled(1)
    # From now on the first ends when it was heard that they close, and not before.
    stage.release()
    found = stage.deliverer.close(60_000)
    assert numbers(found.delivered) == [1]
    assert numbers(bounced.name for bounced in found.bounced) == [2]
    assert found.bounced[0].is_untried


def test_closing_in_a_hurry_answers_for_everything(stage):
    stage.give("hang", 1, 2)
    wait_until(stage.noted)
    found = stage.deliverer.close(0)
    assert not found.delivered
    assert numbers(bounced.name for bounced in found.bounced) == [1, 2]
    assert all(bounced.is_untried for bounced in found.bounced)


def test_a_sink_that_was_defined_anew_is_used_from_then_on(stage):
    for name in ("one", "two"):
        sink = FileSink(str(stage.folder / name))
        stage.deliverer.give([a_parcel(a_delivery(1), sink=sink)])
        assert numbers(stage.settled(1).delivered) == [1]
        assert (stage.folder / name).exists()


def test_nonsense_in_a_parcel_is_its_own_trouble(stage):
    stage.deliverer.give([Parcel("dream", "x", b"", (a_delivery(1), a_delivery(2)))])
    first, second = stage.settled(2).bounced
    assert "nobody here delivers a dream" in first.error
    assert second.is_untried
    stage.deliverer.give([Parcel(FILE, "host:elsewhere", b"", (a_delivery(3, raw=b"?"),))])
    assert len(stage.settled(1).bounced) == 1


@contextmanager
def delivering(make, folder):
    stage = Stage(make, folder)
    try:
        yield stage
    finally:
        stage.deliverer.close(0)


def test_a_process_that_dies_takes_nothing_along(tmp_path, monkeypatch):
    (tmp_path / "holdfast_sending.py").write_text(SENDING)
    monkeypatch.syspath_prepend(str(tmp_path))
    with delivering(ProcessDeliverer, tmp_path) as stage:
        stage.give("die", 1, 2)
        first, second = stage.settled(2).bounced
        assert "SIGABRT" in first.error
        assert not first.is_untried
        assert second.is_untried
        stage.give("note", 2)
        assert numbers(stage.settled(1).delivered) == [2]


def test_whoever_went_before_the_one_that_kills_is_not_blamed(tmp_path, monkeypatch):
    (tmp_path / "holdfast_sending.py").write_text(SENDING)
    monkeypatch.syspath_prepend(str(tmp_path))
    with delivering(ProcessDeliverer, tmp_path) as stage:
        stage.give("fragile", *range(100))
        found = stage.settled(100)
        assert numbers(found.delivered) == list(range(50))
        assert found.bounced[0].name.index == 50
        assert [bounced.is_untried for bounced in found.bounced] == [False] + [True] * 49


def test_a_process_that_hangs_is_killed(tmp_path, monkeypatch):
    (tmp_path / "holdfast_sending.py").write_text(SENDING)
    monkeypatch.syspath_prepend(str(tmp_path))
    with delivering(ProcessDeliverer, tmp_path) as stage:
        stage.give("hang", 1, timeout="10s")
        wait_until(stage.noted)
        pid = stage.deliverer._child.pid
        stage.clock.ahead_ms += 10_000
        assert "and was ended" in stage.settled(1).bounced[0].error
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_threads_that_hang_are_bounded(tmp_path, monkeypatch):
    (tmp_path / "holdfast_sending.py").write_text(SENDING)
    monkeypatch.syspath_prepend(str(tmp_path))
    with delivering(ThreadDeliverer, tmp_path) as stage:
        for number in range(4):
            stage.give("hang", number, timeout="10s")
            wait_until(lambda n=number: len(stage.noted()) > n)
            stage.clock.ahead_ms += 10_000
            stage.settled(1)
        stage.give("hang", 9, timeout="10s")
        assert "4 deliveries hang there" in stage.settled(1).bounced[0].error
        stage.release()
        wait_until(lambda: not stage.deliverer._hangs(("effect", "mail")))
        stage.give("note", 9)
        assert numbers(stage.settled(1).delivered) == [9]


def test_a_thread_that_was_given_up_is_not_listened_to(tmp_path, monkeypatch):
    (tmp_path / "holdfast_sending.py").write_text(SENDING)
    monkeypatch.syspath_prepend(str(tmp_path))
    with delivering(ThreadDeliverer, tmp_path) as stage:
        stage.give("hang", 1, timeout="10s")
        wait_until(stage.noted)
        stage.clock.ahead_ms += 10_000
        stage.settled(1)
        stage.give("linger", 1, timeout="10s")
        stage.release()
        wait_until(lambda: not stage.deliverer._hangs(("effect", "mail")))
        # Its word about the former try says nothing about this one.
        assert stage.deliverer.harvest() == Settled([], [])
        assert numbers(stage.deliverer.carrying()) == [1]
        (tmp_path / "other").touch()
        assert numbers(stage.settled(1).delivered) == [1]
