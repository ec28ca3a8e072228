"""`holdfast job list` and `holdfast job show`."""

import json
from pathlib import Path

import pytest

from holdfast.core.job import JobState
from holdfast.core.task import TaskState
from holdfast.testing.world import World


def test_jobs_are_listed_newest_first_with_how_far_they_are(run, folder: Path) -> None:
    # Looked at a moment before the end, ages end there and not at the clock of this machine.
    done = run("job", "list", "--data", folder, "--at", 19)
    assert done.code == 0
    assert done.out == (
        "JOB  NAME     STATE    DONE  RUN  FAIL  WAIT  AGE  WHY\n"
        "1    squares  RUNNING   1/4    1     1     1   2s  workers_unknown\n"
    )
    latest = run("job", "list", "--data", folder)
    assert [line.split()[0] for line in latest.out.splitlines()] == ["JOB", "2", "1"]
    assert latest.err == ""


def test_a_list_for_programs_names_its_schema(run, folder: Path) -> None:
    listed = json.loads(run("job", "list", "--data", folder, "-o", "json").out)
    assert listed["schema"] == 1
    assert [job["id"] for job in listed["jobs"]] == ["2", "1"]


def test_a_list_in_lines_has_one_object_a_line(run, folder: Path) -> None:
    lines = run("job", "list", "--data", folder, "-o", "jsonl").out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["2", "1"]
    assert all(json.loads(line)["schema"] == 1 for line in lines)


def test_names_alone_and_nothing_at_all_can_be_asked_for(run, folder: Path) -> None:
    assert run("job", "list", "--data", folder, "-o", "name").out == "2\n1\n"
    assert run("job", "list", "--data", folder, "-o", "quiet") == (0, "", "")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--state", "running"), "1\n"),
        (("--state", "PENDING"), "2\n"),
        (("--state", "pending,running"), "2\n1\n"),
        (("--state", "pending", "--state", "running"), "2\n1\n"),
        (("--state", "failed"), ""),
        (("--name", "squares"), "1\n"),
        (("--name", "*es"), "2\n1\n"),
        (("--name", "square"), ""),
        (("--limit", "1"), "2\n"),
    ],
)
def test_a_list_can_be_narrowed(run, folder: Path, options: tuple[str, ...], found: str) -> None:
    assert run("job", "list", "--data", folder, "-o", "name", *options).out == found


def test_a_state_that_is_none_is_refused_with_those_there_are(run, folder: Path) -> None:
    done = run("job", "list", "--data", folder, "--state", "happy")
    assert done.code == 2
    assert all(state.value in done.err for state in JobState)


def test_a_job_for_programs_has_the_promised_names(run, folder: Path) -> None:
    job = json.loads(run("job", "show", "1", "--data", folder, "-o", "json").out)
    assert job["schema"] == 1
    assert job["id"] == "1"
    assert job["name"] == "squares"
    assert job["state"] == "RUNNING"
    assert job["reason"] is None
    assert job["created_at"] == "2023-11-14T22:13:20.000Z"
    assert job["updated_at"] == "2023-11-14T22:13:22.780Z"
    assert job["tasks"] == 4
    assert set(job["counts"]) == {state.name for state in TaskState}
    assert {name: count for name, count in job["counts"].items() if count} == {
        "WAITING": 1,
        "RUNNING": 1,
        "SUCCEEDED": 1,
        "QUARANTINED": 1,
    }
    assert (job["generation"], job["sealed"], job["interrupted"]) == (1, True, False)
    assert job["spec"]["retries"] == 2


def test_a_job_is_shown_in_words_with_what_to_type_next(run, folder: Path) -> None:
    shown = run("job", "show", "1", "--data", folder).out
    assert "state     RUNNING\n" in shown
    assert "tasks     4: 1 waiting, 1 running, 1 succeeded, 1 quarantined\n" in shown
    assert f"holdfast task list 1 --data {folder} --state quarantined" in shown


