"""Commands are real programs: they end, fail, hang, fork and are killed, and leave nothing."""

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.core.spec import STOP
from holdfast.wire.bodies import Command
from holdfast.wire.exchange import Done, Failed, Item, Released, Run
from holdfast.worker.commands import SUCCESS, CommandExecutor
from holdfast.worker.executor import Harvest
from holdfast.worker.surroundings import Surroundings

PATIENCE_S = 60
SECRET = "hunter2-hunter2"
FOREVER = "import signal; signal.pause()"


def monotonic_ms() -> int:
    # Far from the machine's own clock, so that mixing the two would show.
    return time.monotonic_ns() // 1_000_000 + 10**9


class Crew:
    """An executor of commands and an agent that collects what ended."""

    def __init__(self, scratch: Path, slots: int = 2, grace_ms: int = 60_000) -> None:
        self.scratch = scratch
        secrets = scratch / "secrets"
        secrets.mkdir(parents=True)
        (secrets / "FILED").write_text(f"{SECRET}\n")
        environment = {
            **os.environ, "HOLDFAST_SECRET_GIVEN": SECRET, "PRIVATE": "x", "SHOWN": "y",
        }  # fmt: skip
        surroundings = Surroundings(
            scratch / "worker",
            WorkerId("w"),
            environment=environment,
            pass_on=("SHOWN",),
            secrets=secrets,
        )
        self._bell = threading.Event()
        self.executor = CommandExecutor(
            slots, self._bell.set, monotonic_ms, surroundings, grace_ms=grace_ms
        )
        self.done: list[Done] = []
        self.failed: list[Failed] = []
        self.released: list[Released] = []
        self._leases = itertools.count(1)

    def give(
        self, *argv: str, slot: int = 0, env: dict[str, str] | None = None, cwd: str = "",
        memory: int = 0, on_disconnect: str = "", times: int = 1, stall_ms: int = 0,
    ) -> list[LeaseId]:  # fmt: skip
        payload = msgspec.msgpack.encode(Command(argv=list(argv), env=env or {}, cwd=cwd))
        leases = [LeaseId(next(self._leases)) for _ in range(times)]
        items = tuple(Item(Index(n), lease, 3, payload) for n, lease in enumerate(leases))
        self.executor.assign(
            Run(JobId("j"), slot, "command", argv[0] if argv else "", 0, 0, False, times, items,
                on_disconnect, memory, stall_ms=stall_ms)
        )  # fmt: skip
        return leases

    def python(self, code: str, **options: object) -> list[LeaseId]:
        return self.give(sys.executable, "-c", code, **options)

    def add(self, harvest: Harvest) -> None:
        self.done += harvest.done
        self.failed += harvest.failed
        self.released += harvest.released

    def until(self, is_so: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < give_up_at, "it did not come in time"
            self._bell.wait(0.02)
            self._bell.clear()
            self.add(self.executor.harvest())

    def until_ended(self, count: int) -> None:
        self.until(lambda: len(self.done) + len(self.failed) + len(self.released) >= count)

    def output(self, lease: int, stream: str = "stdout") -> str:
        (found,) = (self.scratch / "worker" / "outputs").glob(f"*-{lease}/{stream}")
        return found.read_text()

    def said(self, lease: int, word: str) -> None:
        """Until the command has printed this word."""
        self.until(lambda: word in self.output_so_far(lease))

    def output_so_far(self, lease: int) -> str:
        found = list((self.scratch / "worker" / "outputs").glob(f"*-{lease}/stdout"))
        return found[0].read_text() if found else ""

    def folders(self) -> list[str]:
        return os.listdir(self.scratch / "worker" / "attempts")


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path / "here")
    yield crew
    crew.add(crew.executor.close(0))
    assert not crew.folders()


def is_gone(pid: int) -> bool:
    """Gone for good: a zombie would still be here."""
    return not psutil.pid_exists(pid)


def test_a_command_that_ends_well_has_zero_as_its_result(crew: Crew) -> None:
    crew.give("echo", "hello", "world")
    crew.until_ended(1)
    assert [done.result for done in crew.done] == [SUCCESS]
    assert crew.output(1) == "hello world\n"
    assert crew.folders() == []


