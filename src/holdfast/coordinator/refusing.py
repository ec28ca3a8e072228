"""What becomes of commands that change nothing: refusals are counted, noted and told; repeats are
counted, and refused where somebody asked to be told of them."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from holdfast.coordinator.lines import is_said, say
from holdfast.coordinator.ports import Clock
from holdfast.coordinator.refusals import LONGEST, Refusal, RefusalNotes
from holdfast.core import commands as c
from holdfast.core import commands_resources as r
from holdfast.core import commands_schedules as s
from holdfast.core.attempted import Attempted, attempted, task_attempted
from holdfast.core.decide.reports import DUPLICATE
from holdfast.core.decision import Accepted, Lost, Reason, Refused, Repeated
from holdfast.core.state import State
from holdfast.core.task import TaskState

CALLERS: Final[frozenset[type[c.Command]]] = frozenset(
    {
        c.SubmitJob,
        c.AddTasks,
        c.SealJob,
        c.KillJob,
        c.KillTasks,
        c.RetryTasks,
        c.RescheduleTask,
        c.SetAside,
        c.PurgeTasks,
        c.ForceTask,
        c.RetryQuarantined,
        c.PurgeQuarantined,
        c.RevokeToken,
        c.CordonWorker,
        c.UncordonWorker,
        c.PauseQueue,
        c.ResumeQueue,
        c.SetLimit,
        c.ClearLimit,
        s.SetSchedule,
        s.RemoveSchedule,
        s.PauseSchedule,
        s.ResumeSchedule,
        s.BackfillSchedule,
        c.RetryEffects,
        c.DiscardEffects,
        c.OpenCircuit,
        c.CloseCircuit,
        r.PutResource,
        r.MarkResourceDeleted,
    }
)
"""Commands of people and programs. One that adds no fact repeats what was done before."""

REPORTS: Final[frozenset[type[c.Command]]] = frozenset(
    {c.StartAttempts, c.CommitTasks, c.FailAttempt, c.ReleaseAttempts}
)
"""Reports of workers, who say everything until they are answered: a repeat is expected of them,
and is an error only to who asks for that with the report itself."""

NOT_AGAIN: Final = {
    c.SubmitJob: "key {key!r} has job {answer} already",
    c.KillJob: "nothing of job {job_id} is left to be stopped",
    c.KillTasks: "none of these tasks of job {job_id} is left to be stopped",
    c.RetryTasks: "no task of job {job_id} can be sent back",
    c.SealJob: "job {job_id} is sealed already",
    c.AddTasks: "job {job_id} has these items already",
}
AGAIN: Final = "it is so already"


class Refusing:
    """`notes` is where refusals are noted; a coordinator without a folder has none."""

    def __init__(self, state: State, clock: Clock) -> None:
        self.refusals: Counter[str] = Counter()
        self.repeats: Counter[str] = Counter()
        self.notes: RefusalNotes | None = None
        self.strict = False
        self._state = state
        self._clock = clock

    def close(self) -> None:
        """Nothing more is refused here."""
        if self.notes is not None:
            self.notes.close()

    def refused(
        self, command: c.Command, no: Refused, actor: str, request_id: str
    ) -> Refused:
        about = None if self.notes is None else attempted(self._state, command)
        self.note(type(command).__name__, no, about, actor, request_id)
        return no

    def lost(
        self, command: str, lost: Sequence[Lost], target: TaskState, actor: str
    ) -> None:
        """Reports under leases that are not current. Of very many nearly all are only counted, and
        all of those at once: whoever makes them up must not keep the others waiting."""
        at = self._clock.wall()
        for place, each in enumerate(lost):
            rest = len(lost) - place
            if self.notes is None or self.notes.drops(at, rest):
                self.refusals[Reason.LEASE_LOST] += rest
                return
            no = Refused(Reason.LEASE_LOST, each.why)
            about = task_attempted(self._state, each.job_id, each.index, target)
            self.note(command, no, about, actor, f"lease {each.lease_id}")

    def note(
        self, command: str, no: Refused, about: Attempted | None, actor: str, request_id: str
    ) -> None:
        """Count a no, note it beside the log, and say so where a move was refused. A lease that is
        lost is nobody's mistake: of many in one second one is told."""
        self.refusals[no.code] += 1
        if self.notes is None or about is None:
            return
        refusal = Refusal(
            at=self._clock.wall(),
            position=self._state.position,
            command=command,
            actor=actor,
            subject=about.subject,
            source=about.source,
            target=about.target,
            code=no.code,
            message=no.message[:LONGEST],
            request_id=request_id,
        )
        is_noted = self.notes.note(refusal)
        is_lost = no.code is Reason.LEASE_LOST
        is_told = self.notes.is_first() if is_lost else no.code is Reason.INVALID_TRANSITION
        if is_noted and is_told:
            say(
                "lease_lost" if is_lost else "transition_refused",
                task=about.subject, source=about.source, target=about.target, command=command,
                actor=actor, why=no.message[:LONGEST],
            )  # fmt: skip

    def repeated(
        self, command: c.Command, decision: Accepted, actor: str, *, strict: bool | None
    ) -> Accepted | Refused:
        """A command that was accepted and adds no fact. The same request heard again is answered as
        before, whoever is strict: its first answer may have been lost on the way."""
        kind = type(command)
        is_strict = self.strict and kind in CALLERS if strict is None else strict
        if kind not in CALLERS and not (strict and kind in REPORTS):
            return decision
        answer = decision.answer
        if kind in REPORTS and isinstance(answer, tuple) and not _are_duplicates(answer):
            return decision
        self.repeat(kind.__name__, actor)
        if not is_strict or isinstance(answer, Repeated):
            return decision
        told = NOT_AGAIN.get(kind, AGAIN).format(
            key=getattr(command, "key", ""), job_id=getattr(command, "job_id", ""), answer=answer
        )
        return Refused(Reason.REPEATED, f"{told}, and a repeat is an error here (strict)")

    def repeat(self, command: str, actor: str) -> None:
        """Count what came again and changed nothing."""
        self.repeats[command] += 1
        if is_said("repeat"):
            say("repeat", command=command, actor=actor)


def _are_duplicates(lost: tuple[Lost, ...]) -> bool:
    """Whether everything that was reported had been committed before; true of nothing lost."""
    return all(each.why.startswith(DUPLICATE) for each in lost)
