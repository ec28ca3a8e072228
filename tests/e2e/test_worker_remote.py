"""`holdfast worker start` against a real coordinator: work is done, and survives what happens."""

import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from holdfast.core import commands as c
from holdfast.core.ids import WorkerId
from holdfast.core.job import is_finished, state_of
from holdfast.core.spec import STOP
from holdfast.core.task import TaskState


def _load(name: str) -> ModuleType:
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


stages = _load("worker_stage")
Stage, Hand, until = stages.Stage, stages.Hand, stages.until
FOREVER, PATIENT, DEAF, LOOKS = stages.FOREVER, stages.PATIENT, stages.DEAF, stages.LOOKS

# No worker loses its leases because the machine is slow, but where a lease is to end by itself.
TERM_MS = 30_000
SHORT_TERM_MS = 5_000
leases_end = pytest.mark.parametrize("stage", [SHORT_TERM_MS], indirect=True, ids=["short leases"])


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path / "log", term_ms=getattr(request, "param", TERM_MS))
    stage.begin()
    yield stage
    stage.close()


@pytest.fixture
def hire(stage: Stage, tmp_path: Path) -> Iterator[Callable[..., Hand]]:
    hands: list[Hand] = []

    def hire(*options: str, name: str = "w", at: Stage | None = None, home: str = "home") -> Hand:
        hand = Hand(at or stage, tmp_path / home, *options, name=name)
        hands.append(hand)
        return hand

    yield hire
    for hand in hands:
        hand.clean_up()


