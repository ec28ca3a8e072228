"""Errands of the second process: what is answered, what is said where nothing is, and leaving."""

import sys
import threading
from pathlib import Path

import pytest
from msgspec import Struct

from holdfast.coordinator.desk import Desk, Failed
from holdfast.coordinator.errands import ERRANDS, do
from holdfast.coordinator.snapshotting import Course

PATIENCE_S = 60


class Asked(Struct, frozen=True, tag="asked"):
    number: int


class Told(Struct, frozen=True):
    number: int


def a_second_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def test_an_errand_is_told_to_the_second_process_and_its_answer_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_second_process(tmp_path, monkeypatch, f"cat > {tmp_path}/asked; echo '{{\"number\":8}}'")
    assert Desk().run(Asked(7), Told) == Told(8)
    assert (tmp_path / "asked").read_text() == '{"type":"asked","number":7}'


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("cat > /dev/null; echo first >&2; echo the last word >&2; exit 1", "the last word"),
        ("kill -9 $$", "exit code -9"),
        ("cat > /dev/null; echo no answer", "cannot be read"),
    ],
)
def test_an_errand_that_is_not_done_says_why(
    does: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_second_process(tmp_path, monkeypatch, does)
    with pytest.raises(Failed, match=said):
        Desk().run(Asked(7), Told)


def test_an_errand_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_second_process(tmp_path, monkeypatch, "exec sleep 3600")
    desk = Desk()
    with pytest.raises(Failed, match="was ended"):
        desk.run(Asked(7), Told, patience_s=0.01)
    assert not desk.at_work


def test_leaving_ends_what_is_under_way_and_refuses_what_comes_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_second_process(tmp_path, monkeypatch, "exec sleep 3600")
    desk, heard = Desk(), []

    def ask() -> None:
        try:
            desk.run(Asked(7), Told)
        except Failed as error:
            heard.append(error)

    asking = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
    for thread in asking:
        thread.start()
    while not desk.at_work:
        pass
    desk.leave()
    for thread in asking:
        thread.join(PATIENCE_S)
    assert len(heard) == 2
    with pytest.raises(Failed, match="left"):
        desk.run(Asked(7), Told)


def test_every_errand_has_a_tag_of_its_own_and_somebody_who_does_it() -> None:
    tags = [errand.__struct_config__.tag for errand in ERRANDS]
    assert len(set(tags)) == len(tags)
    assert ERRANDS[Course].__name__ == "make_snapshot"
    with pytest.raises(ValueError, match="steal"):
        do(b'{"type":"steal"}')
