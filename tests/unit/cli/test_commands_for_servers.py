"""What needs no server to be right: words, codes, times, scripts."""

from datetime import UTC, datetime

import click
import pytest

from holdfast.cli.deciding import exact
from holdfast.cli.errors import Trouble, report
from holdfast.cli.instants import instant
from holdfast.cli.pairs import pairs_of
from holdfast.cli.running import exit_code_of
from holdfast.cli.waiting import Deadline, OutOfTime, outcome_of
from holdfast.cli.watched import watched
from holdfast.wire.bodies import Problem
from holdfast.wire.http import Rejected, Unreachable


def rejected(code: str) -> Rejected:
    return Rejected(Problem(type="x", title="t", status=400, detail="the detail", code=code))


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("not_found", 4), ("gone", 4), ("conflict", 5), ("invalid_transition", 5),
        ("lease_lost", 5), ("job_sealed", 5), ("key_reused", 5), ("invalid", 2), ("malformed", 2),
        ("too_large", 2), ("unauthenticated", 6), ("forbidden", 6), ("rate_limited", 75),
        ("not_ready", 75), ("queue_full", 75), ("internal", 1), ("method_not_allowed", 1),
        ("unsupported_media_type", 1), ("unknown", 1),
    ],
)  # fmt: skip
def test_what_a_server_says_no_to_has_its_code(
    code: str, exit_code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(rejected(code)) == exit_code
    assert capsys.readouterr().err.startswith("holdfast: the detail")


def test_every_code_that_a_server_knows_is_known_here() -> None:
    from holdfast.api.problems import CODES as THEIRS
    from holdfast.cli.errors import CODES, CONFLICT

    conflicts = {"conflict", "invalid_transition", "lease_lost", "job_sealed", "key_reused"}
    conflicts |= {"offset_gap", "not_stored", "precondition_failed", "repeated"}
    assert set(THEIRS) - conflicts <= set(CODES)
    assert CONFLICT not in CODES.values()


def test_a_server_that_does_not_answer_is_code_75(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(Unreachable("http://x", "refused")) == 75
    assert "HOLDFAST_SERVER" in capsys.readouterr().err


def job(state: str, reason: str | None = None) -> dict:
    return {"state": state, "reason": reason}


@pytest.mark.parametrize(
    ("jobs", "code"),
    [
        ([], 0),
        ([job("SUCCEEDED")], 0),
        ([job("SUCCEEDED"), job("FAILED", "quarantined")], 1),
        ([job("UNSCHEDULABLE")], 1),
        ([job("KILLED", "cancelled")], 3),
        ([job("KILLED")], 3),
        ([job("KILLED", "deadline")], 1),
        ([job("KILLED", "cancelled"), job("SUCCEEDED"), job("FAILED")], 1),
    ],
)
def test_a_failure_weighs_more_than_a_cancelled_job(jobs: list[dict], code: int) -> None:
    assert outcome_of(jobs) == code


@pytest.mark.parametrize(
    ("state", "told", "code"),
    [
        ("SUCCEEDED", 0, 0), ("FAILED", 7, 7), ("FAILED", None, 1), ("KILLED", None, 3),
        ("FAILED", -15, 143), ("FAILED", 4_000, 255), ("FAILED", 0, 1),
    ],
)  # fmt: skip
def test_run_ends_as_a_shell_would_have_ended(state: str, told: int | None, code: int) -> None:
    assert exit_code_of(job(state), {"exit_code": told}) == code


def test_a_deadline_that_has_passed_is_out_of_time() -> None:
    assert Deadline(None).left(30.0) == 30.0
    assert Deadline("1h").left(30.0) == 30.0
    with pytest.raises(OutOfTime):
        Deadline("0s").left(30.0)
    with pytest.raises(click.BadParameter):
        Deadline("soon")


def test_what_is_stopped_for_good_is_named_by_its_whole_id() -> None:
    exact("anchor", {"id": "anchor"})
    exact("last", {"id": "7"})
    with pytest.raises(Trouble, match="there is anchor: write it whole, or add --prefix") as no:
        exact("anch", {"id": "anchor"})
    assert no.value.code == 4


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ""),
        ("2026-03-01T12:00:00Z", "2026-03-01T12:00:00.000Z"),
        ("2026-03-01T12:00:00+02:00", "2026-03-01T10:00:00.000Z"),
        ("90s", "2026-03-01T12:01:30.000Z"),
        ("1h30m", "2026-03-01T13:30:00.000Z"),
    ],
)
def test_a_time_ahead_is_written_as_people_do(text: str, told: str) -> None:
    assert instant(text, "--deadline", NOW) == told


def test_a_time_without_a_zone_is_meant_here() -> None:
    local = datetime.fromisoformat("2026-03-01T12:00:00").astimezone(UTC)
    assert instant("2026-03-01T12:00:00", "--deadline", NOW) == f"{local:%Y-%m-%dT%H:%M:%S}.000Z"


@pytest.mark.parametrize("text", ["soon", "2026-13-01", "99999999999d", "-5m"])
def test_what_is_no_time_is_refused_with_what_would_be(text: str) -> None:
    with pytest.raises(click.BadParameter, match="2h from now"):
        instant(text, "--deadline", NOW)


def test_pairs_are_split_at_the_first_sign() -> None:
    assert pairs_of(["a=b", "c=d=e", "f="], "--label") == {"a": "b", "c": "d=e", "f": ""}
    for odd in ("a", "=b", ""):
        with pytest.raises(click.BadParameter):
            pairs_of([odd], "--label")


def test_a_watch_in_a_pipe_shows_a_table_again_only_when_it_changed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.cli.watched.PAUSE_S", 0.0)
    rounds = [[{"id": "1", "n": 1}], [{"id": "1", "n": 1}], [{"id": "2", "n": 1}, {"id": "1"}]]

    def shown(form: str) -> str:
        left = iter(rounds)
        drawn = lambda views: "".join(f"{view['id']}\n" for view in views)  # noqa: E731
        watched(form, lambda: next(left), drawn, rounds=3)
        return capsys.readouterr().out

    assert shown("table") == "1\n\n2\n1\n"
    assert shown("name") == "1\n2\n"
    assert len(shown("jsonl").splitlines()) == 3
    assert shown("quiet") == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_the_script_that_completes(run, shell: str) -> None:
    done = run("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert "_HOLDFAST_COMPLETE" in done.out


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("holdfast jo", {"job"}),
        ("holdfast job ", {"list", "show", "explain", "wait", "cancel", "retry", "logs"}),
        ("holdfast task re", {"reschedule", "retry"}),
        ("holdfast job list --st", {"--state"}),
        ("holdfast ge", set()),
    ],
)
def test_commands_are_completed(
    run, words: str, found: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_HOLDFAST_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    done = run()
    assert {line.partition(",")[2] for line in done.out.split()} == found