def begun(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def is_over(pid: int) -> bool:
    """Whether it has ended, though a parent that is frozen may not have buried it yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_functions_and_commands_succeed_and_fail(stage: Stage, hire: Callable[..., Hand]) -> None:
    hire().says("connected to")
    doubled = stage.call("double", *range(50))
    bad = stage.call("fails", 7)
    commanded = stage.command("true", times=5)
    broken = stage.python("import sys; sys.exit('so bad')")
    pickled = stage.call("double", 1, kind="pickle")
    stage.finished(doubled, bad, commanded, broken, pickled)
    assert stage.results(doubled) == [2 * n for n in range(50)]
    assert stage.results(commanded) == [0] * 5
    (end,) = stage.ends(bad)
    assert (end.reason, end.error) == ("failed", "ValueError: bad 7")
    (end,) = stage.ends(broken)
    assert (end.reason, end.exit_code) == ("failed", 1)
    assert end.error.endswith("so bad")
    (end,) = stage.ends(pickled)
    assert "--pickle" in end.error


def test_what_takes_too_long_times_out_and_its_slot_comes_free(
    stage: Stage, hire: Callable[..., Hand], tmp_path: Path
) -> None:
    hire("--slots", "1")
    function = stage.call("forever", str(tmp_path / "f"), timeout_ms=200)
    command = stage.python(FOREVER, str(tmp_path / "c"), timeout_ms=200)
    stage.finished(function, command)
    assert [stage.ends(job)[0].reason for job in (function, command)] == ["timed_out"] * 2
    after = stage.call("double", 1)
    stage.finished(after)
    until(lambda: not any(map(psutil.pid_exists, begun(tmp_path / "f") + begun(tmp_path / "c"))))


def test_what_is_cancelled_while_it_runs_is_ended(
    stage: Stage, hire: Callable[..., Hand], tmp_path: Path
) -> None:
    hire()
    function = stage.call("forever", str(tmp_path / "f"))
    command = stage.python(FOREVER, str(tmp_path / "c"))
    until(lambda: bool(begun(tmp_path / "f") and begun(tmp_path / "c")))
    pids = begun(tmp_path / "f") + begun(tmp_path / "c")
    for job in (function, command):
        stage.cancel(job)
    until(lambda: not any(map(psutil.pid_exists, pids)))
    after = stage.command("true", times=4)
    stage.finished(after)


@pytest.mark.parametrize("how", ["cancelled", pytest.param("timed out", marks=pytest.mark.slow)])
def test_what_has_no_right_to_run_any_more_keeps_its_memory_until_it_has_ended(
    how: str, stage: Stage, hire: Callable[..., Hand], tmp_path: Path
) -> None:
    hire("--memory", "1Gi")
    large = 600 * 1024 * 1024
    # It has the first slot, and leaves it free for what comes later.
    small = stage.python(PATIENT, str(tmp_path / "s"))
    until(lambda: bool(begun(tmp_path / "s")))
    timeout_ms = 500 if how == "timed out" else 0
    while not begun(tmp_path / "d"):
        deaf = stage.python(DEAF, str(tmp_path / "d"), memory_bytes=large, timeout_ms=timeout_ms)
        # On a slow machine its time may be up before it has begun: the next one has more.
        until(lambda deaf=deaf: bool(begun(tmp_path / "d")) or is_finished(stage.job(deaf)))
        timeout_ms *= 2
    (tmp_path / "s.go").touch()
    stage.finished(small)
    if how == "cancelled":
        stage.cancel(deaf)
    stage.finished(deaf)
    looks = stage.python(
        LOOKS, str(tmp_path / "d"), str(tmp_path / "seen"), memory_bytes=large
    )
    # There is room for this one, so the worker was asked and gave its other slot.
    stage.finished(stage.call("double", 1))
    (tmp_path / "d.go").touch()
    stage.finished(looks)
    assert (tmp_path / "seen").read_text() == "alone"


@leases_end
@pytest.mark.slow
def test_what_a_killed_worker_ran_runs_elsewhere_and_nothing_of_it_is_left(
    stage: Stage, hire: Callable[..., Hand], tmp_path: Path
) -> None:
    first = hire(name="first").says("connected")
    function = stage.call("note", str(tmp_path / "f"))
    command = stage.python(PATIENT, str(tmp_path / "c"))
    until(lambda: bool(begun(tmp_path / "f") and begun(tmp_path / "c")))
    until(lambda: bool(begun(tmp_path / "f.started")))
    until(lambda: state_of(stage.job(command), 0) is TaskState.RUNNING)
    until(lambda: state_of(stage.job(function), 0) is TaskState.RUNNING)
    family = first.family()
    # What a function started is ours to end as well.
    assert begun(tmp_path / "f.started")[0] in [process.pid for process in family]
    first.process.kill()
    first.ends()
    _, alive = psutil.wait_procs(family, stages.PATIENCE_S)
    assert not alive
    hire(name="second")
    until(lambda: len(begun(tmp_path / "f")) == len(begun(tmp_path / "c")) == 2)
    for path in (tmp_path / "f", tmp_path / "c"):
        Path(f"{path}.go").touch()
    stage.finished(function, command)
    assert [end.reason for end in stage.ends(command)] == ["lease_expired"]
    assert len(stage.results(function)) == len(stage.results(command)) == 1


def test_a_worker_started_again_proves_that_its_former_self_is_dead(
    hire: Callable[..., Hand], tmp_path: Path
) -> None:
    patient = Stage(tmp_path / "patient", term_ms=600_000)
    patient.begin()
    try:
        first = hire(at=patient).says("connected")
        command = patient.python(PATIENT, str(tmp_path / "c"))
        until(lambda: bool(begun(tmp_path / "c")))
        until(lambda: state_of(patient.job(command), 0) is TaskState.RUNNING)
        first.process.kill()
        first.ends()
        second = hire(at=patient).says("connected")
        until(lambda: len(begun(tmp_path / "c")) == 2)
        (tmp_path / "c.go").touch()
        patient.finished(command)
        assert [end.reason for end in patient.ends(command)] == ["worker_lost"]
        second.signal(signal.SIGTERM)
        assert second.ends() == 0
    finally:
        patient.close()


@leases_end
@pytest.mark.slow
def test_a_worker_stopped_past_its_lease_is_refused_and_nothing_commits_twice(
    stage: Stage, hire: Callable[..., Hand], tmp_path: Path
) -> None:
    first = hire(name="first").says("connected")
    function = stage.call("note", str(tmp_path / "f"))
    command = stage.python(PATIENT, str(tmp_path / "c"))
    cautious = stage.python(FOREVER, str(tmp_path / "s"), on_disconnect=STOP)
    until(lambda: bool(begun(tmp_path / "f") and begun(tmp_path / "c")))
    first.signal(signal.SIGSTOP)
    (old,) = begun(tmp_path / "c")
    hire("--slots", "3", "--cpus", "3", name="second").says("connected")
    until(lambda: len(begun(tmp_path / "f")) == len(begun(tmp_path / "c")) == 2)
    assert psutil.pid_exists(old)
    first.signal(signal.SIGCONT)
    # Refused: what it still ran is ended.
    until(lambda: not psutil.pid_exists(old))
    for path in (tmp_path / "f", tmp_path / "c"):
        Path(f"{path}.go").touch()
    stage.finished(function, command)
    assert len(stage.results(function)) == len(stage.results(command)) == 1
    stage.cancel(cautious)


@leases_end
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["command", "function"])
def test_what_must_not_run_twice_is_ended_before_it_runs_elsewhere_though_the_worker_is_frozen(
    stage: Stage, hire: Callable[..., Hand], tmp_path: Path, kind: str
) -> None:
    first = hire(name="first").says("connected")
    path = str(tmp_path / "s")
    if kind == "command":
        job = stage.python(FOREVER, path, on_disconnect=STOP)
    else:
        job = stage.call("forever", path, on_disconnect=STOP)
    until(lambda: bool(begun(tmp_path / "s")))
    (old,) = begun(tmp_path / "s")
    first.signal(signal.SIGSTOP)
    hire(name="second").says("connected")
    until(lambda: len(begun(tmp_path / "s")) == 2)
    assert is_over(old)
    first.signal(signal.SIGCONT)
    stage.cancel(job)


def test_a_server_that_is_away_and_back_costs_nothing(
    stage: Stage, hire: Callable[..., Hand], tmp_path: Path
) -> None:
    hand = hire().says("connected")
    function = stage.call("note", str(tmp_path / "f"))
    command = stage.python(PATIENT, str(tmp_path / "c"))
    until(lambda: bool(begun(tmp_path / "f") and begun(tmp_path / "c")))
    stage.end()
    hand.says("What runs goes on")
    stage.begin()
    hand.says("the server is back")
    for path in (tmp_path / "f", tmp_path / "c"):
        Path(f"{path}.go").touch()
    stage.finished(function, command)
    assert stage.ends(function) == stage.ends(command) == []
    assert len(begun(tmp_path / "f")) == len(begun(tmp_path / "c")) == 1


def test_a_worker_asked_to_leave_finishes_what_runs_and_gives_back_the_rest(
    stage: Stage, hire: Callable[..., Hand], tmp_path: Path
) -> None:
    hand = hire("--slots", "1", "--cpus", "1").says("connected")
    command = stage.python(PATIENT, str(tmp_path / "c"))
    until(lambda: bool(begun(tmp_path / "c")))
    hand.signal(signal.SIGTERM)
    hand.says("leaving")
    (tmp_path / "c.go").touch()
    assert hand.ends() == 0
    assert len(stage.results(command)) == 1
    assert stage.holders() == {}


def test_a_worker_that_an_operator_drains_ends_what_runs_and_leaves(
    stage: Stage, hire: Callable[..., Hand], tmp_path: Path
) -> None:
    hand = hire("--slots", "1", "--cpus", "1", "--exit-when-drained").says("connected")
    command = stage.python(PATIENT, str(tmp_path / "c"))
    until(lambda: bool(begun(tmp_path / "c")))
    waits = stage.command("true")
    stage.do(c.CordonWorker(worker=WorkerId("w"), reason="drained"))
    stage.ask(lambda _: stage.served.drain_worker(WorkerId("w")))
    hand.says("drained by an operator")
    # A server that comes back meanwhile has not forgotten: the worker tells it.
    stage.end()
    stage.begin()
    (tmp_path / "c.go").touch()
    assert hand.ends() == 0
    assert len(stage.results(command)) == 1
    assert (stage.holders(), state_of(stage.job(waits), 0)) == ({}, TaskState.WAITING)


@pytest.mark.parametrize("options", [("--drain-timeout", "100ms"), ()])
def test_what_does_not_end_in_time_is_given_back_without_charge(
    stage: Stage, hire: Callable[..., Hand], tmp_path: Path, options: tuple[str, ...]
) -> None:
    hand = hire(*options).says("connected")
    function = stage.call("forever", str(tmp_path / "f"))
    command = stage.python(FOREVER, str(tmp_path / "c"))
    until(lambda: bool(begun(tmp_path / "f") and begun(tmp_path / "c")))
    pids = begun(tmp_path / "f") + begun(tmp_path / "c")
    hand.signal(signal.SIGINT)
    hand.says("leaving")
    if not options:
        hand.signal(signal.SIGINT)
    assert hand.ends() == (0 if options else 130)
    ends = [*stage.ends(function), *stage.ends(command)]
    assert [(end.reason, end.charged) for end in ends] == [("released", "")] * 2
    assert not any(map(psutil.pid_exists, pids))
    assert stage.holders() == {}


def test_one_that_was_asked_to_leave_is_gone_at_once_and_its_name_is_free_for_another_machine(
    stage: Stage, hire: Callable[..., Hand]
) -> None:
    hand = hire().says("connected")
    hand.signal(signal.SIGTERM)
    assert hand.ends() == 0
    served = stage.served
    assert served is not None
    (seat,) = stage.ask(lambda _: list(served.exchanges.workers.values()))
    assert seat.has_left
    # No lock of this machine proves anything about another one: only the goodbye does.
    second = hire(home="elsewhere").says("connected")
    stage.finished(stage.command("true"))
    assert "may not work" not in second.printed


@pytest.mark.slow
def test_two_workers_of_a_name_on_one_machine_cannot_be(hire: Callable[..., Hand]) -> None:
    hire().says("connected")
    second = hire()
    assert second.ends() == 75
    assert "already works for" in second.printed


@pytest.mark.slow
def test_a_name_that_is_taken_elsewhere_is_waited_for(
    stage: Stage, hire: Callable[..., Hand]
) -> None:
    first = hire().says("connected")
    second = hire(home="elsewhere").says("may not work")
    first.signal(signal.SIGTERM)
    assert first.ends() == 0
    second.says("connected")
    job = stage.command("true")
    stage.finished(job)


def test_mistakes_are_told_without_a_traceback(hire: Callable[..., Hand], tmp_path: Path) -> None:
    guarded = Stage(tmp_path / "guarded", token="right")
    guarded.begin()
    try:
        (tmp_path / "token").write_text("wrong\n")
        refused = hire("--token-file", str(tmp_path / "token"), at=guarded)
        assert refused.ends() == 6
        (tmp_path / "token").write_text("right\n")
        taken = hire("--token-file", str(tmp_path / "token"), name="v", at=guarded)
        taken.says("connected")
        guarded.end()
        nobody = hire("--connect-timeout", "0s", at=guarded)
        assert nobody.ends() == 75
    finally:
        guarded.close()
    wrong = hire("--server", "ftp://nowhere")
    assert wrong.ends() == 2
    for hand in (refused, nobody, wrong):
        assert hand.printed.startswith("holdfast: ")
        assert "Traceback" not in hand.printed


def test_a_command_sees_no_token_and_no_secret_it_was_not_given(
    stage: Stage, hire: Callable[..., Hand], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "the-token")
    monkeypatch.setenv("HOLDFAST_SECRET_KEY", "the-key")
    hire("--attr", "zone=a").says("connected")
    code = "import os, sys; sys.exit(str(sorted(os.environ.items())))"
    plain = stage.python(code)
    keyed = stage.python("import os, sys; sys.exit(len(os.environ['K']))", env={"K": "secret:KEY"})
    stage.finished(plain, keyed)
    (end,) = stage.ends(plain)
    assert "the-token" not in end.error
    assert "the-key" not in end.error
    assert [end.exit_code for end in stage.ends(keyed)] == [len("the-key")]
    assert os.environ["HOLDFAST_TOKEN"] == "the-token"
