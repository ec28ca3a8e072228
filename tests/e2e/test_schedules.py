"""Schedules with real clocks and real processes: fired while a program or a server runs, through
kill -9, and by what people type."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli.main import main
from holdfast.coordinator.inspect import look_into
from holdfast.core import events as e
from holdfast.errors import Refused
from holdfast.testing import chores
from holdfast.testing.fleet import wait_until
from holdfast.testing.loopback import ServerProcess, WorkerThread

PATIENCE_S = 60
SECOND_MS = 1_000


def fired_in(data: Path) -> list[e.ScheduleFired]:
    """Every run that the clock began, by the log alone; each has its job in the same record."""
    folder = look_into(data)
    found = []
    for told in folder.records(folder.oldest, folder.last):
        submitted = {
            event.job_id for event in told.record.events if isinstance(event, e.JobSubmitted)
        }
        for event in told.record.events:
            if isinstance(event, e.ScheduleFired):
                assert event.job_id in submitted
                found.append(event)
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "served") as started:
        yield started


@pytest.mark.parametrize(
    "kills", [1, pytest.param(6, marks=pytest.mark.slow)], ids=["once", "often"]
)
def test_a_server_that_is_killed_neither_loses_a_run_nor_doubles_it(
    server: ServerProcess, kills: int
) -> None:
    with (
        WorkerThread(server),
        holdfast.connect(server.url, token_file=server.token_file) as hf,
    ):
        schedule = hf.schedule(
            "beat", chores.echo, holdfast.scheduled_at, every="1s", missed="all", overlap="allow"
        )

        def has_run(count: int) -> Callable[[], bool]:
            return lambda: schedule.show()["runs"] >= count

        wait_until(has_run(1), PATIENCE_S)
        for number in range(kills):
            server.kill()
            server.start()
            wait_until(has_run(2 + number), PATIENCE_S)
        schedule.pause()
        runs = schedule.show()["runs"]
        results = [hf.job(str(number + 1)).results() for number in range(runs)]
        told = [next(iter(result)) for result in results]
    server.stop()
    fired = fired_in(server.data)
    walls = [event.at_wall for event in fired]
    assert walls == list(range(walls[0], walls[0] + runs * SECOND_MS, SECOND_MS))
    stamps = [int(datetime.fromisoformat(stamp).timestamp() * 1_000) for stamp in told]
    assert stamps == walls
    assert len(walls) == runs > kills


def test_an_open_folder_fires_while_its_program_runs_and_makes_up_when_it_comes_back(
    tmp_path: Path,
) -> None:
    data = tmp_path / "state"

    def opened() -> holdfast.Holdfast:
        return holdfast.open(data, workers=1, grace=0)

    def declared(hf: holdfast.Holdfast) -> holdfast.Schedule:
        """What a program says at every start."""
        return hf.schedule("beat", chores.echo, holdfast.scheduled_at, every=1, missed="all",
                           overlap="allow")  # fmt: skip

    with opened() as hf:
        schedule = declared(hf)
        wait_until(lambda: schedule.show()["runs"] >= 1, PATIENCE_S)
    with opened() as hf:
        schedule = declared(hf)
        before = schedule.show()["runs"]
        wait_until(lambda: schedule.show()["runs"] > before, PATIENCE_S)
        schedule.delete()
        assert hf.schedules() == []
    walls = [event.at_wall for event in fired_in(data)]
    assert walls == list(range(walls[0], walls[-1] + 1, SECOND_MS))


@pytest.fixture(params=["open", "connect"])
def hf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    if request.param == "open":
        with holdfast.open(tmp_path / "state", workers=1, grace=0) as opened:
            yield opened
        return
    with (
        ServerProcess(tmp_path / "served") as server,
        WorkerThread(server),
        holdfast.connect(server.url, token_file=server.token_file) as connected,
    ):
        yield connected


def test_a_schedule_means_the_same_embedded_and_served(hf: holdfast.Holdfast) -> None:
    def nightly(**changes: str) -> holdfast.Schedule:
        rest = {"cron": "30 2 * * *", "zone": "Europe/Berlin", **changes}
        return hf.schedule("nightly", chores.echo, holdfast.scheduled_at, **rest)

    schedule = nightly()
    assert nightly().show()["revision"] == schedule.show()["revision"]
    assert [each.name for each in hf.schedules()] == ["nightly"]
    first, second = schedule.next(2)
    assert timedelta(hours=23) <= second - first <= timedelta(hours=25)
    with pytest.raises(Refused) as no:
        nightly(cron="0 3 * * *")
    assert no.value.code == "conflict"
    changed = hf.schedule(
        "nightly", chores.echo, "x", cron="0 3 * * *", overlap="replace", replace=True
    )
    assert (changed.show()["cron"], changed.show()["overlap"]) == ("0 3 * * *", "replace")
    changed.pause("holidays")
    assert (changed.show()["state"], changed.show()["reason"]) == ("PAUSED", "holidays")
    assert list(changed.run().results()) == ["x"]
    changed.resume()
    assert changed.show()["state"] == "ACTIVE"
    past = datetime(2026, 3, 1, tzinfo=UTC)
    jobs = changed.backfill(past, past + timedelta(days=3))
    assert [list(job.results()) for job in jobs] == [["x"]] * 3
    assert changed.backfill(past, past + timedelta(days=3)) == []
    changed.delete()
    with pytest.raises(Refused) as gone:
        changed.show()
    assert gone.value.code == "not_found"


@pytest.mark.parametrize(
    ("timing", "words"),
    [
        ({"cron": "0 0 30 2 *"}, "never comes"),
        ({"cron": "0 0 * *"}, "no cron expression"),
        ({"cron": "0 0 * * *", "zone": "Mars/Olympus"}, "no time zone"),
    ],
    ids=["never", "four fields", "zone"],
)
def test_a_schedule_that_makes_no_sense_is_refused_where_it_is_asked(
    hf: holdfast.Holdfast, timing: dict[str, str], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        hf.schedule("wrong", chores.echo, "x", **timing)
    assert hf.schedules() == []


@pytest.mark.parametrize(
    "timing",
    [{}, {"every": 0}, {"every": "10ms"}, {"cron": "0 0 * * *", "every": 5}, {"every": "soon"},
     {"cron": "0 0 * * *", "missed": "some"}, {"every": 5, "overlap": "queue"}],
    ids=str,
)  # fmt: skip
def test_a_mistake_in_a_call_shows_before_anything_is_asked(
    tmp_path: Path, timing: dict[str, object]
) -> None:
    with holdfast.open(tmp_path / "state", workers=1, grace=0) as hf:
        with pytest.raises(ValueError, match=r"every|cron|missed|overlap"):
            hf.schedule("wrong", chores.echo, "x", **timing)
        assert hf.schedules() == []


# --- what people type ---------------------------------------------------------------------------


def test_a_command_is_scheduled_looked_at_run_and_removed(call, served) -> None:
    made = call(
        "schedule", "create", "report", "--cron", "30 2 * * *", "--zone", "America/New_York",
        "--overlap", "allow", "--retries", "2", "--", "make", "report",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert "30 2 * * * America/New_York" in made.out
    shown = json.loads(call("schedule", "show", "report", "-o", "json").out)
    assert (shown["schema"], shown["overlap"]) == (1, "allow")
    assert shown["job"]["spec"]["retries"] == 2
    listed = call("schedule", "list")
    assert "report" in listed.out
    assert "ACTIVE" in listed.out
    coming = call("schedule", "next", "report", "-n", "3", "-o", "jsonl")
    lines = [json.loads(line) for line in coming.out.splitlines()]
    assert [line["at"] for line in lines] == shown["coming"][:3]
    assert "02:30:00 -0" in lines[0]["local"] or "03:00:00 -0" in lines[0]["local"]
    ran = call("schedule", "run", "report", "--reason", "now", "-o", "name")
    job_id = ran.out.strip()
    labelled = call("job", "list", "-l", "schedule=report", "-o", "name")
    assert labelled.out.split() == [job_id]
    back = call(
        "schedule", "backfill", "report", "--from", "2026-03-01T00:00:00Z",
        "--until", "2026-03-04T00:00:00Z",
    )  # fmt: skip
    assert len(back.out.split()) == 3
    again = call(
        "schedule", "backfill", "report", "--from", "2026-03-01T00:00:00Z",
        "--until", "2026-03-04T00:00:00Z",
    )  # fmt: skip
    assert again.out == ""
    assert "3 of 3 instants have a run already" in again.err
    assert "is paused" in call("schedule", "pause", "report", "--reason", "holidays").err
    assert "PAUSED" in call("get", "schedules").out
    assert "comes next at" in call("schedule", "resume", "report").err
    assert "is removed" in call("schedule", "delete", "report").err
    assert call("schedule", "show", "report").code == 4


def test_a_folder_tells_its_schedules_now_and_then(call, served) -> None:
    call("schedule", "create", "kept", "--every", "6h", "--", "true")
    folder = ("--data", served.data)
    view = json.loads(call("schedule", "show", "kept", *folder, "-o", "json").out)
    assert view["every_ms"] == 6 * 3_600_000
    assert "kept" in call("schedule", "list", *folder).out
    assert len(call("schedule", "next", "kept", *folder, "-o", "name").out.split()) == 5
    call("schedule", "delete", "kept")
    assert call("schedule", "show", "kept", *folder).code == 4
    then = call("schedule", "show", "kept", *folder, "--at", view["revision"], "-o", "json")
    assert json.loads(then.out)["name"] == "kept"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["create", "x", "--", "true"], 2, "either --cron EXPRESSION or --every"),
        (["create", "x", "--cron", "* * * * *", "--every", "5m", "--", "true"], 2, "either"),
        (["create", "x", "--cron", "0 0 30 2 *", "--", "true"], 2, "never comes"),
        (["create", "x", "--cron", "nonsense", "--", "true"], 2, "no cron expression"),
        (["create", "x", "--cron", "@daily", "--zone", "Mars/X", "--", "true"], 2, "no time zone"),
        (["create", "x", "--every", "0s", "--", "true"], 2, "the shortest is 1 s"),
        (["create", "x", "--every", "often", "--", "true"], 2, "not a duration"),
        (["create", "x", "--every", "5m", "--missed", "some", "--", "true"], 2, "--missed"),
        (["create", "x", "--every", "5m"], 2, "COMMAND"),
        (["show", "nobody"], 4, "`holdfast schedule list` lists"),
        (["next", "nobody"], 4, "`holdfast schedule list` lists"),
        (["run", "nobody"], 4, "no schedule nobody"),
        (["pause", "nobody"], 4, "no schedule nobody"),
        (["delete", "nobody"], 4, "no schedule nobody"),
        (["backfill", "nobody", "--from", "2026-01-01"], 4, "no schedule nobody"),
        (["backfill", "nobody"], 2, "--from"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_told_in_one_line_and_nothing_is_recorded(
    call, arguments: list[str], code: int, words: str
) -> None:
    before = json.loads(call("schedule", "list", "-o", "json").out)["schedules"]
    told = call("schedule", *arguments)
    assert told.code == code, told.err
    assert words in told.err
    assert "Traceback" not in told.err
    assert json.loads(call("schedule", "list", "-o", "json").out)["schedules"] == before


def test_a_name_in_use_is_a_conflict_unless_it_is_replaced(call) -> None:
    call("schedule", "create", "taken", "--every", "6h", "--", "true")
    same = call("schedule", "create", "taken", "--every", "6h", "--", "true")
    assert same.code == 0
    other = call("schedule", "create", "taken", "--every", "7h", "--", "true")
    assert other.code == 5
    assert "replace it (--replace, replace=True) or delete it" in other.err
    replaced = call("schedule", "create", "taken", "--every", "7h", "--replace", "--", "true")
    assert replaced.code == 0
    assert "every 7h" in replaced.out
    call("schedule", "delete", "taken")


@pytest.mark.slow
def test_a_command_learns_the_instant_that_its_run_is_for(
    begin_server: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    server = begin_server("--workers", "1")
    named = ("--server", server.url, "--token-file", str(server.token_file))

    def typed(*arguments: str) -> str:
        capfd.readouterr()
        assert main([*arguments[:2], *named, *arguments[2:]]) == 0
        return capfd.readouterr().out

    typed("schedule", "create", "tell", "--cron", "0 3 * * *", "--", "sh", "-c",
          "echo for $HOLDFAST_SCHEDULED_AT")  # fmt: skip
    back = ("--from", "2026-03-01T00:00:00Z", "--until", "2026-03-02T00:00:00Z")
    job_id = typed("schedule", "backfill", "tell", *back).strip()
    typed("job", "wait", job_id)
    # What was printed travels beside the reports, and may come after the end.
    wait_until(lambda: typed("job", "logs", job_id) == "for 2026-03-01T03:00:00.000Z\n", PATIENCE_S)
    ran = typed("schedule", "run", "tell", "--wait").split()[0]
    wait_until(lambda: typed("job", "logs", ran).startswith("for 20"), PATIENCE_S)