def test_last_is_the_newest_job(run, folder: Path) -> None:
    assert run("job", "show", "last", "--data", folder, "-o", "name").out == "2\n"


def test_the_past_is_shown_as_it_was(run, folder: Path, story: World) -> None:
    for position in (1, 2, 9, 19, 20):
        then = story.replayed(position)
        shown = run("job", "list", "--data", folder, "-o", "json", "--at", position)
        assert [job["id"] for job in json.loads(shown.out)["jobs"]] == [*reversed(then.jobs)]


@pytest.mark.parametrize(
    ("time", "succeeded"),
    [("22:13:20Z", 0), ("22:13:20.949Z", 0), ("22:13:20.950Z", 1), ("23:00:00Z", 1)],
)
def test_a_time_is_judged_by_the_wall_clock_of_the_frames(
    run, folder: Path, time: str, succeeded: int
) -> None:
    shown = run("job", "show", "1", "--data", folder, "-o", "json", "--at", f"2023-11-14T{time}")
    assert json.loads(shown.out)["counts"]["SUCCEEDED"] == succeeded


def test_before_the_beginning_and_beyond_the_end_are_refused(run, folder: Path) -> None:
    before = run("job", "list", "--data", folder, "--at", "2023-11-14T22:13:19Z")
    assert (before.code, before.out) == (1, "")
    assert "--at 1" in before.err
    beyond = run("job", "list", "--data", folder, "--at", 9_999)
    assert (beyond.code, beyond.out) == (1, "")
    assert "ends at position 20" in beyond.err


def test_a_folder_without_a_log_says_where_to_look(run, tmp_path: Path) -> None:
    done = run("job", "list", "--data", tmp_path / "nowhere")
    assert (done.code, done.out) == (4, "")
    assert "--data" in done.err
    assert "holdfast demo" in done.err


def test_an_empty_log_says_how_to_fill_it_and_programs_get_an_empty_list(run, write) -> None:
    empty = write(World())
    told = run("job", "list", "--data", empty)
    assert (told.code, told.out) == (0, "")
    assert "holdfast demo" in told.err
    listed = run("job", "list", "--data", empty, "-o", "json")
    assert json.loads(listed.out) == {"schema": 1, "jobs": []}


def test_the_folder_may_come_from_the_environment(
    run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(folder))
    monkeypatch.setenv("HOLDFAST_OUTPUT", "name")
    assert run("job", "list").out == "2\n1\n"


def test_the_form_may_come_from_a_settings_file(run, folder: Path, home: Path) -> None:
    settings = home / "config" / "holdfast" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[client]\noutput = "name"\n')
    assert run("job", "list", "--data", folder).out == "2\n1\n"
    assert run("job", "list", "--data", folder, "-o", "quiet").out == ""
    settings.write_text('[client]\noutput = "xml"\n')
    assert run("job", "list", "--data", folder).code == 2


def test_without_any_folder_the_server_is_asked(run, nobody_there: str) -> None:
    done = run("job", "list")
    assert (done.code, done.out) == (75, "")
    assert nobody_there in done.err
    assert "holdfast serve" in done.err


def test_the_past_is_looked_up_in_a_folder_and_not_asked_of_a_server(run) -> None:
    done = run("job", "list", "--at", "3")
    assert (done.code, done.out) == (2, "")
    assert "--data" in done.err


def test_a_folder_and_a_server_are_not_looked_at_together(run, folder: Path) -> None:
    assert run("job", "list", "--data", folder, "--server", "localhost:1").code == 2


def test_a_name_cannot_paint_the_terminal(run, write, spec) -> None:
    world = World()
    world.submit("", spec=type(spec)(name="\x1b[2Jgone", kind="function", target="t"))
    folder = write(world)
    assert "\x1b" not in run("job", "list", "--data", folder).out
    assert "\x1b" not in run("job", "show", "last", "--data", folder).out