def test_no_shell_reads_the_arguments(crew: Crew) -> None:
    crew.give("echo", "$HOME; echo `id` *")
    crew.until_ended(1)
    assert crew.output(1) == "$HOME; echo `id` *\n"


def test_an_exit_code_is_the_commands_own_failure_with_its_last_words(crew: Crew) -> None:
    crew.python("import sys; print('first\\nlast', file=sys.stderr); sys.exit(3)")
    crew.until_ended(1)
    (failed,) = crew.failed
    assert (failed.reason, failed.exit_code) == ("failed", 3)
    assert "exited with code 3" in failed.error
    assert failed.error.endswith("first\nlast")


def test_a_crash_is_its_own_doing_and_a_kill_from_outside_is_not(crew: Crew) -> None:
    crew.python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    crew.python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", slot=1)
    crew.until_ended(2)
    fates = {failed.lease_id: (failed.reason, failed.exit_code) for failed in crew.failed}
    assert fates == {1: ("failed", -signal.SIGSEGV), 2: ("worker_lost", -signal.SIGKILL)}


def test_too_much_memory_is_told_as_such(crew: Crew) -> None:
    crew.python("bytearray(1 << 30)", memory=256 << 20)
    crew.until_ended(1)
    (failed,) = crew.failed
    assert (failed.reason, failed.exit_code) == ("failed", 1)
    assert "ran out of memory" in failed.error


def test_what_cannot_be_started_says_why(crew: Crew) -> None:
    crew.give("no-such-program-anywhere")
    crew.give("true", cwd="/no/such/folder")
    crew.give("true", env={"KEY": "secret:UNKNOWN"})
    crew.give()
    crew.give("a\0b")
    crew.until_ended(5)
    errors = [failed.error for failed in crew.failed]
    assert "No such file" in errors[0]
    assert "there is no folder" in errors[1]
    assert "'UNKNOWN'" in errors[2]
    assert "no program" in errors[3]
    assert "null" in errors[4]


def test_a_command_knows_what_it_works_for_and_little_else(crew: Crew) -> None:
    code = "import json, os; print(json.dumps([dict(os.environ), os.getcwd()]))"
    crew.python(code, env={"MORE": "z", "KEY": "secret:GIVEN"}, cwd="sub", times=2)
    crew.until_ended(2)
    env, cwd = msgspec.json.decode(crew.output(2))
    known = {name: value for name, value in env.items() if name.startswith("HOLDFAST_")}
    assert known == {
        "HOLDFAST_JOB_ID": "j",
        "HOLDFAST_TASK_ID": "j/1",
        "HOLDFAST_TASK_INDEX": "1",
        "HOLDFAST_TASK_COUNT": "2",
        "HOLDFAST_ATTEMPT": "3",
        "HOLDFAST_LEASE_ID": "2",
        "HOLDFAST_WORKER_ID": "w",
    }
    assert (env["MORE"], env["SHOWN"], env["KEY"]) == ("z", "y", SECRET)
    assert "PRIVATE" not in env
    assert cwd.endswith("/sub")
    assert not os.path.exists(cwd)


@pytest.mark.parametrize("name", ["GIVEN", "FILED"])
def test_a_secret_is_in_no_error(crew: Crew, name: str) -> None:
    code = "import os, sys; sys.exit('no ' + os.environ['KEY'])"
    crew.python(code, env={"KEY": f"secret:{name}"})
    crew.until_ended(1)
    (failed,) = crew.failed
    assert failed.error.endswith("no [secret]")


def test_a_long_output_keeps_its_head_and_its_tail(crew: Crew) -> None:
    crew.python("print('head'); print('x' * 30_000_000); print('tail')")
    crew.until_ended(1)
    output = crew.output(1)
    assert output.startswith("head\nxxx")
    assert output.endswith("xxx\ntail\n")
    (file,) = (crew.scratch / "worker" / "outputs").glob("*-1/stdout")
    assert file.stat().st_blocks * 512 < 8 * 1024 * 1024


