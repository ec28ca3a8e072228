"""Which job is meant: never another one than the user named."""

from pathlib import Path

import pytest

from holdfast.cli.errors import NOT_FOUND, USAGE, Trouble
from holdfast.cli.folders import FromFolder, find_job, recall
from holdfast.cli.selectors import find_jobs, find_one_task, find_tasks, parse_span
from holdfast.coordinator.inspect import Reading, open_folder
from holdfast.core.freeze import freeze
from holdfast.core.record import decode_record
from holdfast.testing.world import World
from holdfast.wal import FileLog, RealDisk, write_snapshot


@pytest.fixture
def reading(write) -> Reading:
    world = World()
    for name, count in (("", 1), ("anchor-a1", 3), ("anchor-b2", 12), ("bollard", 1)):
        world.submit(name, count)
    return open_folder(write(world))


@pytest.fixture
def source(reading: Reading) -> FromFolder:
    return FromFolder(reading.path)


@pytest.mark.parametrize(
    ("text", "job_id"),
    [
        ("1", "1"),
        ("anchor-a1", "anchor-a1"),
        ("anchor-b", "anchor-b2"),
        ("b", "bollard"),
        ("last", "bollard"),
    ],
)
def test_a_job_is_named_by_its_id_its_beginning_or_last(
    reading: Reading, text: str, job_id: str
) -> None:
    assert find_job(reading, text).job_id == job_id


def test_the_beginning_of_several_jobs_names_none_of_them(reading: Reading) -> None:
    with pytest.raises(Trouble, match="2 jobs: anchor-a1, anchor-b2") as trouble:
        find_job(reading, "anchor")
    assert trouble.value.code == USAGE


@pytest.mark.parametrize("text", ["", "nobody", "2"])
def test_a_job_that_is_not_there_names_the_command_that_lists_them(
    reading: Reading, text: str
) -> None:
    with pytest.raises(Trouble, match="holdfast job list --data") as trouble:
        find_job(reading, text)
    assert trouble.value.code == NOT_FOUND


def test_a_number_is_a_whole_name_and_never_the_beginning_of_another(write) -> None:
    world = World()
    for _ in range(12):
        world.submit("")
    reading = open_folder(write(world))
    del reading.state.jobs["1"]  # type: ignore[arg-type]
    with pytest.raises(Trouble, match="there is no job 1 "):
        find_job(reading, "1")


def test_last_of_an_empty_log_says_how_to_make_a_job(write) -> None:
    with pytest.raises(Trouble, match="holdfast demo") as trouble:
        find_job(open_folder(write(World())), "last")
    assert trouble.value.code == NOT_FOUND


@pytest.mark.parametrize(
    ("text", "job_id", "indices"),
    [
        ("anchor-b2", "anchor-b2", range(12)),
        ("anchor-b2/3", "anchor-b2", range(3, 4)),
        ("anchor-b/3-7", "anchor-b2", range(3, 8)),
        ("anchor-b/0-10:5", "anchor-b2", range(0, 11, 5)),
        ("last/0", "bollard", range(1)),
    ],
)
def test_tasks_are_named_by_their_job_and_a_range(
    source: FromFolder, text: str, job_id: str, indices: range
) -> None:
    job, found = find_tasks(source, text)
    assert (job["id"], found) == (job_id, indices)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("anchor-a1/3", NOT_FOUND),
        ("anchor-a1/2-3", NOT_FOUND),
        ("anchor-a1/x", USAGE),
        ("anchor-a1/", USAGE),
        ("anchor-a1/-1", USAGE),
        ("anchor-a1/2-1", USAGE),
        ("anchor-a1/0-2:0", USAGE),
        ("nobody/1", NOT_FOUND),
    ],
)
def test_tasks_that_are_not_there_are_not_guessed(source: FromFolder, text: str, code: int) -> None:
    with pytest.raises(Trouble) as trouble:
        find_tasks(source, text)
    assert trouble.value.code == code


def test_a_job_alone_names_its_only_task(source: FromFolder) -> None:
    assert find_one_task(source, "last")[1] == 0
    with pytest.raises(Trouble, match="12 tasks"):
        find_one_task(source, "anchor-b2")


def test_several_jobs_are_named_by_numbers_with_a_step_or_by_all(write) -> None:
    world = World()
    for name in ("", "", "", "anchor", "", ""):
        world.submit(name)
    source = FromFolder(write(world))

    def found(*texts: str) -> list[str]:
        return [view["id"] for view in find_jobs(source, texts)]

    assert found("1-3") == ["1", "2", "3"]
    assert found("1-99:2") == ["1", "3", "5"]
    assert found("5", "anch", "1-2", "2") == ["5", "anchor", "1", "2"]
    assert sorted(found("all")) == ["1", "2", "3", "4", "5", "anchor"]
    with pytest.raises(Trouble, match="no job 40-50") as trouble:
        found("40-50")
    assert trouble.value.code == NOT_FOUND
    assert [
        view["id"] for view in find_jobs(source, ["all"], all_means=frozenset({"FAILED"}))
    ] == []


def test_a_range_has_both_its_ends() -> None:
    assert parse_span("3") == range(3, 4)
    assert parse_span("3-7") == range(3, 8)
    assert list(parse_span("0-10:5")) == [0, 5, 10]


def test_a_forgotten_job_is_found_where_the_log_still_has_it(
    write, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World()
    world.submit("")
    (lease,) = world.grant("1", 0)
    world.start("1", 0, lease)
    world.commit("1", 0, lease)
    world.sleep(10)
    assert world.tick(keep_finished=0, keep_finished_ms=0)
    folder: Path = write(world)
    reading = open_folder(folder)
    assert "1" not in reading.state.jobs
    then = recall(reading, "1/0")
    assert find_job(then, "1").job_id == "1"
    assert f"left memory at position {world.state.position}" in capsys.readouterr().err


def test_a_forgotten_job_whose_history_was_dropped_is_said_to_be_so(tmp_path: Path) -> None:
    world = World()
    world.submit("", 1)
    (lease,) = world.grant("1", 0)
    world.start("1", 0, lease)
    world.commit("1", 0, lease)
    while len(world.log) < 200:
        world.submit("", 1)
    world.sleep(10)
    assert world.tick(keep_finished=0, keep_finished_ms=0)
    folder = tmp_path / "state"
    log = FileLog.open(folder, segment_bytes=16 * 1024)
    for first in range(0, 201, 25):
        frame = world.log[first : first + 25]
        at = decode_record(frame[-1]).at
        log.append(frame, at=at, wall=at)
        log.sync()
    claim = world.fingerprint().encode()
    write_snapshot(RealDisk(), folder, 201, log.head, log.log_id, [freeze(world.state)], claim)
    assert log.drop_segments(201) > 1
    log.close()
    with pytest.raises(Trouble, match=r"left memory at position 201, .* no longer kept") as refused:
        recall(open_folder(folder), "1")
    assert refused.value.code == 4
    assert f"holdfast job list --data {folder}" in str(refused.value)


def test_a_job_in_memory_is_looked_for_nowhere_else(reading: Reading) -> None:
    assert recall(reading, "anchor-a1") is reading
    assert recall(reading, "last") is reading
    assert recall(reading, "nobody") is reading
