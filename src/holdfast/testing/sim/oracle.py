"""What was promised, as those know it to whom it was promised: clients and workers, in plain dicts.

The oracle sees no log and no state while the cluster runs; it is fed acknowledged answers alone.
`judge` then compares: with what the log says happened, and with what the last state shows.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from holdfast.testing.receivers import World
from holdfast.testing.sim.auditor import Auditor
from holdfast.testing.sim.client import APPLY, DELETE, LOOK, LOOK_AT, SCHEDULE, Op
from holdfast.testing.sim.server import GONE
from holdfast.testing.stepped import answer_to
from holdfast.wire.exchange import COMMITTED, Exchange, Reply

RECORDED: Final = ("add", "seal", APPLY, DELETE, SCHEDULE)
"""What has a record wherever it changed something."""


class KnownJob(Struct):
    """A job that somebody was told of."""

    key: str
    items: list[bytes]


class Oracle:
    """`jobs` are those acknowledged, by name; `accepted` the lease under which each task was told
    to be committed; `runs` the jobs that people began by hand out of schedules."""

    def __init__(self) -> None:
        self.jobs: dict[str, KnownJob] = {}
        self.keys: dict[str, str] = {}
        self.accepted: dict[tuple[str, int], int] = {}
        self.verdicts: dict[str, int] = {}
        self.runs: set[str] = set()
        self.troubles: list[str] = []

    def heard(self, sent: Exchange, reply: Reply) -> None:
        """A worker has its answer: what was not objected to is committed, and only once."""
        if reply.refused or reply.number != sent.number:
            return
        objected = {verdict.lease_id: verdict.verdict for verdict in reply.verdicts}
        for verdict in objected.values():
            self.verdicts[verdict] = self.verdicts.get(verdict, 0) + 1
        if 0 in objected:
            return
        for done in sent.done:
            if done.lease_id in reply.kept or objected.get(done.lease_id, COMMITTED) != COMMITTED:
                continue
            task = (str(done.job_id), int(done.index))
            if self.accepted.setdefault(task, int(done.lease_id)) != done.lease_id:
                self.troubles.append(
                    f"two commits of {task} were acknowledged: leases "
                    f"{self.accepted[task]} and {done.lease_id}"
                )

    def answered(self, op: Op) -> None:
        """A client was told something."""
        told = op.told
        if told is None or told.code:
            return
        command = op.command
        if op.kind == "submit" and command is not None:
            job_id, key = str(told.answer), op.subject
            if self.keys.setdefault(key, job_id) != job_id:
                self.troubles.append(f"key {key} is {self.keys[key]} and {job_id}")
            items = list(getattr(command, "items", ()))
            self.jobs.setdefault(job_id, KnownJob(key, items))
        elif op.kind == "submit_again" and str(told.answer) != self.keys[op.subject]:
            found = f"key {op.subject} is {self.keys[op.subject]} and {told.answer}"
            self.troubles.append(found)
        elif op.kind == "submit_other":
            self.troubles.append(f"key {op.subject} was taken, and given to another as well")
        elif op.kind == SCHEDULE and told.answer:
            self.runs.add(str(told.answer))
        elif op.kind == "add":
            self.jobs[op.subject].items += getattr(command, "items", ())

    def judge(self, audit: Auditor) -> list[str]:
        """Whatever was acknowledged is in the log, once, and right."""
        troubles = list(self.troubles)
        for job_id, known in self.jobs.items():
            seen = audit.watch.jobs.get(job_id)
            if seen is None:
                troubles.append(f"job {job_id} was acknowledged and is lost")
            elif seen.count < len(known.items):
                troubles.append(f"job {job_id} has {seen.count} of {len(known.items)} tasks")
        lost = sorted(self.runs - audit.watch.jobs.keys())
        troubles += [f"run {job_id} was acknowledged and is lost" for job_id in lost]
        for task, lease in self.accepted.items():
            found = audit.committed.get(task)
            if found is None:
                troubles.append(f"the commit of {task} was acknowledged and is lost")
            elif found[0] != lease:
                troubles.append(f"the commit of {task} under {lease} was acknowledged, not {found}")
        for (job_id, index), (_, position, result) in audit.committed.items():
            job = self.jobs.get(job_id)
            items = job.items if job is not None else ()
            if index < len(items) and result != answer_to(items[index]):
                troubles.append(f"the result of {job_id}/{index} at {position} is wrong")
        return troubles


def judge_history(history: Iterable[Op], audit: Auditor) -> list[str]:
    """(a) every acknowledged wish has one record, or none where it changed nothing; (b) in the
    order in which they were asked and told; (c) a look shows the log at a moment between asking
    and hearing; (d) what was never acknowledged is there once or not at all."""
    troubles: list[str] = []
    placed: list[tuple[Op, int]] = []
    for op in history:
        positions = audit.asked.get(op.key, [])
        # A request that was forgotten is a new one. Its quarter of an hour is over at once where
        # the next machine's wall clock is so far ahead.
        is_known = op.key not in audit.forgotten
        if len(positions) > 1 and is_known:
            troubles.append(f"{op.kind} {op.key} was recorded at {positions}")
        refused = op.told if op.told is not None and op.told.code not in ("", GONE) else None
        if refused and positions and _is_another(audit, refused.at, positions[0]):
            continue
        if refused and positions and is_known:
            troubles.append(f"{op.kind} {op.key} was refused and recorded at {positions}")
        if op.told is not None and not op.told.code and not positions and _must_be_there(op):
            troubles.append(f"{op.kind} {op.key} was acknowledged and is nowhere recorded")
        # What was so already may be asked for again by a copy that comes late, to a server that
        # was started since and does not remember.
        if positions and not (op.told is not None and op.told.is_idle):
            placed.append((op, positions[0]))
            if op.told is not None and positions[0] > op.until:
                troubles.append(
                    f"L7: {op.kind} {op.key} was told at {op.until} and recorded at {positions[0]}"
                )
        if op.kind == LOOK and op.told is not None and not op.told.code:
            troubles.extend(_judge_look(op, audit))
        if op.kind == LOOK_AT and op.told is not None:
            troubles.extend(_judge_look_at(op, audit))
    return troubles + _judge_order(placed)


def _is_another(audit: Auditor, said: int, recorded: int) -> bool:
    """Whether a server was started in between: a no is in no log, and a copy of the request that
    comes late is judged anew by whoever does not remember. The no itself may be heard later still.
    """
    return any(said < opened <= recorded for opened in audit.opened_at)


def _must_be_there(op: Op) -> bool:
    """Whether a yes means a record. A job that was stopped meanwhile is sealed already."""
    is_idle = op.told is not None and op.told.is_idle
    return op.kind == "submit" or (op.kind in RECORDED and not is_idle)


Seen = TypeVar("Seen")


def _meanwhile(op: Op, known: Sequence[tuple[int, Seen]]) -> Sequence[tuple[int, Seen]]:
    """What was so at some moment between asking and hearing, by the positions it came with."""
    places = [position for position, _ in known]
    first = max(0, bisect_right(places, op.since) - 1)
    return known[first : bisect_right(places, op.until)]


def _judge_look(op: Op, audit: Auditor) -> list[str]:
    shown = op.told.answer[0] if op.told is not None else {}
    stood = _meanwhile(op, audit.tallies.get(op.subject, []))
    if any(shown == tally for _, tally in stood):
        return []
    when = f"between {op.since} and {op.until}"
    return [f"{op.key} saw {shown} of {op.subject} {when}, where it was {stood}"]


def _judge_look_at(op: Op, audit: Auditor) -> list[str]:
    """A runtime was seen as it was at a moment between asking and hearing."""
    shown = op.told.answer if op.told is not None else None
    stood = _meanwhile(op, audit.declared.shown.get(op.subject, [(0, None)]))
    if any(shown == seen for _, seen in stood):
        return []
    when = f"between {op.since} and {op.until}"
    return [f"{op.key} saw {op.subject} as {shown} {when}, where it was {stood}"]


def _judge_order(placed: list[tuple[Op, int]]) -> list[str]:
    """Whoever was told before another was asked stands before it."""
    troubles: list[str] = []
    told = sorted((op.answered, position, op.key) for op, position in placed if op.told is not None)
    latest, place, turn = 0, "", 0
    for op, position in sorted(placed, key=lambda each: each[0].invoked):
        while turn < len(told) and told[turn][0] < op.invoked:
            if told[turn][1] > latest:
                latest, place = told[turn][1], told[turn][2]
            turn += 1
        if position < latest:
            troubles.append(f"{op.key} at {position} was asked after {place} was told at {latest}")
    return troubles


def judge_effects(world: World, audit: Auditor, log_id: str, *, settled: bool) -> list[str]:
    """(e) every effect that arrived was committed, under one key; those that share a key of the
    user's came in the order of their commits; and when all is settled every committed one has
    arrived."""
    times = world.times()
    owed = {
        f"{log_id}:{name.rpartition(':')[0]}:{position}:{name.rpartition(':')[2]}": name
        for name, position in audit.promised.items()
    }
    troubles = [f"effect {key} arrived and no commit owes it" for key in times if key not in owed]
    for where, places in audit.lines.items():
        due = [
            f"{log_id}:{job_id}/{index}:{position}:{number}"
            for position, job_id, index, number in sorted(places)
            if f"{job_id}/{index}:{number}" not in audit.discarded
        ]
        came = [key for key in dict.fromkeys(world.arrived.get(where, ())) if key in due]
        if came != due[: len(came)]:
            troubles.append(f"{where} had {came} and was owed {due}")
    if settled:
        troubles += [
            f"effect {key} is owed and never arrived"
            for key, name in owed.items()
            if key not in times and name not in audit.discarded
        ]
    return troubles


def judge_confirmed(world: World, audit: Auditor, log_id: str) -> list[str]:
    """Whatever is said to have arrived has, at the moment it is said."""
    confirmed, audit.confirmed = audit.confirmed, []
    times = world.times() if confirmed else {}
    return [
        f"effect {name} is confirmed and has not arrived"
        for name in confirmed
        if f"{log_id}:{name.rpartition(':')[0]}:{audit.promised[name]}:{name.rpartition(':')[2]}"
        not in times
    ]
