"""The judges see what they are there to see: each is shown a lie."""

from collections.abc import Callable

import pytest

from holdfast.core import commands as c
from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.testing.receivers import World
from holdfast.testing.sim.auditor import Auditor
from holdfast.testing.sim.client import LOOK, Op
from holdfast.testing.sim.oracle import Oracle, judge_effects, judge_history
from holdfast.testing.sim.server import Told
from holdfast.testing.world import PLAIN
from holdfast.wire.exchange import Capacity, Done, Exchange, Reply, Verdict

HERE = Capacity(1, 1_000, 0, 0)
YES = Told()


def audit(**asked: list[int]) -> Auditor:
    auditor = Auditor(1_000, lambda content: None)
    auditor.asked = dict(asked)
    return auditor


def op(key: str, kind: str = "submit", *, at: int = 0, told: Told | None = YES, **more) -> Op:
    times = {"answered": at + 5, "until": 100, "told": told} if told is not None else {}
    return Op(key, kind, more.pop("subject", "1"), at, more.pop("since", 0), **{**times, **more})


LIES: dict[str, Callable[[], list[str]]] = {
    "recorded twice": lambda: judge_history([op("a")], audit(a=[3, 7])),
    "refused and recorded": lambda: judge_history([op("a", told=Told("conflict"))], audit(a=[3])),
    "acknowledged and nowhere": lambda: judge_history([op("a")], audit()),
    "unanswered and twice": lambda: judge_history([op("a", told=None)], audit(a=[3, 4])),
    "told before it was durable": lambda: judge_history([op("a", until=2)], audit(a=[3])),
    "out of order": lambda: judge_history([op("a"), op("b", at=9)], audit(a=[4], b=[3])),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_history_that_lies_is_seen(lie: str) -> None:
    assert len(LIES[lie]()) == 1


def test_a_true_history_has_nothing_to_tell() -> None:
    ops = [op("a"), op("b", at=9), op("c", told=None), op("d", told=None), op("e", "retry")]
    assert judge_history(ops, audit(a=[3], b=[4], c=[5])) == []


@pytest.mark.parametrize("heard", [4, 9])
@pytest.mark.parametrize(("opened", "is_true"), [(2, False), (5, True), (7, True), (8, False)])
def test_a_no_binds_whoever_said_it_and_not_the_server_after(
    opened: int, heard: int, is_true: bool
) -> None:
    auditor = audit(a=[7])
    auditor.opened_at = [1, opened]
    refused = op("a", "force", told=Told("conflict", at=4), until=heard)
    assert (judge_history([refused], auditor) == []) is is_true


@pytest.mark.parametrize(("shown", "is_true"), [(1, False), (2, True), (3, True), (4, False)])
def test_a_look_shows_a_moment_between_asking_and_hearing(shown: int, is_true: bool) -> None:
    auditor = audit()
    auditor.tallies["1"] = [(n * 10, {"WAITING": n}) for n in range(1, 5)]
    told = Told(answer=({"WAITING": shown}, True, False))
    look = op("a", LOOK, since=25, until=33, told=told)
    assert (judge_history([look], auditor) == []) is is_true


def said(*leases: int) -> Exchange:
    done = tuple(Done(JobId("1"), Index(0), LeaseId(lease), 0, b"x") for lease in leases)
    return Exchange(WorkerId("w"), 1, 1, 0, HERE, (), done, (), (), (), 0, False)


def reply(*verdicts: Verdict) -> Reply:
    return Reply(1, verdicts, (), (), ())


def test_two_acknowledged_commits_of_one_task_are_seen() -> None:
    oracle = Oracle()
    oracle.heard(said(1), reply())
    oracle.heard(said(2), reply(Verdict(LeaseId(2), "LEASE_LOST", "")))
    assert oracle.troubles == []
    oracle.heard(said(3), reply())
    assert len(oracle.troubles) == 1


def test_an_acknowledged_commit_that_is_not_in_the_log_is_seen() -> None:
    oracle = Oracle()
    oracle.heard(said(1), reply())
    assert oracle.judge(audit()) == ["the commit of ('1', 0) was acknowledged and is lost"]


def test_an_acknowledged_job_that_is_not_in_the_log_is_seen() -> None:
    oracle = Oracle()
    asked = c.SubmitJob(spec=PLAIN, items=(b"x",))
    oracle.answered(op("a", subject="key", told=Told(answer="7"), command=asked))
    oracle.answered(op("b", subject="key", told=Told(answer="7"), command=asked))
    assert oracle.judge(audit()) == ["job 7 was acknowledged and is lost"]
    oracle.answered(op("c", subject="key", told=Told(answer="8"), command=asked))
    assert "key key is 7 and 8" in oracle.troubles


def test_an_effect_without_a_commit_and_a_commit_without_its_effect_are_seen() -> None:
    auditor, world = audit(), World()
    auditor.promised["1/0:0"] = 9
    assert judge_effects(world, auditor, "log", settled=False) == []
    assert len(judge_effects(world, auditor, "log", settled=True)) == 1
    world.arrived["ledger", ""] = ["log:1/0:9:0"]
    assert judge_effects(world, auditor, "log", settled=True) == []
    world.arrived["ledger", ""].append("log:1/0:12:0")
    assert len(judge_effects(world, auditor, "log", settled=True)) == 1
