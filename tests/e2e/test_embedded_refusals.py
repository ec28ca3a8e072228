"""Bad input and bad folders: each refusal is one line that says what to do next."""

import os
import subprocess
import sys
import textwrap
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import (
    CannotEncode,
    CannotName,
    Closed,
    LogDamaged,
    LogFailed,
    LogInUse,
    NewerFormat,
    Refused,
)
from holdfast.testing import chores
from holdfast.wal.segments import FORMAT, SEGMENT_HEADER_BYTES

PATIENCE_S = 60


@pytest.fixture
def hf(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(tmp_path / "state", workers=1) as opened:
        yield opened


def one_line(error: BaseException) -> str:
    text = str(error)
    assert text
    assert "\n" not in text
    assert "Traceback" not in text
    return text


REFUSALS: list[tuple[Callable[[holdfast.Holdfast], Any], str, str]] = [
    (lambda hf: hf.job("7"), "not_found", "there is no job 7"),
    (lambda hf: hf.job("no such"), "not_found", "there is no job no such"),
    (lambda hf: hf.retry("7"), "not_found", "there is no job 7"),
    (lambda hf: hf.cancel("7/0"), "not_found", "there is no job 7"),
    (lambda hf: hf.cancel("7"), "invalid", "write JOB/INDEX, such as 12/0"),
    (lambda hf: hf.reschedule("1/9"), "not_found", "job 1 has no task 9"),
    (lambda hf: hf.retry("1", 0), "invalid_transition", "only one that is quarantined"),
    (lambda hf: hf.array(chores.double, 0), "invalid", "at least one task, not 0"),
    (lambda hf: hf.array(chores.double, -5), "invalid", "at least one task, not -5"),
    (lambda hf: hf.array(chores.double, 10**12), "too_large", "at most"),
    (
        lambda hf: hf.submit(chores.square, b"x" * (1 << 21)),
        "too_large",
        "put them in a file and pass its path",
    ),
]


@pytest.mark.parametrize(("ask", "code", "says"), REFUSALS)
def test_a_request_that_makes_no_sense_is_refused_with_its_reason(
    hf: holdfast.Holdfast, ask: Callable[[holdfast.Holdfast], Any], code: str, says: str
) -> None:
    hf.submit(chores.square, 1).result(PATIENCE_S)
    with pytest.raises(Refused) as caught:
        ask(hf)
    assert caught.value.code == code
    assert says in one_line(caught.value)
    assert hf.submit(chores.square, 2).result(PATIENCE_S) == 4


MISTAKES: list[tuple[Callable[[holdfast.Holdfast], Any], type[Exception], str]] = [
    (lambda hf: hf.submit(chores.square), TypeError, "missing a required argument: 'n'"),
    (lambda hf: hf.submit(chores.square, 1, 2), TypeError, "too many positional arguments"),
    (lambda hf: hf.submit(chores.square, object()), CannotEncode, "pickle=True"),
    (lambda hf: hf.submit(lambda n: n, 1), CannotName, "Move it to module level"),
    (lambda hf: hf.submit(_closure(), 1), CannotName, "defined inside another function"),
    (lambda hf: hf.submit(chores.square, 1, key=5), TypeError, "key=5 must be text"),
    (lambda hf: hf.submit(chores.square, 1, name=5), TypeError, "name=5 must be text"),
    (lambda hf: hf.array(chores.double, "5"), TypeError, "count='5' must be a whole number"),
    (lambda hf: hf.array(chores.double, True), TypeError, "must be a whole number"),
    (lambda hf: hf.retry("1", "0"), TypeError, "index='0' must be a whole number"),
    (lambda hf: hf.map(chores.square, 5), TypeError, "not iterable"),
    (lambda hf: hf.map(chores.square, [1], max_parallel=0), ValueError, "at least 1"),
    (lambda hf: hf.submit(chores.square, 1, delay="soon"), ValueError, "write 90s, 5m or 1h30m"),
    (lambda hf: hf.submit(chores.square, 1, delay=-1), ValueError, "cannot be negative"),
    (lambda hf: hf.submit(_takes_key, key="1"), TypeError, "rename the parameter"),
    (lambda hf: hf.array(_takes_name, 3, name="x"), TypeError, "array() takes for itself"),
    (lambda hf: hf.submit(Bench().work, 1), CannotName, "a method bound to one object"),
    (lambda hf: hf.submit(Bench.build, 1), CannotName, "a method bound to one object"),
    (lambda hf: holdfast.task(retries=-1), ValueError, "retries=-1 cannot be negative"),
    (lambda hf: holdfast.task(retries=1.5), TypeError, "must be a whole number"),
    (lambda hf: holdfast.task(priority=0.5), TypeError, "must be a whole number"),
    (lambda hf: holdfast.task(timeout=float("nan")), ValueError, "timeout=nan is not a duration"),
    (lambda hf: holdfast.task(timeout=float("inf")), ValueError, "None stands for no limit"),
    (lambda hf: holdfast.task(timeout=[1]), TypeError, "timeout=[1] is not a duration"),
    (lambda hf: holdfast.task(memory=1.5), TypeError, "memory=1.5 is not a size"),
    (lambda hf: holdfast.task(cpus=float("nan")), ValueError, "cpus=nan"),
    (lambda hf: holdfast.task(labels={"a": 1}), TypeError, "must be text"),
    (lambda hf: holdfast.task(memory="much"), ValueError, "write 512Mi or 4G"),
]


def _closure() -> Callable[[int], int]:
    def inner(n: int) -> int:
        return n

    return inner


def _takes_key(key: int) -> int:
    return key


def _takes_name(index: int, name: str = "") -> str:
    return name


class Bench:
    @holdfast.task
    def work(self, n: int) -> int:
        return n + 1

    @classmethod
    @holdfast.task
    def build(cls, n: int) -> int:
        return n + 2

    @staticmethod
    @holdfast.task
    def rest(n: int) -> int:
        return n + 3


def test_a_parameter_may_bear_a_word_of_submit_where_nothing_is_unclear(
    hf: holdfast.Holdfast,
) -> None:
    assert hf.submit(_takes_key, 1, key="k").result(PATIENCE_S) == 1
    assert hf.submit(_takes_name, 1).result(PATIENCE_S) == ""
    assert list(hf.array(_takes_name, 2, "x", name="job").results()) == ["x", "x"]


def test_a_task_may_be_a_method_and_one_without_an_object_may_be_submitted(
    hf: holdfast.Holdfast,
) -> None:
    assert (Bench().work(1), Bench.build(1), Bench.rest(1)) == (2, 3, 4)
    assert hf.submit(Bench.rest, 1).result(PATIENCE_S) == 4
    assert hf.submit(Bench().work, 1, pickle=True).result(PATIENCE_S) == 2


@pytest.mark.parametrize(("ask", "kind", "says"), MISTAKES)
def test_a_mistake_in_a_call_is_told_where_it_was_made_and_harms_nothing(
    hf: holdfast.Holdfast,
    ask: Callable[[holdfast.Holdfast], Any],
    kind: type[Exception],
    says: str,
) -> None:
    with pytest.raises(kind) as caught:
        ask(hf)
    assert says in one_line(caught.value)
    assert hf.submit(chores.square, 2).result(PATIENCE_S) == 4


def test_a_reason_that_is_no_text_cannot_make_the_folder_unreadable(tmp_path: Path) -> None:
    with holdfast.open(tmp_path, workers=1) as hf:
        handle = hf.submit(chores.square, 1, delay="1h")
        with pytest.raises(Refused, match="wrong value"):
            handle.cancel(reason=5)  # type: ignore[arg-type]
        assert handle.state == "PENDING"
    with holdfast.open(tmp_path, workers=1) as hf:
        assert hf.job("1").cancel("a proper reason")


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"grace": -1}, ValueError),
        ({"grace": "soon"}, ValueError),
        ({"workers": 0}, ValueError),
        ({"workers": 1.5}, TypeError),
        ({"executor": "fibers"}, ValueError),
        ({"history": "much"}, ValueError),
        ({"keep_finished": -1}, ValueError),
    ],
)
def test_a_wrong_option_leaves_the_folder_free(
    tmp_path: Path, options: dict[str, Any], kind: type[Exception]
) -> None:
    with pytest.raises(kind) as caught:
        holdfast.open(tmp_path, **options)
    one_line(caught.value)
    with holdfast.open(tmp_path, workers=1) as hf:
        assert hf.submit(chores.square, 2).result(PATIENCE_S) == 4