def test_a_stop_ends_the_whole_group_and_reports_nothing(crew: Crew) -> None:
    code = (
        "import subprocess, sys; "
        f"child = subprocess.Popen([sys.executable, '-c', {FOREVER!r}]); "
        "print(child.pid, flush=True); child.wait()"
    )
    crew.python(code)
    crew.said(1, "\n")
    child = int(crew.output_so_far(1))
    crew.executor.stop(LeaseId(1))
    assert [attempt.lease_id for attempt in crew.executor.lingering()] == [1]
    crew.until(lambda: not crew.executor.lingering())
    crew.until(lambda: is_gone(child))
    assert [*crew.done, *crew.failed, *crew.released] == []


def test_who_ignores_a_polite_word_is_killed_after_the_grace(tmp_path: Path) -> None:
    crew = Crew(tmp_path / "here")
    code = (
        "import signal, os; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print(os.getpid(), flush=True); signal.pause(); signal.pause()"
    )
    crew.python(code)
    crew.said(1, "\n")
    pid = int(crew.output_so_far(1))
    crew.executor.stop(LeaseId(1), 50)
    crew.until(lambda: is_gone(pid))
    crew.executor.close(0)


def test_what_left_its_group_does_not_outlive_the_attempt(crew: Crew) -> None:
    code = (
        "import subprocess, sys; "
        f"child = subprocess.Popen([sys.executable, '-c', {FOREVER!r}], start_new_session=True); "
        "print(child.pid, flush=True)"
    )
    crew.python(code)
    crew.until_ended(1)
    assert crew.done
    stray = int(crew.output(1))
    crew.until(lambda: is_gone(stray))


def test_lanes_run_one_after_another_and_what_waits_can_be_taken_back(crew: Crew) -> None:
    crew.python(FOREVER, times=3)
    assert [running.lease_id for running in crew.executor.running()] == [1]
    crew.executor.recall(frozenset(map(LeaseId, (1, 3))))
    crew.until_ended(1)
    assert [(back.lease_id, back.started) for back in crew.released] == [(3, False)]
    crew.executor.stop(LeaseId(1))
    crew.until(lambda: [r.lease_id for r in crew.executor.running()] == [2])


def test_closing_gives_back_what_runs(crew: Crew) -> None:
    crew.python(FOREVER, times=2)
    crew.give("true", slot=1)
    crew.until_ended(1)
    crew.add(crew.executor.close(0))
    assert [(back.lease_id, back.started) for back in crew.released] == [(2, False), (1, True)]


def test_what_must_not_outlive_its_lease_ends_without_a_word_of_the_worker(crew: Crew) -> None:
    crew.executor.hold_until(monotonic_ms() + 300, monotonic_ms() + 400)
    crew.python(FOREVER, on_disconnect=STOP)
    crew.python(FOREVER, slot=1)
    crew.until_ended(1)
    assert [(back.lease_id, back.started) for back in crew.released] == [(1, True)]
    assert [running.lease_id for running in crew.executor.running()] == [2]


def test_a_warden_that_dies_takes_its_commands_along_and_another_comes(crew: Crew) -> None:
    crew.python(f"import os; print(os.getpid(), flush=True); {FOREVER}")
    crew.said(1, "\n")
    pid = int(crew.output_so_far(1))
    warden = psutil.Process(pid).parent()
    assert warden is not None
    assert "holdfast.worker.warden" in " ".join(warden.cmdline())
    warden.kill()
    crew.until_ended(1)
    assert [failed.reason for failed in crew.failed] == ["worker_lost"]
    crew.until(lambda: is_gone(pid))
    crew.give("true")
    crew.until(lambda: bool(crew.done))


def test_what_a_command_prints_keeps_a_stall_away(crew: Crew) -> None:
    code = "import signal; print('one', flush=True); signal.pause()"
    (lease,) = crew.python(code, stall_ms=10_000)
    (begun,) = crew.executor.running()
    assert (begun.lease_id, begun.stall_ms) == (lease, 10_000)
    crew.said(lease, "one")
    (printed,) = crew.executor.running()
    assert printed.told_ms > begun.since_ms
    (silent,) = crew.executor.running()
    assert silent.told_ms == printed.told_ms
    assert "no progress for 10 s" in silent.trouble_at(silent.told_ms + 10_000)
    assert silent.trouble_at(silent.told_ms + 9_999) == ""
