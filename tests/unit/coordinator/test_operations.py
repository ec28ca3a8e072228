"""Operations over a coordinator on a log in memory: done a slice at a time, cut off anywhere, gone
on with, taken back; and nothing of it that breaks an invariant."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast.coordinator import operations
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.inspect import Told, told_by, told_in
from holdfast.coordinator.operations import Library, Plan, Run, follow, plan_of
from holdfast.coordinator.selecting import Selecting, Unclear
from holdfast.core import commands as c
from holdfast.core import commands_operations as o
from holdfast.core.ids import Index, JobId, WorkerId
from holdfast.core.job import counts
from holdfast.core.operation import UNDO, VERBS
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.core.task import TaskState
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import Done, Failed
from holdfast.wire.operations import NewOperation, Selection

SPEC = JobSpec(name="work", kind="function", target="work", retry=RetryPolicy(kind="none"))


class PowerCut(Exception):
    """The process ends between two steps."""


class House:
    """A service with jobs in it, and the means to carry operations out."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.service = Service(self.clock, SeededDice(1))

    @property
    def state(self) -> Any:
        return self.service.coordinator.state

    def ask(self, question: Callable[[Coordinator], Any]) -> Any:
        answer = question(self.service.coordinator)
        self.service.settle()
        return answer

    def library(self) -> Library:
        log = self.service.log

        def history(first: int, last: int) -> Iterator[Told]:
            return told_in(log.read(first), first, last) if first <= last else iter(())

        return Library(lambda position: told_by(*log.record(position), position), history)

    def begin(self, verb: str, undoes: str = "", **selection: Any) -> str:
        body = NewOperation(verb=verb, selection=Selection(**selection), reason="why not")
        request = b"{}" if undoes else msgspec.json.encode(body)
        command = o.BeginOperation(
            verb=verb, request=request, digest=b"", asked_by="ann", undoes=undoes
        )
        return str(self.ask(lambda k: k.execute(command, actor="ann")).answer)

    def run(self, name: str, *, steps: int = -1) -> dict[str, int]:
        """Carry it out, or so many steps of it and no further."""
        operation = self.state.operations[name]
        run = Run(name, "ann", operation.reason)
        plan: Plan = plan_of(run, operation, self.service.coordinator, self.library())

        def ask(question: Callable[[Coordinator], Any]) -> Any:
            nonlocal steps
            if steps == 0:
                raise PowerCut
            steps -= 1
            return self.ask(question)

        follow(plan, ask)
        return dict(self.state.operations[name].outcomes)

    def perform(self, verb: str, **selection: Any) -> str:
        name = self.begin(verb, **selection)
        self.run(name)
        return name

    def undo(self, name: str) -> dict[str, int]:
        return self.run(self.begin(UNDO, undoes=name))

    def tasks(self) -> dict[TaskState, int]:
        found = dict.fromkeys(TaskState, 0)
        for job in self.state.jobs.values():
            for state, count in counts(job).items():
                found[state] += count
        return {state: count for state, count in found.items() if count}

    def check(self) -> None:
        self.service.check()
        assert self.service.troubles == []


def busy(dice: Random) -> House:
    """Jobs of every kind, some of whose tasks have ended this way or that."""
    house = House()
    worker = Post(house.service)
    for number in range(6):
        words: dict[str, Any] = {"items": tuple(bytes([n]) for n in range(dice.randint(1, 6)))}
        if dice.random() < 0.3:
            words = {"count": dice.randint(1, 6), "shared": b"s"}
        spec = msgspec.structs.replace(SPEC, name=f"job-{number % 2}")
        delay_ms = dice.choice((0, 0, 60_000))
        house.service.do(c.SubmitJob(spec=spec, delay_ms=delay_ms, **words))
    held: dict[int, Any] = {}
    for _ in range(dice.randint(0, 6)):
        worker.say(held=tuple(held), slots=2)
        house.service.settle()
        runs = worker.replies[-1].runs if worker.replies else ()
        held.update((item.lease_id, (run, item)) for run in runs for item in run.items)
        if held and dice.random() < 0.8:
            lease, (run, item) = held.popitem()
            where = (run.job_id, item.index, lease, 1)
            if dice.random() < 0.5:
                worker.say(held=tuple(held), slots=2, done=(Done(*where, b"r"),))
            else:
                failed = Failed(*where, "failed", "boom", "", None)
                worker.say(held=tuple(held), slots=2, failed=(failed,))
            house.service.settle()
    return house


@pytest.mark.parametrize("seed", range(12))
def test_any_operation_and_its_undo_keep_every_invariant(seed: int) -> None:
    dice = Random(seed)
    house = busy(dice)
    verbs = [verb for verb in VERBS if verb != UNDO]
    names = []
    for _ in range(4):
        verb = dice.choice(verbs)
        chosen = dice.choice(({"names": ["all"]}, {"name": "job-1"}, {"names": ["1-3", "5"]}))
        names.append(house.perform(verb, **chosen))
        house.check()
    for name in dice.sample(names, len(names)):
        house.undo(name)
        house.check()
    before = house.state.operations
    house.service.crash(by_snapshot=True)
    assert house.state.operations == before


def test_what_is_undone_at_once_is_as_it_was() -> None:
    house = busy(Random(3))
    for verb, chosen in (("cancel_jobs", {"names": ["all"]}), ("cancel_tasks", {"name": "job-*"})):
        before = house.tasks()
        name = house.perform(verb, **chosen)
        assert house.tasks() != before
        told = house.undo(name)
        begun = told.get("started", 0)
        after = house.tasks()
        assert after.get(TaskState.KILLED, 0) - before.get(TaskState.KILLED, 0) == begun
    house.check()


