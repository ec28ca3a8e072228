"""What tasks have printed, shown from a folder: which task, which attempt, how much of it."""

from pathlib import Path

import pytest

from holdfast.cli.folders import FolderShelf
from holdfast.cli.following import Writer, start_of
from holdfast.cli.shelves import Place
from holdfast.coordinator.output import OutputStore, Quota
from holdfast.coordinator.outputparts import StreamName
from holdfast.testing.world import World
from holdfast.wire.output import Output


def printed(folder: Path, index: int, attempt: int, text: str, stream: str = "stdout") -> None:
    store = OutputStore(folder / "output")
    store.append(StreamName("1", index, attempt, stream), 0, text.encode(), ended=True)


@pytest.fixture
def folder(write, spec) -> Path:
    """Job 1 of two tasks; the first failed once and then succeeded, the second is waiting."""
    world = World()
    world.submit("", items=(b"a", b"b"), spec=spec)
    (first,) = world.grant("1", 0)
    world.start("1", 0, first)
    world.fail("1", 0, first)
    world.sleep(600)
    (second,) = world.grant("1", 0)
    world.start("1", 0, second)
    world.commit("1", 0, second, result=b"\x01")
    made = write(world)
    printed(made, 0, 1, "first try\n")
    printed(made, 0, 2, "one\ntwo\nthree")
    printed(made, 0, 2, "oh\n", "stderr")
    return made


def test_the_last_attempt_is_shown_each_stream_where_it_belongs(run, folder: Path) -> None:
    assert run("task", "logs", "1/0", "--data", folder) == (0, "one\ntwo\nthree", "oh\n")
    assert run("job", "logs", "last/0", "--data", folder).out == "one\ntwo\nthree"


@pytest.mark.parametrize(
    ("options", "out", "err"),
    [
        (("--stream", "stdout"), "one\ntwo\nthree", ""),
        (("--stream", "stderr"), "", "oh\n"),
        (("--attempt", "1"), "first try\n", ""),
        (("--tail", "2"), "two\nthree", "oh\n"),
        (("--tail", "1"), "three", "oh\n"),
        (("--tail", "0"), "", ""),
        (("--tail", "99"), "one\ntwo\nthree", "oh\n"),
    ],
)
def test_less_can_be_asked_for(run, folder: Path, options, out: str, err: str) -> None:
    assert run("task", "logs", "1/0", "--data", folder, *options) == (0, out, err)


def test_where_several_speak_each_line_says_who(run, folder: Path) -> None:
    printed(folder, 1, 1, "me too\n")
    shown = run("job", "logs", "1", "--data", folder)
    assert shown.out == "1/0:2 | one\n1/0:2 | two\n1/0:2 | three\n1/1 | me too\n"
    assert shown.err == "1/0:2 | oh\n"
    shown = run("job", "logs", "1", "--data", folder, "--attempt", "1", "--tail", "1")
    assert shown.out == "1/0 | first try\n1/1 | me too\n"


def test_what_is_not_there_is_said(run, folder: Path) -> None:
    shown = run("task", "logs", "1/1", "--data", folder)
    assert (shown.code, shown.out) == (0, "")
    assert "has not begun" in shown.err
    assert run("task", "logs", "1/0", "--data", folder, "--attempt", "7").code == 4
    assert run("task", "logs", "1/2", "--data", folder).code == 4
    assert run("job", "logs", "9", "--data", folder).code == 4
    assert run("job", "logs", "1", "-f", "--data", folder).code == 2
    assert run("task", "logs", "1", "--data", folder).code == 2


def test_a_job_that_printed_nothing_says_so(run, write, spec) -> None:
    world = World()
    world.submit("", items=(b"a", b"b"), spec=spec)
    assert "nothing" in run("job", "logs", "1", "--data", write(world)).err


def test_output_that_is_gone_is_not_found(run, folder: Path) -> None:
    store = OutputStore(folder / "output", Quota(all_bytes=1))
    store.append(StreamName("1", 1, 1, "stdout"), 0, b"x", ended=True)
    shown = run("task", "logs", "1/0", "--data", folder)
    assert shown.code == 4
    assert "no longer kept" in shown.err


def test_what_is_left_out_is_told_beside_it(run, folder: Path) -> None:
    store = OutputStore(folder / "output", Quota(stream_bytes=64))
    store.append(StreamName("1", 0, 2, "stdout"), 13, b"\n" + b"x" * 500, skips=True)
    shown = run("task", "logs", "1/0", "--data", folder, "--stream", "stdout")
    assert "bytes of 1/0:2 stdout are not kept" in shown.err
    assert shown.out.startswith("one\ntwo\nthree")


def test_the_last_lines_are_found_in_long_output(tmp_path: Path) -> None:
    lines = [b"%06d\n" % number for number in range(40_000)]
    store = OutputStore(tmp_path / "output")
    store.append(StreamName("1", 0, 1, "stdout"), 0, b"".join(lines), ended=True)
    shelf, place = FolderShelf(tmp_path), Place("1", 0, 1, "stdout")
    assert start_of(shelf, place, 3) == 7 * (40_000 - 3)
    assert start_of(shelf, place, 30_000) == 7 * 10_000
    assert start_of(shelf, place, 50_000) == 0
    assert start_of(shelf, place, None) == 0


def test_lines_of_tasks_are_not_mixed(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    writer = Writer(prefixed=True)
    first, second = Place("1", 0, 1, "stdout"), Place("1", 1, 1, "stdout")
    writer.write(first, Output(0, b"hel", 3, 0, False))
    writer.write(second, Output(0, b"\xff\n", 2, 0, False))
    writer.write(first, Output(3, b"lo\nwor", 9, 0, False))
    writer.close()
    assert capsysbinary.readouterr().out == b"1/1 | \xff\n1/0 | hello\n1/0 | wor\n"
