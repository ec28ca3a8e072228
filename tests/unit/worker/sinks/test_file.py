"""The file sink: every effect is one line, however often it is delivered."""

import fcntl
import json
import os

import pytest

from holdfast.testing.posting import a_delivery, delivered_to
from holdfast.wire.sinks import FileSink
from holdfast.worker.sinks.file import FileOutlet
from holdfast.worker.sinks.known import Marks, mark_of

STEPS = ("looked", "written", "synced")


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def ids_of(path):
    return [line["id"] for line in lines_of(path)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def outlet(path):
    made = FileOutlet(FileSink(str(path), timeout=0.1))
    yield made
    made.close()


def test_an_effect_is_a_line_with_its_id_key_and_body(outlet, path):
    assert delivered_to(outlet, a_delivery(1, {"a": [1, "ü"]}, key="k")) == [None]
    assert lines_of(path) == [{"id": "log:7/1:9:0", "key": "k", "body": {"a": [1, "ü"]}}]


def test_a_repeat_adds_nothing_whoever_delivers_it(outlet, path):
    some = [a_delivery(n) for n in range(5)]
    delivered_to(outlet, *some)
    assert delivered_to(outlet, *some, a_delivery(9), a_delivery(9)) == [None] * 7
    another = FileOutlet(FileSink(str(path)))
    assert delivered_to(another, *some, a_delivery(9)) == [None] * 6
    another.close()
    assert ids_of(path) == [f"log:7/{n}:9:0" for n in (0, 1, 2, 3, 4, 9)]


def test_what_another_program_appended_meanwhile_is_known(outlet, path):
    delivered_to(outlet, a_delivery(1))
    another = FileOutlet(FileSink(str(path)))
    delivered_to(another, a_delivery(2))
    delivered_to(outlet, a_delivery(2), a_delivery(3))
    delivered_to(another, a_delivery(3), a_delivery(1))
    another.close()
    assert ids_of(path) == ["log:7/1:9:0", "log:7/2:9:0", "log:7/3:9:0"]


def test_every_cut_through_the_last_line_is_mended(outlet, path, tmp_path):
    delivered_to(outlet, a_delivery(1), a_delivery(2))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole), 3):
        torn = tmp_path / f"torn-{cut}"
        torn.write_bytes(whole[:cut])
        mending = FileOutlet(FileSink(str(torn)))
        assert delivered_to(mending, a_delivery(2)) == [None]
        mending.close()
        assert torn.read_bytes() == whole


def test_zeros_after_a_power_cut_are_cut_off(outlet, path):
    delivered_to(outlet, a_delivery(1))
    with path.open("ab") as file:
        file.write(b"\0" * 300)
    delivered_to(outlet, a_delivery(2))
    assert ids_of(path) == ["log:7/1:9:0", "log:7/2:9:0"]


def test_lines_of_others_are_left_alone(path):
    path.write_bytes(b'hello\n{"x": 1}\n[1]\n{"id": 5}\n { "id": "log:7/3:9:0", "y": 2}\nno end')
    outlet = FileOutlet(FileSink(str(path)))
    assert delivered_to(outlet, a_delivery(1), a_delivery(3)) == [None, None]
    outlet.close()
    head, last = path.read_bytes().split(b"no end\n")
    assert head.count(b"\n") == 5
    assert json.loads(last)["id"] == "log:7/1:9:0"


def test_an_id_inside_a_body_is_not_that_effect(outlet, path):
    delivered_to(outlet, a_delivery(1, '{"id":"log:7/2:9:0"'), a_delivery(3, {"id": "log:7/2:9:0"}))
    assert delivered_to(outlet, a_delivery(2)) == [None]
    assert ids_of(path) == ["log:7/1:9:0", "log:7/3:9:0", "log:7/2:9:0"]


