"""The one writer: decide, append, apply, and let nothing out before it is durable.

A step function: no thread, no lock, no clock of its own. Whoever drives it (a thread, a simulator)
calls `execute` for commands, writes the batches it hands out, and tells it how far they are
durable. Memory may run ahead of the disk; answers never do.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from holdfast.coordinator.measured import Measured
from holdfast.coordinator.ports import Clock, Dice
from holdfast.coordinator.refusing import Refusing
from holdfast.coordinator.watch import Watchers
from holdfast.core import commands as c
from holdfast.core import commands_resources as r
from holdfast.core import commands_schedules as s
from holdfast.core.apply import apply
from holdfast.core.decide import decide
from holdfast.core.decision import Decision, Reason, Refused
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import Instant, Position
from holdfast.core.record import Record, decode_record, encode_record
from holdfast.core.state import State
from holdfast.core.ties import take_unsettled
from holdfast.core.transactions import Action

STRANGERS: Final = frozenset(
    {
        c.SubmitJob,
        c.AddTasks,
        c.SealJob,
        c.KillJob,
        c.KillTasks,
        c.RescheduleTask,
        c.RetryTasks,
        c.StopReplicas,
        c.EndService,
        c.SetLimit,
        s.SetSchedule,
        s.PauseSchedule,
        r.PutResource,
        r.PutResourceStatus,
        r.SetResourceFinalizers,
        r.MarkResourceDeleted,
    }
)
"""Commands with values from outside: what they record is read back before it counts, because a
value of a wrong type can be written, and would then keep the log from being read for ever."""

FRAME_BYTES: Final = 32 * 1024 * 1024
"""What is gathered into one frame at most; a single record may be somewhat larger."""

RECORD_BYTES_MAX: Final = 48 * 1024 * 1024
"""No log takes more in one frame: whoever asks for it is refused, and nobody else is harmed."""

NOTICES_KEPT: Final = 1_000

SETTLED_AT_ONCE: Final = 1_000
"""So many tied jobs are judged in one record at most."""


class Batch(Struct, frozen=True):
    """Records for one frame, and the position of the last of them."""

    records: Sequence[bytes]
    at: Instant
    wall: Instant
    last: Position


class Coordinator:
    """`term_ms` is how long leases of workers elsewhere live unrenewed; zero: there are none."""

    def __init__(self, state: State, clock: Clock, dice: Dice, *, term_ms: int = 0) -> None:
        self.state = state
        self.term_ms = term_ms
        self.clock = clock
        self.dice = dice
        self.watchers = Watchers(state)
        # Where nobody draws curves of it, nothing is measured.
        self.measured: Measured | None = None
        # Whoever acts on what becomes true, where anybody does.
        self.attention: Callable[[Record], None] | None = None
        self.refusing = Refusing(state, clock)
        # What happened and is not worth a record: lost with the process.
        self.notices: deque[tuple[Instant, Action]] = deque(maxlen=NOTICES_KEPT)
        self.durable: Position = state.position
        self.failure: Exception | None = None
        self.written = 0
        # What waits for the disk, in bytes, and who may refuse to add to it.
        self.pending_bytes = 0
        self.guard: Callable[[type[c.Command]], Refused | None] = _takes_all
        self._pending: list[bytes] = []
        self._flying: Batch | None = None
        self._flying_since: Instant = self.now()
        self._flown_at: Instant = self._flying_since
        self._synced_at: Instant = self._flying_since
        self._sync_ms = 0
        self._present_at: Instant = self.now()
        self._back_at: Instant = self._present_at
        self._answers: deque[
            tuple[Position, Callable[[], None], Callable[[Exception], None]]
        ] = deque()

    def now(self) -> Instant:
        """Log time never goes back, whatever the clock says."""
        return max(self.clock.now(), self.state.time)

    def observe(self, *, strict: bool) -> None:
        """Count moves and measure how long tasks are where they are, from now on."""
        self.refusing.strict = strict
        self.measured = Measured(self.state)

    @property
    def refusals(self) -> Counter[str]:
        """How many commands were refused, by why."""
        return self.refusing.refusals

    def execute(
        self,
        command: c.Command,
        *,
        actor: str,
        request_id: str = "",
        reason: str = "",
        strict: bool | None = None,
    ) -> Decision:
        """The one door. An accepted command is one record, or none where it adds no fact; to who
        is `strict` that is a refusal. Who does not say is a caller like others, if it is one.

        Deciding changes nothing: a request so malformed that it cannot even be judged or written
        raises, and harms nobody but its asker.
        """
        if self.failure is not None:
            raise self.failure
        self.excuse_absence()
        decision = self._judge(command, actor, request_id, reason, strict=strict)
        if self.state.unsettled:
            self._settle_ties()
        return decision

    def _settle_ties(self) -> None:
        """Whatever follows for other jobs from what has just ended, before anything else is judged.
        The records may be lost with a crash, and then follow again after the recovery."""
        while jobs := take_unsettled(self.state, SETTLED_AT_ONCE):
            self._judge(c.SettleTies(jobs=jobs), "coordinator", "", "")

    def excuse_absence(self) -> None:
        """An outage of ours is nobody's fault. Where we were away, or the disk was, for a quarter
        of a term, nobody could renew: before anything else is judged every lease gets a new term.
        """
        if not self.term_ms:
            return
        now = self.now()
        was_away = self._is_long(now - self._present_at)
        self._present_at = now
        if self._flying is not None and self._is_long(now - self._flying_since):
            was_away, self._flying_since = True, now
        if was_away:
            self._back_at = now
        if was_away and self.failure is None:
            self._judge(c.RearmLeases(term_ms=self.term_ms), "coordinator", "", "")

    def listening_since(self, now: Instant) -> Instant:
        """When we were last back from being away: what others said meanwhile is heard after that.
        """
        return now if self._is_long(now - self._present_at) else self._back_at

    def _is_long(self, absence_ms: int) -> bool:
        return absence_ms > self.term_ms // 4

    def _judge(
        self,
        command: c.Command,
        actor: str,
        request_id: str,
        reason: str,
        *,
        strict: bool | None = None,
    ) -> Decision:
        now = self.now()
        try:
            decision = decide(self.state, command, now)
        except BrokenInvariant as error:
            self.fail(error)
            raise
        if not isinstance(decision, Refused) and decision.events:
            decision = self.guard(type(command)) or decision
        if isinstance(decision, Refused):
            return self.refusing.refused(command, decision, actor, request_id)
        if decision.events:
            name = type(command).__name__
            record = Record(now, name, actor, request_id, reason, decision.events)
            encoded = encode_record(record)
            unfit = _unfit(encoded, is_strange=type(command) in STRANGERS)
            if unfit is None:
                self._record(record, encoded)
                return decision
            no = Refused(unfit[0], f"{name} was given {unfit[1]}")
            return self.refusing.refused(command, no, actor, request_id)
        answer = self.refusing.repeated(command, decision, actor, strict=strict)
        if isinstance(answer, Refused):
            return self.refusing.refused(command, answer, actor, request_id)
        return answer

    def _record(self, record: Record, encoded: bytes) -> None:
        position = Position(self.state.position + 1)
        try:
            apply(self.state, record, position)
        except Exception as error:
            # Memory may be half changed: nothing that follows from it can be trusted.
            self.fail(error)
            raise
        self._pending.append(encoded)
        self.written += len(encoded)
        self.pending_bytes += len(encoded)
        self.watchers.note(position, record)
        if self.measured is not None:
            self.measured.note(position, record)
        if self.attention is not None:
            self.attention(record)

    def answer(self, send: Callable[[], None], fail: Callable[[Exception], None]) -> None:
        """Let `send` go out once everything memory knows now is on disk; `fail` if it never is."""
        if self.failure is not None:
            fail(self.failure)
        else:
            self._answers.append((self.state.position, send, fail))

    @property
    def is_durable(self) -> bool:
        """Whether everything memory knows now is on disk."""
        return self.durable == self.state.position and self.failure is None

    def take_batch(self) -> Batch | None:
        """What has gathered since the last frame, as much of it as one frame holds."""
        if not self._pending:
            return None
        count = _fitting(self._pending)
        records, self._pending = self._pending[:count], self._pending[count:]
        last = Position(self.state.position - len(self._pending))
        self._flying = Batch(records, self.state.time, self.clock.wall(), last)
        self._flying_since = self._flown_at = self.now()
        return self._flying

    def flight_ms(self, now: Instant) -> int:
        """How long the frame that is on its way to the disk has been so; zero for none."""
        return 0 if self._flying is None else now - self._flown_at

    def sync_ms(self, now: Instant) -> int:
        """How long the disk takes for a frame: the one under way, or the last within a term."""
        last = self._sync_ms if now - self._synced_at < self.term_ms else 0
        return last if self._flying is None else max(last, now - self._flown_at)

    def pending_record(self, position: Position) -> bytes | None:
        """A record that is not durable yet; None where the log has it."""
        place = position - (self.state.position - len(self._pending)) - 1
        if place >= 0:
            return self._pending[place]
        if self._flying is None or position <= self.durable:
            return None
        return self._flying.records[place + len(self._flying.records)]

    def has_nothing_pending(self) -> bool:
        return not self._pending or self.failure is not None

    def became_durable(self, position: Position) -> None:
        self.excuse_absence()
        if self._flying is not None:
            self._synced_at = self.now()
            self._sync_ms = self._synced_at - self._flown_at
            self.pending_bytes -= sum(map(len, self._flying.records))
        self.durable = position
        self._flying = None
        self.watchers.tell(position)
        self._release()

    def settle(self) -> None:
        """Hand on what is durable already: news and answers that needed no record."""
        self.watchers.tell(self.durable)
        self._release()

    def fail(self, failure: Exception) -> None:
        """The log is lost to us: nothing more is acknowledged, everyone who waits is told."""
        self.failure = failure
        answers, self._answers = self._answers, deque()
        for _, _, tell in answers:
            tell(failure)
        self.watchers.fail(failure)

    def _release(self) -> None:
        answers = self._answers
        while answers and answers[0][0] <= self.durable:
            answers.popleft()[1]()


def _takes_all(kind: type[c.Command]) -> Refused | None:
    """The guard of a coordinator whose disk nobody looks at."""
    return None


def _fitting(records: list[bytes]) -> int:
    """How many of these go into one frame: at least one."""
    room = FRAME_BYTES - len(records[0])
    for count, record in enumerate(records[1:], 1):
        room -= len(record)
        if room < 0:
            return count
    return len(records)


def _unfit(encoded: bytes, *, is_strange: bool) -> tuple[Reason, str] | None:
    """Why a record must not be written: no frame could hold it, or replay could not read it."""
    if len(encoded) > RECORD_BYTES_MAX:
        return Reason.TOO_LARGE, f"{len(encoded):,} bytes; the limit is {RECORD_BYTES_MAX:,}"
    if is_strange:
        try:
            decode_record(encoded)
        except BrokenInvariant as error:
            return Reason.INVALID, f"a wrong value: {error.__cause__}"
    return None
