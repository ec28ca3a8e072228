"""Workers that a server starts: started again, known to be dead, ended with the server."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from holdfast.api import crew as crew_module
from holdfast.api.crew import DELIVERY_NAME, NOTE, Crew
from holdfast.coordinator.promise import Promise
from holdfast.coordinator.serving import Served
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.taking import take_folder
from holdfast.core import commands as c
from holdfast.core.ids import Index, JobId, WorkerId
from holdfast.core.job import state_of
from holdfast.core.spec import JobSpec
from holdfast.core.task import TaskState
from holdfast.wire.exchange import Capacity, Exchange, Reply

TERM_MS = 15_000
PATIENCE_S = 60
ONE = JobSpec(name="one", kind="function", target="m:f")

IDLE = (
    "import pathlib, signal, sys, time\n"
    "name = sys.argv[sys.argv.index('--name') + 1]\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
    "pathlib.Path(FOLDER, name).write_text('here')\n"
    "time.sleep(600)\n"
)


def a_crew(served: Served, folder: Path, count: int, script: str = IDLE) -> Crew:
    script = script.replace("FOLDER", repr(str(folder)))
    return Crew(
        served,
        count,
        url="http://127.0.0.1:1",
        token_file=folder / "token",
        program=(sys.executable, "-c", script),
        delivery=(sys.executable, "-c", script),
    )


@pytest.fixture
def inside(tmp_path: Path) -> Callable[..., None]:
    """Tell a story of a served folder; told again, it is the same folder after a restart."""

    def tell(story: Callable[[Served], Awaitable[None]]) -> None:
        async def whole() -> None:
            served = Served(take_folder(tmp_path, term_ms=TERM_MS), Settings(), term_ms=TERM_MS)
            served.engine.start()
            try:
                await story(served)
            finally:
                await served.close()

        asyncio.run(whole())

    return tell


async def lease_one(served: Served) -> None:
    """A job of one task, leased to a worker of the name that the crew will use."""
    await served.ask(
        lambda k: k.execute(c.SubmitJob(spec=ONE, items=(b"",), key="one"), actor="test")
    )
    message = Exchange(
        WorkerId("local-1"), 1, 1, 0, Capacity(1, 1_000, 0, 0), (), (), (), (), (), 0, False
    )
    answer: Promise[Reply] = Promise()
    served.exchange(message, 10, answer.keep)
    assert (await answer).runs


async def state(served: Served) -> TaskState:
    return await served.ask(lambda k: state_of(k.state.jobs[JobId("1")], Index(0)))


async def there(path: Path) -> None:
    """Until a worker has said that it is here."""
    async with asyncio.timeout(PATIENCE_S):
        while not path.exists():
            await asyncio.sleep(0.01)


def test_workers_are_started_and_end_with_the_server(inside, tmp_path):
    async def story(served):
        crew = a_crew(served, tmp_path, 2)
        crew.start()
        await asyncio.gather(there(tmp_path / "local-1"), there(tmp_path / "local-2"))
        processes = [psutil.Process(p.pid) for p in crew._processes.values()]
        assert "--server" in processes[0].cmdline()
        await crew.stop(30)
        assert not any(process.is_running() for process in processes)
        assert (tmp_path / NOTE).read_bytes() == b"[]"

    inside(story)


def test_a_worker_that_dies_is_lost_at_once_and_started_again(inside, tmp_path, monkeypatch):
    monkeypatch.setattr(crew_module, "FIRST_PAUSE_S", 0.01)

    async def story(served):
        crew = a_crew(served, tmp_path, 1)
        crew.start()
        await there(tmp_path / "local-1")
        await lease_one(served)
        assert await state(served) is TaskState.LEASED
        (tmp_path / "local-1").unlink()
        crew.kill()
        await there(tmp_path / "local-1")
        assert await state(served) is TaskState.WAITING
        await crew.stop(30)

    inside(story)


def test_a_worker_that_does_not_end_is_ended(inside, tmp_path):
    stubborn = IDLE.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN")

    async def story(served):
        crew = a_crew(served, tmp_path, 1, stubborn)
        crew.start()
        await there(tmp_path / "local-1")
        await crew.stop(0)
        assert not crew._processes

    inside(story)


@pytest.mark.slow
def test_what_a_killed_server_left_is_ended_and_lost_before_others_start(inside, tmp_path):
    async def before(served):
        await lease_one(served)

    async def after(served):
        orphan = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        began = psutil.Process(orphan.pid).create_time()
        note = f'[{{"name":"local-1","pid":{orphan.pid},"began":{began!r}}}]'
        (tmp_path / NOTE).write_text(note)
        crew = a_crew(served, tmp_path, 1)
        crew.start()
        assert not psutil.pid_exists(orphan.pid)
        orphan.wait()
        assert await state(served) is TaskState.WAITING
        await crew.stop(30)

    inside(before)
    inside(after)


def test_a_process_that_only_has_the_same_number_is_left_alone(inside, tmp_path):
    async def story(served):
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "import time; time.sleep(600)"
        )
        note = f'[{{"name":"local-1","pid":{other.pid},"began":1.5}}]'
        (tmp_path / NOTE).write_text(note)
        crew = a_crew(served, tmp_path, 0)
        crew.start()
        assert other.returncode is None
        other.kill()
        await other.wait()

    inside(story)


async def gone(process: psutil.Process) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while process.is_running():
            await asyncio.sleep(0.01)


def test_the_delivery_process_is_there_while_it_is_wanted(inside, tmp_path, monkeypatch):
    monkeypatch.setattr(crew_module, "FIRST_PAUSE_S", 0.01)
    here = tmp_path / "delivery"

    async def next_one(crew):
        await there(here)
        here.unlink()
        return psutil.Process(crew._processes[DELIVERY_NAME].pid)

    async def story(served):
        crew = a_crew(served, tmp_path, 0)
        crew.deliver(is_wanted=True)
        assert not crew._processes
        crew.start()
        first = await next_one(crew)
        assert "--cpus" not in first.cmdline()
        crew.kill()
        second = await next_one(crew)
        assert second.pid != first.pid
        crew.deliver(is_wanted=False)
        await gone(second)
        crew.deliver(is_wanted=False)
        crew.deliver(is_wanted=True)
        third = await next_one(crew)
        await crew.stop(30)
        assert not third.is_running()

    inside(story)
