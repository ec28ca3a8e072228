"""Workers played by hand that run services, before a real coordinator that keeps runtimes.

A replica does what its command says: `serve` gets ready, `silent` never does, `crash` ends at once.
Nothing waits and nothing runs; a test has time pass and lets them talk.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from holdfast.coordinator.reconciling.hook import Reconciling
from holdfast.core import commands_resources as r
from holdfast.core.command import Command
from holdfast.core.decision import Decision, Refused
from holdfast.core.ids import Instant, LeaseId
from holdfast.core.job import Job
from holdfast.runtimes.manifest import ClassRuntime, decode, encode
from holdfast.runtimes.resource import KIND, Resource
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import (
    Failed,
    Hello,
    Item,
    Lingering,
    PartitionNews,
    Reply,
    Run,
    Sample,
    ServiceNews,
    Started,
)
from holdfast.wire.service import ServicePlan, decode_plan
from holdfast.wire.servicing import READY, STARTING

TERM_MS: Final = 15_000
SLOTS: Final = 64
TALKS_MOST: Final = 40


def manifest(name: str = "greeter", *functions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A runtime as people write it."""
    wanted = functions or ({"key": "hello", "command": ["serve"], "replicas": 2},)
    return {
        "apiVersion": "oaas.io/v1alpha1",
        "kind": "ClassRuntime",
        "metadata": {"name": name},
        "spec": {"template": "dev", "functions": list(wanted), **spec},
    }


def function(key: str, command: str = "serve", **more: Any) -> dict[str, Any]:
    return {"key": key, "command": [command], **more}


def _nothing(_lease_id: LeaseId) -> PartitionNews | None:
    """Nothing is told."""
    return None


class Host:
    """One worker. `begun` counts how often each lease was begun: more than once is a fault."""

    def __init__(self, service: Service, name: str, slots: int = SLOTS) -> None:
        self.slots = slots
        self.post = Post(service, name=name)
        self.running: dict[LeaseId, tuple[Run, Item, ServicePlan]] = {}
        self.begun: Counter[LeaseId] = Counter()
        self.stopped: list[LeaseId] = []
        # Whether what is told to end takes its time.
        self.lingers = False
        self._lingering: dict[LeaseId, Lingering] = {}
        self.samples: dict[LeaseId, Sample] = {}
        # What each replica that is asked tells of its partitions; nothing for who is silent.
        self.grid: Callable[[LeaseId], PartitionNews | None] = _nothing
        self._heard = 0
        self._told: set[LeaseId] = set()
        self._ended: list[Failed] = []
        # A worker says who it is at once.
        self._is_asked = True
        # What was said and not answered yet: said again, since the answer may never come.
        self._unanswered: dict[int, tuple[tuple[Started, ...], tuple[Failed, ...]]] = {}

    def talk(self) -> None:
        """Say and hear, until there is nothing new to say."""
        for _ in range(TALKS_MOST):
            if not self._say():
                return
        raise AssertionError("they talk and talk")

    def end(self, lease_id: LeaseId, error: str = "exited 1", ran_ms: int = 10) -> None:
        """A replica ends by itself; it is reported with the next talk."""
        run, item, _ = self.running.pop(lease_id)
        self._told.discard(lease_id)
        self._ended.append(
            Failed(run.job_id, item.index, lease_id, ran_ms, "failed", error, "boom\nlast words", 1)
        )

    def _say(self) -> bool:
        fresh = [lease for lease in self.running if lease not in self._told]
        self._told.update(fresh)
        before = [said for _, said in sorted(self._unanswered.items())]
        started = tuple(self._started(lease) for lease in fresh)
        ended, self._ended = tuple(self._ended), []
        told = list(self.running) if self._is_asked else fresh
        samples = tuple(self.samples.get(lease) for lease in self.running)
        asked = [lease for lease in self.running if self.running[lease][2].partitions is not None]
        partitions = tuple(self.grid(lease) for lease in asked)
        answered = self.post.replies[-1].number if self.post.replies else 0
        self._unanswered[self.post.number + 1] = (started, ended)
        self.post.say(
            slots=self.slots,
            seen=answered,
            held=tuple(self.running),
            started=tuple(each for said in before for each in said[0]) + started,
            failed=tuple(each for said in before for each in said[1]) + ended,
            services=tuple(self._news(lease) for lease in told),
            samples=tuple(each for each in samples if each is not None),
            partitions=tuple(each for each in partitions if each is not None),
            lingering=tuple(self._lingering.values()) if self.lingers else (),
            hello=Hello(self.post.name, 1, "0.1.0") if self._is_asked else None,
        )
        self._is_asked = False
        self.post.service.settle()
        replies = self.post.replies[self._heard :]
        self._heard = len(self.post.replies)
        for reply in replies:
            self._hear(reply)
        crashed = [lease for lease in fresh if lease in self.running and self._does(lease, "crash")]
        for lease in crashed:
            self.end(lease)
        return bool(fresh or ended or crashed or len(self.running) != len(self._told))

    def _hear(self, reply: Reply) -> None:
        self._is_asked = self._is_asked or reply.who
        self._unanswered = {n: said for n, said in self._unanswered.items() if n > reply.number}
        for run in reply.runs:
            for item in run.items:
                self.begun[item.lease_id] += 1
                self.running[item.lease_id] = (run, item, decode_plan(item.payload))
        for verdict in reply.stops:
            stopped = self.running.pop(verdict.lease_id, None)
            if stopped is not None:
                self.stopped.append(verdict.lease_id)
                self._told.discard(verdict.lease_id)
                self._lingering[verdict.lease_id] = Lingering(
                    verdict.lease_id, 0, 0, 0, 0, job_id=stopped[0].job_id
                )

    def _started(self, lease_id: LeaseId) -> Started:
        run, item, _ = self.running[lease_id]
        return Started(run.job_id, item.index, lease_id, 0)

    def _news(self, lease_id: LeaseId) -> ServiceNews:
        has_port = bool(self.running[lease_id][2].ports)
        address = f"{self.post.name}:{9_000 + lease_id}" if has_port else ""
        if self._does(lease_id, "serve"):
            return ServiceNews(lease_id, READY, address)
        return ServiceNews(lease_id, STARTING, address, "the port takes no connections")

    def _does(self, lease_id: LeaseId, what: str) -> bool:
        return self.running[lease_id][2].argv[0] == what