@pytest.mark.parametrize("cut", range(8))
def test_one_that_was_cut_off_anywhere_is_gone_on_with_and_counted_once(
    cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "COMMANDS_A_STEP", 1)
    house = House()
    for _ in range(4):
        house.service.do(c.SubmitJob(spec=SPEC, items=(b"a", b"b")))
    name = house.begin("cancel_jobs", names=["all"])
    try:
        house.run(name, steps=cut)
    except PowerCut:
        house.service.crash()
        house.run(name)
    assert dict(house.state.operations[name].outcomes) == {"jobs": 4, "tasks": 8}
    assert house.undo(name) == {"jobs": 4, "tasks": 8}
    assert house.tasks() == {TaskState.WAITING: 8}
    house.check()


@pytest.mark.parametrize("verb", ["cancel_jobs", "retry_jobs", "reschedule_tasks"])
@pytest.mark.parametrize("cut", range(3, 9))
def test_an_undo_that_was_cut_off_anywhere_is_gone_on_with_and_counted_once(
    cut: int, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "COMMANDS_A_STEP", 1)
    monkeypatch.setattr(operations, "SHIFTS_A_STEP", 2)
    house = House()
    for number in range(1, 5):
        house.service.do(c.SubmitJob(spec=SPEC, items=(b"a", b"b"), delay_ms=9_000))
        if verb == "retry_jobs":
            both = tuple(map(Index, range(2)))
            house.service.do(c.SetAside(job_id=JobId(str(number)), indices=both))
    before = house.tasks()
    done = house.perform(verb, names=["all"])
    undo = house.begin(UNDO, undoes=done)
    try:
        house.run(undo, steps=cut)
    except PowerCut:
        house.service.crash()
        house.run(undo)
    assert dict(house.state.operations[undo].outcomes) == {"jobs": 4, "tasks": 8}
    assert house.tasks() == before
    house.check()


def test_a_task_that_began_after_its_retry_is_not_put_back() -> None:
    house = House()
    house.service.do(c.SubmitJob(spec=SPEC, items=(b"a", b"b")))
    both = tuple(map(Index, range(2)))
    house.service.do(c.SetAside(job_id=JobId("1"), indices=both))
    name = house.perform("retry_tasks", states=["quarantined"])
    assert house.tasks() == {TaskState.WAITING: 2}
    assert house.undo(name) == {"jobs": 1, "tasks": 2}
    assert house.tasks() == {TaskState.QUARANTINED: 2}
    again = house.perform("retry_tasks", states=["quarantined"])
    grant = c.GrantLeases(
        job_id=JobId("1"), worker=WorkerId("w"), incarnation=1, slot=0, indices=both[:1], term_ms=0
    )
    house.service.do(grant)
    assert house.undo(again) == {"jobs": 1, "started": 1, "tasks": 1}
    assert house.tasks() == {TaskState.LEASED: 1, TaskState.QUARANTINED: 1}
    house.check()


def test_a_task_that_began_and_waits_again_is_not_put_back_either() -> None:
    house = House()
    spec = msgspec.structs.replace(SPEC, retries=3)
    house.service.do(c.SubmitJob(spec=spec, items=(b"a",)))
    only = (Index(0),)
    house.service.do(c.SetAside(job_id=JobId("1"), indices=only))
    name = house.perform("retry_jobs", names=["1"])
    lease = house.state.next_lease
    who = {"worker": WorkerId("w"), "incarnation": 1}
    house.service.do(
        c.GrantLeases(job_id=JobId("1"), slot=0, indices=only, term_ms=0, **who)
    )
    failed = Failed(JobId("1"), Index(0), lease, 1, "failed", "boom", "", None)
    house.service.do(c.FailAttempt(failed=failed, roll=0.0, **who))
    assert house.tasks() == {TaskState.WAITING: 1}
    assert house.undo(name) == {"started": 1}
    assert house.tasks() == {TaskState.WAITING: 1}


def test_tasks_are_cut_into_records_and_pauses() -> None:
    house = House()
    house.service.do(c.SubmitJob(spec=SPEC, count=12_000, shared=b"s"))
    selecting = Selecting(
        house.state, "cancel_tasks", Selection(names=["1"]), house.service.coordinator.now()
    )
    sizes = [len(chosen.indices) for chosen in selecting if chosen.job is not None]
    assert sizes == [5_000, 5_000, 2_000]
    name = house.perform("cancel_tasks", names=["1/0-11999:2"])
    assert dict(house.state.operations[name].outcomes) == {"jobs": 1, "tasks": 6_000}
    assert house.undo(name)["tasks"] == 6_000
    house.check()


def test_a_range_far_beyond_what_there_is_ends_all_the_same() -> None:
    house = House()
    house.service.do(c.SubmitJob(spec=SPEC, count=3, shared=b"s"))
    name = house.perform("cancel_tasks", names=["1/1-999999999999999", "1-999999999999999"])
    assert dict(house.state.operations[name].outcomes) == {"jobs": 1, "tasks": 3}


@pytest.mark.parametrize(
    "names", [["1-"], ["1/x"], ["9-1"], ["1-5:0"], ["nobody"], ["1/3-2"], ["77-99"]]
)
def test_a_name_that_means_nothing_is_told(names: list[str]) -> None:
    house = House()
    house.service.do(c.SubmitJob(spec=SPEC, count=1, shared=b"s"))
    with pytest.raises(Unclear):
        Selecting(house.state, "cancel_tasks", Selection(names=names), house.clock.now())
