"""`holdfast log`: verify, dump and stats, on logs that are good and logs that are not."""

import json
import random
from pathlib import Path

import msgspec
import pytest

from holdfast.core.record import Record, decode_record, encode_record
from holdfast.testing.world import World
from holdfast.wal import FileLog

SEGMENT = "00000000000000000001.seg"
HEADER_BYTES = 4096


def written_end(segment: Path) -> int:
    return len(segment.read_bytes().rstrip(b"\0"))


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x01
    path.write_bytes(content)


def test_a_good_log_tells_its_end_its_chain_and_its_state(run, folder: Path, story: World) -> None:
    done = run("log", "verify", folder, "-o", "json")
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)
    log = FileLog.open(folder)
    try:
        head, last = log.head.hex(), log.last
    finally:
        log.close()
    assert told["ok"] is True
    assert told["last_position"] == last == len(story.log)
    assert told["chain_head"] == head
    assert told["state_hash"] == story.fingerprint()
    assert (told["flaws"], told["violations"]) == ([], [])


def test_a_verdict_for_eyes_has_the_same_three(run, folder: Path, story: World) -> None:
    text = run("log", "verify", folder).out
    assert f"last position    {len(story.log)}\n" in text
    assert f"state hash       {story.fingerprint()}\n" in text
    assert "chain head       " in text
    assert text.endswith("verdict          good\n")