class Brittle(Service):
    """Falls over when it writes its `crash_at`-th frame, which then is on the disk or is not, and
    is opened again. `frames` counts them."""

    frames = 0
    crash_at = 0
    frame_survives = False

    def settle(self) -> None:
        while self.turn():
            self.frames += 1
            if self.frames == self.crash_at:
                self.crash(frame_survives=self.frame_survives)
            else:
                self.synced()


class Hosted:
    """A coordinator that keeps runtimes, and its workers."""

    def __init__(
        self,
        workers: int = 2,
        *,
        slots: int = SLOTS,
        crash_at: int = 0,
        frame_survives: bool = False,
    ) -> None:
        self.clock = ManualClock()
        self.service = Brittle(self.clock, SeededDice(1), term_ms=TERM_MS, runtimes=True)
        self.service.crash_at = crash_at
        self.service.frame_survives = frame_survives
        self.hosts = [Host(self.service, f"w{number}", slots) for number in range(workers)]

    @property
    def reconciling(self) -> Reconciling:
        if self.service.reconciling is None:
            raise AssertionError("this coordinator keeps no runtimes")
        return self.service.reconciling

    def apply(self, content: dict[str, Any]) -> None:
        declared = decode(content)
        if not isinstance(declared, ClassRuntime):
            raise AssertionError(str(declared))
        self._do(r.PutResource(kind=KIND, name=declared.name, spec=encode(declared.spec)))

    def delete(self, name: str = "greeter") -> None:
        self._do(r.MarkResourceDeleted(kind=KIND, name=name))

    def _do(self, command: Command) -> None:
        """Ask until it is answered: a coordinator that falls over before that has done nothing."""
        heard: list[Decision] = []
        while not heard:
            decision = self.service.ask(command, heard.append)
            if isinstance(decision, Refused):
                raise AssertionError(decision.message)
            self.service.settle()

    def settle(self) -> None:
        """Everybody talks until nothing more follows at this moment."""
        for _ in range(TALKS_MOST):
            before = self.service.coordinator.state.position
            self.service.settle()
            for host in self.hosts:
                host.talk()
            if self.service.coordinator.state.position == before:
                return
        raise AssertionError("it does not come to rest")

    def pass_time(self, ms: int, step_ms: int = 500) -> None:
        """Time passes in steps, and whatever follows from it is done."""
        until = self.clock.now() + ms
        while self.clock.now() < until:
            self.clock.advance(min(step_ms, until - self.clock.now()))
            self.settle()

    def read(self, name: str = "greeter") -> Resource | None:
        return self.reconciling.read(name)

    def phase(self, name: str = "greeter") -> str:
        resource = self.read(name)
        return "" if resource is None else str(resource.status.phase)

    def running(self, name: str = "") -> list[LeaseId]:
        """The replicas that really run, over all workers."""
        state = self.service.coordinator.state
        return [
            lease
            for host in self.hosts
            for lease, (run, _, _) in host.running.items()
            if not name or state.jobs[run.job_id].spec.name == name
        ]

    def host_of(self, lease_id: LeaseId) -> Host:
        return next(host for host in self.hosts if lease_id in host.running)

    def jobs(self) -> list[Job]:
        return list(self.service.coordinator.state.jobs.values())

    def reasons(self, name: str = "greeter") -> list[str]:
        """What was told of a runtime, in order."""
        return [each.reason for each in self.reconciling.happenings.of(name)]

    def now(self) -> Instant:
        return self.clock.now()