def test_a_folder_in_use_says_by_whom(hf: holdfast.Holdfast, tmp_path: Path) -> None:
    with pytest.raises(LogInUse) as caught:
        holdfast.open(tmp_path / "state")
    told = one_line(caught.value)
    assert f"process {os.getpid()}" in told
    assert "holdfast job list --data" in told


def test_a_closed_folder_says_so(tmp_path: Path) -> None:
    with holdfast.open(tmp_path, workers=1) as hf:
        handle = hf.submit(chores.square, 2)
        assert handle.wait(PATIENCE_S)
    for use in (lambda: hf.submit(chores.square, 1), handle.result, lambda: hf.job("1")):
        with pytest.raises(Closed, match="was closed; open it again to go on"):
            use()
    assert repr(hf).endswith("closed>")
    hf.close()


def test_a_folder_of_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    with holdfast.open(tmp_path, workers=1) as hf:
        hf.submit(chores.square, 2).result(PATIENCE_S)
    (segment,) = (p for p in (tmp_path / "wal").glob("*.seg") if p.stem.isdigit())
    before = segment.read_bytes()
    found = _with_newer_format(before)
    segment.write_bytes(found)
    with pytest.raises(NewerFormat) as caught:
        holdfast.open(tmp_path)
    assert "pip install --upgrade holdfast" in one_line(caught.value)
    assert segment.read_bytes() == found


