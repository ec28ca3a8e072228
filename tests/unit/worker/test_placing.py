"""A staged file gets its name once, however often somebody is told to give it."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.owed import FILE, DebtName
from holdfast.wire.delivery import Bounced, Delivery, Origin, Parcel, Staged
from holdfast.worker.leftovers import RECEIPT, Journal
from holdfast.worker.placing import Misplaced, forget_receipts, place, place_files
from holdfast.worker.staging import Outputs, Staging, decode_staged

STEPS = ("receipt", "renamed", "synced")
STEPS_OF_NEW = ("receipt", "linked", "renamed", "synced")


class Stop(Exception):
    pass


def staged_file(home: Path, text: str = "new", mode: str = "w", lease: int = 1) -> Staged:
    origin = Origin("log", JobId("7"), Index(0), LeaseId(lease))
    files = Staging(origin, Outputs(), Journal(home / "journal"), str(home))
    with files.file("out", mode) as file:
        file.write(text)
    return decode_staged(files.entries()[0].body)


def names(home: Path) -> list[str]:
    return sorted(name for name in os.listdir(home) if name != "journal")


def stop_at(step: str) -> Callable[[str], None]:
    def reached(here: str) -> None:
        if here == step:
            raise Stop

    return reached


@pytest.mark.parametrize("step", STEPS)
def test_a_death_at_any_step_is_made_good_by_the_next_try(tmp_path: Path, step: str) -> None:
    staged, target = staged_file(tmp_path), str(tmp_path / "out")
    with pytest.raises(Stop):
        place(staged, target, is_own=True, reached=stop_at(step))
    place(staged, target, is_own=True)
    assert Path(target).read_text() == "new"
    assert names(tmp_path) == sorted([os.path.basename(staged.temporary) + RECEIPT, "out"])


@pytest.mark.parametrize("step", STEPS_OF_NEW)
def test_a_file_that_must_be_new_survives_a_death_at_any_step(tmp_path: Path, step: str) -> None:
    staged, target = staged_file(tmp_path, mode="x"), str(tmp_path / "out")
    with pytest.raises(Stop):
        place(staged, target, is_own=True, reached=stop_at(step))
    place(staged, target, is_own=True)
    assert Path(target).read_text() == "new"


def test_a_repeat_does_not_undo_what_others_did_since(tmp_path: Path) -> None:
    staged, target = staged_file(tmp_path), tmp_path / "out"
    place(staged, str(target), is_own=True)
    target.write_text("changed by its reader")
    place(staged, str(target), is_own=True)
    assert target.read_text() == "changed by its reader"
    target.unlink()
    place(staged, str(target), is_own=True)
    assert not target.exists()


def test_receipts_go_when_the_coordinator_knows(tmp_path: Path) -> None:
    parcel = parcel_of((0, "out", staged_file(tmp_path)), home=tmp_path)
    [(delivery, outcome)] = place_files(parcel, is_own=True)
    assert outcome is None
    forget_receipts([delivery.body])
    forget_receipts([delivery.body])
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("is_own", [True, False])
def test_a_staged_file_that_is_not_here_is_gone_or_elsewhere(tmp_path: Path, is_own: bool) -> None:
    staged = staged_file(tmp_path)
    os.unlink(staged.temporary)
    with pytest.raises(Misplaced, match="is gone") as told:
        place(staged, str(tmp_path / "out"), is_own=is_own)
    assert (told.value.is_final, told.value.is_elsewhere) == (is_own, not is_own)


def test_a_staged_file_of_another_size_is_not_what_was_committed(tmp_path: Path) -> None:
    staged = staged_file(tmp_path)
    with open(staged.temporary, "a") as file:
        file.write("more")
    with pytest.raises(Misplaced, match="7 bytes, not the 3"):
        place(staged, str(tmp_path / "out"), is_own=True)
    assert not (tmp_path / "out").exists()


def test_a_file_that_must_be_new_gives_way_to_one_that_came_before(tmp_path: Path) -> None:
    staged = staged_file(tmp_path, mode="x")
    (tmp_path / "out").write_text("earlier")
    for _ in range(2):
        with pytest.raises(Misplaced, match="there already") as told:
            place(staged, str(tmp_path / "out"), is_own=True)
        assert told.value.is_final
    assert (tmp_path / "out").read_text() == "earlier"


def test_a_path_goes_in_order_and_stops_at_the_first_that_fails(tmp_path: Path) -> None:
    first, second = staged_file(tmp_path, "1", lease=1), staged_file(tmp_path, "2", lease=2)
    os.unlink(first.temporary)
    other = staged_file(tmp_path, "3", lease=3)
    parcel = parcel_of((0, "out", first), (1, "out", second), (2, "else", other), home=tmp_path)
    outcomes = [outcome for _, outcome in place_files(parcel, is_own=True)]
    assert isinstance(outcomes[0], Bounced)
    assert outcomes[0].is_final
    assert isinstance(outcomes[1], Bounced)
    assert outcomes[1].is_untried
    assert outcomes[2] is None
    assert (tmp_path / "else").read_text() == "3"
    assert not (tmp_path / "out").exists()


def test_a_folder_that_went_away_is_tried_again_later(tmp_path: Path) -> None:
    staged = staged_file(tmp_path)
    parcel = parcel_of((0, "missing/out", staged), home=tmp_path)
    [(_, outcome)] = place_files(parcel, is_own=True)
    assert isinstance(outcome, Bounced)
    assert "cannot be put in place" in outcome.error
    assert not outcome.is_final


def parcel_of(*files: tuple[int, str, Staged], home: Path) -> Parcel:
    deliveries = tuple(
        Delivery(
            DebtName(JobId("7"), Index(number), 0), str(home / name),
            msgspec.msgpack.encode(staged), f"log:7/{number}:1:0", 0,
        )
        for number, name, staged in files
    )  # fmt: skip
    return Parcel(FILE, "host:here", b"", deliveries)
