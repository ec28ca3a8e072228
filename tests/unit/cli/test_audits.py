"""`holdfast audit` of a folder: who did what, as a list and as a file, and whether it is whole."""

import json
from pathlib import Path

import pytest

from holdfast.coordinator.refusals import Refusal, RefusalNotes
from holdfast.wal import FileLog


def refuse(folder: Path) -> None:
    notes = RefusalNotes(folder)
    notes.note(
        Refusal(
            at=1_700_000_000_000, position=3, command="RescheduleTask", actor="user:ann",
            subject="1/0", source="RUNNING", target="WAITING", code="invalid_transition",
            message="task 1/0 is RUNNING; only a waiting one can move",
        )
    )  # fmt: skip
    notes.close()


def listed(run, folder: Path, *options: object) -> list[dict]:
    done = run("audit", "list", "--data", folder, "--limit", 0, "-o", "json", *options)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)["entries"]


def test_001_39_every_move_is_a_line_with_from_to_who_and_why(run, folder: Path) -> None:
    told = listed(run, folder, "--task", "1/0")
    moves = [(each["from"], each["to"]) for each in told if each["from"]]
    assert moves == [
        ("NEW", "WAITING"), ("WAITING", "LEASED"), ("LEASED", "RUNNING"), ("RUNNING", "WAITING"),
        ("WAITING", "LEASED"), ("LEASED", "RUNNING"), ("RUNNING", "SUCCEEDED"),
    ]  # fmt: skip
    failed = next(each for each in told if (each["from"], each["to"]) == ("RUNNING", "WAITING"))
    assert (failed["source"], failed["status"]) == ("state_machine", "validated")
    assert failed["action"] == "transition_RUNNING_to_WAITING"
    assert (failed["reason"], failed["metadata"]["attempt"]) == ("failed", 1)


def test_a_list_goes_by_operator_command_and_position(run, folder: Path) -> None:
    everything = listed(run, folder)
    assert listed(run, folder, "--actor", "nobody") == []
    chosen = listed(run, folder, "--command", "GrantLeases")
    assert {each["command"] for each in chosen} == {"GrantLeases"}
    late = listed(run, folder, "--since", 4, "--until", 6)
    assert {each["position"] for each in late} == {4, 5, 6}
    assert listed(run, folder, "--at", 3) == [e for e in everything if e["position"] <= 3]
    names = run("audit", "list", "--data", folder, "--since", 4, "--until", 6, "-o", "name")
    assert names.out.split() == [str(each["position"]) for each in late]
    assert run("audit", "list", "--data", folder, "--task", "x").code == 2
    empty = run("audit", "list", "--data", folder, "--actor", "nobody")
    assert "holdfast audit list" in empty.err


def test_what_was_refused_is_listed_and_marked_in_the_history(run, folder: Path) -> None:
    refuse(folder)
    (line,) = listed(run, folder, "--refused")
    assert (line["status"], line["from"], line["to"]) == ("refused", "RUNNING", "WAITING")
    assert (line["position"], line["operator"]) == (None, "user:ann")
    history = run("task", "history", "1/0", "--data", folder).out.splitlines()
    assert history[0].split() == [
        "POSITION", "TIME", "UTC", "MOVE", "ATTEMPT", "LEASE", "WORKER", "OPERATOR", "WHY",
    ]  # fmt: skip
    (marked,) = [row for row in history if "refused" in row]
    assert "RUNNING → WAITING" in marked
    told = json.loads(run("task", "history", "1/0", "--data", folder, "-o", "json").out)
    assert [each["status"] for each in told["transitions"]].count("refused") == 1


def exported(run, folder: Path, file: Path, *options: object) -> Path:
    done = run("audit", "export", file, "--data", folder, *options)
    assert done.code == 0, done.err
    return file


def test_a_file_is_verified_alone_and_against_the_log(run, folder: Path, tmp_path: Path) -> None:
    head = run("audit", "head", "--data", folder).out.strip()
    file = exported(run, folder, tmp_path / "trail.jsonl")
    for options in ((), ("--data", folder), ("--head", head), ("--data", folder, "--head", head)):
        done = run("audit", "verify", file, *options, "-o", "json")
        assert (done.code, done.err) == (0, "")
        assert json.loads(done.out)["ok"] is True


def test_an_export_that_fails_leaves_the_former_file(run, folder: Path, tmp_path: Path) -> None:
    file = exported(run, folder, tmp_path / "trail.jsonl")
    before = file.read_bytes()
    assert run("audit", "export", file, "--data", tmp_path / "no").code != 0
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.glob(".trail*")] == []
    assert run("audit", "export", "--data", folder).out.encode() == before


def test_an_edit_ends_with_1_and_names_the_line(run, folder: Path, tmp_path: Path) -> None:
    file = exported(run, folder, tmp_path / "trail.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:3], lines[3].replace(b'"w', b'"v'), *lines[4:]]))
    done = run("audit", "verify", file)
    assert done.code == 1
    assert f"{file}: line 4, position " in done.err
    file.write_bytes(b"".join(lines[:-1]))
    assert "cut short" in run("audit", "verify", file).err


def test_a_file_of_other_words_with_good_links_is_found_by_the_log(
    run, folder: Path, tmp_path: Path
) -> None:
    whole = exported(run, folder, tmp_path / "whole.jsonl")
    part = exported(run, folder, tmp_path / "part.jsonl", "--from", 3, "--to", 5)
    assert run("audit", "verify", part, "--data", folder).code == 0
    link = json.loads(whole.read_bytes().splitlines()[-1])["link"]
    assert run("audit", "verify", whole, "--link", link).code == 0
    other = run("audit", "verify", part, "--link", link)
    assert other.code == 1
    assert "not the file" in other.err


def test_a_cut_tail_is_told_by_the_head_that_was_kept(run, folder: Path, tmp_path: Path) -> None:
    log = FileLog.open(folder)
    head = f"{log.last + 40}:{'ab' * 16}"
    log.close()
    done = run("audit", "verify", "--data", folder, "--head", head)
    assert done.code == 1
    assert "its tail was cut, and 40 records are missing" in done.err
    position = run("audit", "head", "--data", folder).out.partition(":")[0]
    other = run("audit", "verify", "--data", folder, "--head", f"{position}:{'ab' * 16}")
    assert other.code == 1
    assert "what leads up to it was changed" in other.err


def test_a_damaged_log_is_named_by_file_and_byte(run, folder: Path) -> None:
    segment = next((folder / "wal").glob("0*.seg"))
    content = bytearray(segment.read_bytes())
    content[400] ^= 1
    segment.write_bytes(content)
    done = run("audit", "verify", "--data", folder)
    assert done.code == 1
    assert str(segment) in done.err


@pytest.mark.parametrize(
    "asked", [("--head", "7"), ("--head", "x:y"), ("--head", "7:zz"), ()]
)
def test_a_mistake_is_told_in_a_line(run, folder: Path, asked: tuple[str, ...]) -> None:
    where = ("--data", folder) if asked else ()
    done = run("audit", "verify", *where, *asked)
    assert done.code == 2
    assert "Traceback" not in done.err
