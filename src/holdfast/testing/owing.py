"""Tasks that commit what a test has them owe, and couriers played by hand."""

from collections.abc import Iterable
from typing import Any, Final

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import Index, JobId
from holdfast.core.owed import BLOCK, EFFECT, FILE, DebtName, Entry
from holdfast.core.spec import JobSpec
from holdfast.core.task import TaskState
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.delivery import SERVER, WORKERS, Parcel
from holdfast.wire.exchange import Done, Hello, Reply
from holdfast.wire.sinks import AnySink, FileSink, FunctionSink

SPEC: Final = JobSpec(name="work", kind="function", target="work")
TERM_MS: Final = 10_000
SINKS: Final[dict[str, AnySink]] = {
    "ledger": FileSink(path="/ledger", tries=3, first_wait="1s", longest_wait="3s"),
    "call": FunctionSink(target="m:f"),
}
COURIER: Final = Hello("here", 1, "1", delivers=(SERVER,))
"""Delivers as the server's own process does."""
HELPER: Final = Hello("there", 2, "1", delivers=(WORKERS,), places=("host:one",))
"""Delivers as a worker, and has the file system `host:one`."""
RUNNER: Final = Hello("runs", 3, "1")
REPORT: Final = Entry(FILE, "host:one", "/out/report", b"staged")
IN_BLOCK: Final = Entry(BLOCK, "", "", b"")


def a_service(term_ms: int = TERM_MS) -> Service:
    return Service(ManualClock(), SeededDice(1), term_ms=term_ms, sinks=SINKS)


def effect(key: str = "", sink: str = "ledger", body: bytes = b"body") -> Entry:
    return Entry(EFFECT, sink, key, body)


class Runner:
    """A worker that delivers nothing: its tasks commit what a test has them owe."""

    def __init__(self, service: Service, name: str = "runner") -> None:
        self.post = Post(service, name=name)
        self.service = service

    def commit(self, *owed: tuple[Entry, ...]) -> JobId:
        """A job whose tasks commit these, each in a record of its own."""
        job_id = self.submit(len(owed))
        for index, entries in enumerate(owed):
            self.commit_task(job_id, index, entries)
        self.post.say(slots=0)
        self.service.settle()
        return job_id

    def submit(self, count: int = 1) -> JobId:
        decision = self.service.do(c.SubmitJob(spec=SPEC, count=count))
        if not isinstance(decision, Accepted):
            raise BrokenInvariant(decision.message)
        return JobId(str(decision.answer))

    def commit_task(self, job_id: JobId, index: int, owed: tuple[Entry, ...]) -> Reply:
        self.post.say(slots=1, hello=RUNNER)
        self.service.settle()
        (item,) = [item for run in self.post.replies[-1].runs for item in run.items]
        if item.index != index:
            raise BrokenInvariant(f"task {item.index} came before {index}")
        done = Done(job_id, item.index, item.lease_id, 1, b"result", owed)
        return self.post.hear(slots=0, done=(done,))

    def enter_block(self) -> DebtName:
        """A task commits early and goes on."""
        job_id = self.submit()
        self.commit_task(job_id, 0, (IN_BLOCK,))
        return debt(job_id)


def names(parcels: Iterable[Parcel]) -> list[str]:
    return [f"{d.name.index}.{d.name.number}" for p in parcels for d in p.deliveries]


def say(post: Post, **said: Any) -> list[Parcel]:
    """Say it, let everything become durable, and see which parcels have come since."""
    before = len(post.replies)
    post.say(slots=said.pop("slots", 0), **said)
    post.service.settle()
    return [parcel for reply in post.replies[before:] for parcel in reply.parcels]


def came(post: Post) -> list[str]:
    """Everything that has ever been dealt to this one."""
    return names(parcel for reply in post.replies for parcel in reply.parcels)


def debt(job_id: JobId, index: int = 0, number: int = 0) -> DebtName:
    return DebtName(job_id, Index(index), number)


def state_of(service: Service, job_id: JobId, index: int = 0) -> TaskState:
    return TaskState(service.coordinator.state.jobs[job_id].states[index])


def pass_time(service: Service, ms: int) -> None:
    """Time goes by while the coordinator takes its turns: it was not away."""
    clock = service.clock
    while ms > 0 and isinstance(clock, ManualClock):
        step = min(ms, TERM_MS // 8)
        clock.advance(step)
        service.settle()
        ms -= step


def records(service: Service, kind: type[e.Event]) -> int:
    """How many durable records have such an event."""
    return sum(any(isinstance(x, kind) for x in r.events) for r in service.records())