def _with_newer_format(content: bytes) -> bytes:
    """The same segment as a later version might have written it, checksum included."""
    body = bytearray(content[: SEGMENT_HEADER_BYTES - 4])
    body[8:12] = (FORMAT + 1).to_bytes(4, "little")
    checksum = zlib.crc32(body).to_bytes(4, "little")
    return bytes(body) + checksum + content[SEGMENT_HEADER_BYTES:]


def test_a_damaged_log_names_file_byte_and_next_step(tmp_path: Path) -> None:
    with holdfast.open(tmp_path, workers=1) as hf:
        for number in range(20):
            hf.submit(chores.square, number).result(PATIENCE_S)
    (segment,) = (p for p in (tmp_path / "wal").glob("*.seg") if p.stem.isdigit())
    content = bytearray(segment.read_bytes())
    content[1_000] ^= 0xFF
    segment.write_bytes(content)
    with pytest.raises(LogDamaged) as caught:
        holdfast.open(tmp_path)
    told = one_line(caught.value)
    assert str(segment) in told
    assert "at byte" in told
    assert "holdfast log verify" in told
    assert segment.read_bytes() == content


def test_a_place_that_is_no_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("something")
    with pytest.raises(LogFailed) as caught:
        holdfast.open(file / "state")
    assert str(file) in one_line(caught.value)


def test_a_folder_that_cannot_be_written_is_refused_in_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "locked").mkdir(mode=0o555)
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, sys, holdfast
            from holdfast.errors import OperatingError
            from holdfast.client import opening, local
            from holdfast.worker import threads
            if os.getuid() == 0:
                os.setuid(65534)
            try:
                holdfast.open(sys.argv[1])
            except OperatingError as error:
                print(type(error).__name__, error)
            """
        )
    )
    program = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "locked" / "state")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert program.stdout.startswith("LogFailed"), program.stderr
    assert program.stdout.count("\n") == 1
    assert "Permission denied" in program.stdout