def test_two_ids_with_one_mark_are_told_apart(outlet, path, monkeypatch):
    monkeypatch.setattr("holdfast.worker.sinks.file.mark_of", lambda text: 7)
    assert delivered_to(outlet, a_delivery(1)) == [None]
    assert delivered_to(outlet, a_delivery(2)) == [None]
    assert delivered_to(outlet, a_delivery(1), a_delivery(2), a_delivery(3)) == [None] * 3
    assert ids_of(path) == ["log:7/1:9:0", "log:7/2:9:0", "log:7/3:9:0"]


def test_a_file_that_was_cut_or_replaced_is_read_anew(outlet, path):
    delivered_to(outlet, a_delivery(1), a_delivery(2))
    os.truncate(path, 0)
    delivered_to(outlet, a_delivery(2))
    assert ids_of(path) == ["log:7/2:9:0"]
    path.unlink()
    delivered_to(outlet, a_delivery(1))
    assert ids_of(path) == ["log:7/1:9:0"]


def test_a_body_that_cannot_be_a_line_holds_up_its_key_alone(outlet, path):
    bad = a_delivery(1, key="a", raw=b"\xc1")
    first, second, third = delivered_to(outlet, bad, a_delivery(2, key="a"), a_delivery(3, key="b"))
    assert first.is_final
    assert "cannot be read" in first.error
    assert second.is_untried
    assert third is None
    assert ids_of(path) == ["log:7/3:9:0"]


def test_trouble_with_the_file_is_told_and_nothing_is_lost(tmp_path):
    nowhere = FileOutlet(FileSink(str(tmp_path / "absent" / "f")))
    told = delivered_to(nowhere, *[a_delivery(n) for n in range(5)])
    assert "No such file" in told[0].error
    assert [bounced.is_untried for bounced in told] == [False, False, False, True, True]
    (tmp_path / "absent").mkdir()
    assert delivered_to(nowhere, a_delivery(0)) == [None]
    nowhere.close()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (bounced,) = delivered_to(FileOutlet(FileSink(str(pipe))), a_delivery(0))
    assert "not a plain file" in bounced.error


def test_somebody_elses_lock_is_waited_for_and_told(outlet, path):
    delivered_to(outlet, a_delivery(1))
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        (bounced,) = delivered_to(outlet, a_delivery(2))
    assert "another program holds its lock" in bounced.error
    assert delivered_to(outlet, a_delivery(2)) == [None]


def test_what_could_not_be_synced_does_not_stay(outlet, path, monkeypatch):
    delivered_to(outlet, a_delivery(1))
    with monkeypatch.context() as failing:
        failing.setattr(os, "fdatasync", lambda file: (_ for _ in ()).throw(OSError(5, "I/O")))
        (bounced,) = delivered_to(outlet, a_delivery(2))
    assert "I/O" in bounced.error
    assert ids_of(path) == ["log:7/1:9:0"]
    assert delivered_to(outlet, a_delivery(1), a_delivery(2)) == [None, None]
    assert ids_of(path) == ["log:7/1:9:0", "log:7/2:9:0"]


def test_a_parcel_is_one_write_and_one_sync(path):
    steps = []
    outlet = FileOutlet(FileSink(str(path)), reached=steps.append)
    delivered_to(outlet, *[a_delivery(n) for n in range(500)])
    outlet.close()
    assert steps == list(STEPS)
    assert len(lines_of(path)) == 500


def test_marks_are_a_set_of_any_size(dice, monkeypatch):
    monkeypatch.setattr("holdfast.worker.sinks.known.RECENT_MAX", 200)
    monkeypatch.setattr("holdfast.worker.sinks.known.RUN_MAX", 1_000)
    marks, known = Marks(), set()
    for _ in range(9):
        some = [mark_of(str(dice.random()).encode()) for _ in range(700)]
        marks.add(some)
        known.update(some)
    assert len(marks) == len(known)
    assert all(map(marks.has, dice.sample(sorted(known), 500)))
    assert not any(marks.has(dice.getrandbits(64)) for _ in range(500))