def test_verifying_changes_no_byte(run, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    run("log", "verify", folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("flips", [3, pytest.param(200, marks=pytest.mark.slow)])
def test_any_flipped_bit_of_what_was_written_is_found_and_named(
    run, folder: Path, dice: random.Random, flips: int
) -> None:
    segment = folder / "wal" / SEGMENT
    good, end = segment.read_bytes(), written_end(segment)
    for offset in [*dice.sample(range(HEADER_BYTES, end), flips), end - 1, 40]:
        flip(segment, offset)
        done = run("log", "verify", folder)
        assert done.code == 1, f"byte {offset} was changed and nobody noticed"
        assert str(segment) in done.err
        assert f"{segment}, byte " in done.err
        assert "`holdfast " in done.err
        assert "Traceback" not in done.err
        segment.write_bytes(good)


def test_the_good_part_before_the_damage_can_be_looked_at(run, folder: Path) -> None:
    segment = folder / "wal" / SEGMENT
    flip(segment, written_end(segment) // 2 + HEADER_BYTES // 2)
    verdict = json.loads(run("log", "verify", folder, "-o", "json").out)
    assert verdict["ok"] is False
    assert verdict["flaws"][0]["offset"] > 0
    last = verdict["last_position"]
    assert 1 < last < 20
    # The very command that the message names.
    done = run("log", "verify", folder)
    assert f"holdfast job list --data {folder} --at {last}" in done.err
    assert run("job", "list", "--data", folder, "--at", last).code == 0
    assert run("transactions", "--data", folder, "--at", last, "-o", "quiet").code == 0
    # Without a position, or beyond the damage, nothing is guessed.
    for command in (
        ("job", "list"),
        ("job", "list", "--at", last + 1),
        ("transactions", "--at", last + 1),
        ("transactions", "--at", "1ms"),
    ):
        refused = run(*command, "--data", folder)
        assert (refused.code, refused.out) == (1, "")
        assert f"holdfast log verify {folder}" in refused.err


def test_a_log_without_a_beginning_is_told_of_the_snapshot_that_may_stand_for_it(
    run, folder: Path
) -> None:
    (segment,) = (folder / "wal").glob("*.seg")
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    segment.write_bytes(content)
    done = run("log", "verify", folder)
    assert done.code == 1
    assert f"{segment}, byte 0: " in done.err
    assert f"`holdfast log salvage {folder} --dry-run`" in done.err


def test_a_log_that_is_gone_is_damage_and_not_absence(run, folder: Path) -> None:
    (folder / "wal" / SEGMENT).unlink()
    done = run("log", "verify", folder)
    assert (done.code, done.out) == (1, "")
    assert "is gone" in done.err


def test_history_that_cannot_be_told_is_refused(run, write, story: World) -> None:
    # Every frame is whole and chained, yet a commit comes twice.
    story.log.append(story.log[7])
    last = decode_record(story.log[-2]).at
    record = decode_record(story.log[7])
    late = Record(last, record.command, "forger", "", "", record.events)
    story.log[-1] = encode_record(late)
    folder = write(story)
    done = run("log", "verify", folder, "-o", "json")
    assert done.code == 1
    assert "after position 20: " in done.err
    assert "TasksCompleted" in done.err
    verdict = json.loads(done.out)
    assert verdict["last_position"] == 20
    assert verdict["violations"][0].startswith("C1 1/0")
    assert verdict["state_hash"] == story.fingerprint()


def test_of_a_record_that_is_half_impossible_nothing_counts(run, write, story: World) -> None:
    good = story.fingerprint()
    submitting, completing = (decode_record(story.log[place]) for place in (1, 7))
    submitted = msgspec.structs.replace(submitting.events[0], job_id="9")
    at = decode_record(story.log[-1]).at
    both = Record(at, "SubmitJob", "forger", "", "", (submitted, *completing.events))
    story.log.append(encode_record(both))
    verdict = json.loads(run("log", "verify", write(story), "-o", "json").out)
    assert (verdict["ok"], verdict["last_position"]) == (False, 20)
    assert verdict["state_hash"] == good


def test_a_dump_has_one_event_a_line_in_the_order_of_the_log(
    run, folder: Path, story: World
) -> None:
    lines = [json.loads(line) for line in run("log", "dump", folder).out.splitlines()]
    told = [(line["position"], line["type"]) for line in lines]
    assert told == [
        (position, type(event).__name__)
        for position, record in story.records()
        for event in record.events
    ]
    assert list(lines[0])[:5] == ["schema", "position", "time", "epoch", "type"]
    assert lines[0]["time"] == "2023-11-14T22:13:20.000Z"
    assert {line["epoch"] for line in lines} == {1}
    assert lines[1]["spec"]["name"] == "squares"


def test_a_dump_can_be_narrowed(run, folder: Path) -> None:
    lines = run("log", "dump", folder, "--from", 3, "--to", 8, "--type", "TasksCompleted").out
    (line,) = [json.loads(line) for line in lines.splitlines()]
    assert (line["position"], line["job_id"]) == (8, "1")
    whole = json.loads(run("log", "dump", folder, "--from", 20, "-o", "json").out)
    assert (whole["schema"], [event["position"] for event in whole["events"]]) == (1, [20])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--type", "TasksDone", "--type", "TaskDnoe"), "TaskDnoe is no event; there are Attempts"),
        (("--from", 8, "--to", 3), "3 comes before 8"),
    ],
)
def test_a_dump_of_what_cannot_be_is_wrong_usage(
    run, folder: Path, options: tuple[object, ...], words: str
) -> None:
    done = run("log", "dump", folder, *options)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_a_dump_from_beyond_the_end_is_empty_and_says_so(run, folder: Path, story: World) -> None:
    done = run("log", "dump", folder, "--from", 99)
    assert (done.code, done.out) == (0, "")
    assert f"the log ends at position {len(story.log)}" in done.err


def test_a_dump_of_a_damaged_log_tells_the_good_part_and_then_fails(run, folder: Path) -> None:
    segment = folder / "wal" / SEGMENT
    flip(segment, written_end(segment) - 40)
    # What was asked for lies before the damage, and nothing of it is missing.
    assert run("log", "dump", folder, "--to", 3).code == 0
    assert run("log", "dump", folder, "--to", 99).code == 1
    done = run("log", "dump", folder)
    assert done.code == 1
    assert json.loads(done.out.splitlines()[0])["position"] == 1
    assert f"holdfast log verify {folder}" in done.err


def test_stats_count_what_is_there(run, folder: Path, story: World) -> None:
    told = json.loads(run("log", "stats", folder, "-o", "json").out)
    records = [record for _, record in story.records()]
    assert told["schema"] == 1
    assert (told["frames"], told["records"]) == (len(records), len(records))
    assert told["bytes"] == sum(map(len, story.log))
    assert told["bytes_per_record"] == round(told["bytes"] / len(records), 1)
    assert (told["segments"], told["snapshots"], told["epochs"]) == (1, 0, 1)
    assert sum(told["records_by_command"].values()) == len(records)
    assert told["records_by_command"]["GrantLeases"] == 6
    assert sum(told["events_by_type"].values()) == sum(len(record.events) for record in records)
    assert told["first_time"] == "2023-11-14T22:13:20.000Z"
    assert told["span_ms"] == 2_780


def test_stats_for_eyes_list_commands_and_events(run, folder: Path) -> None:
    text = run("log", "stats", folder).out
    assert "records by command\n         6  GrantLeases\n" in text
    assert "events by type\n" in text


@pytest.mark.parametrize("verb", ["verify", "dump", "stats", "snapshot"])
def test_a_folder_without_a_log_is_not_found_and_not_made(run, tmp_path: Path, verb: str) -> None:
    done = run("log", verb, tmp_path / "nowhere")
    assert (done.code, done.out) == (4, "")
    assert not (tmp_path / "nowhere").exists()


def test_the_folder_may_be_named_as_for_other_commands(
    run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("log", "stats", "--data", folder, "-o", "quiet").code == 0
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(folder))
    # A form that a dump has not is no reason to refuse it.
    monkeypatch.setenv("HOLDFAST_OUTPUT", "name")
    assert len(run("log", "stats").out.strip()) == 32
    assert json.loads(run("log", "dump", "--to", 1).out)["position"] == 1
