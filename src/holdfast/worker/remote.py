"""A worker far from its coordinator: the agent's exchanges carried over a network that fails.

An exchange that got no answer is sent again, the very same, after a pause that chance chooses. One
is parked, and a newer one overtakes it. A server that is away is never a reason to end, nor to stop
what runs; how long what runs may go on is the agent's to judge.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct, structs

from holdfast.wire.exchange import Exchange, Reply
from holdfast.wire.http import FIRST_PAUSE_S, LONGEST_PAUSE_S, Rejected, Unreachable
from holdfast.worker.agent import Agent, is_empty

UNDER_WAY_MAX: Final = 4
"""How many exchanges may wait for an answer. One is parked and one overtakes it; more come about
only where answers take longer than a third of a term, and a slow server is not helped by cutting
off those it is about to answer."""
PARKED_S: Final = 30.0
"""How long an exchange with nothing to say may stay unanswered: the server parks it for 20 s."""
PROMPT_S: Final = 10.0
ORDER_S: Final = 0.5
"""How long an answer waits for one to an earlier exchange, which the server gave before it."""
PROBE_S: Final = 0.1
"""How long to wait for a sign of a server that was away, before having it answer."""
GOODBYE_S: Final = 5.0
CONFLICT: Final = 409
TOO_LARGE: Final = 413
TOO_LATE: Final = "results that came too late, when their leases were lost:"

Carry = Callable[[Exchange, float], Awaitable[Reply]]
"""Take an exchange to the coordinator and bring its answer, within so many seconds, or raise
`Unreachable` or `Rejected`."""


class Terms(Struct, frozen=True, kw_only=True):
    """`greeting` is told when the server has answered for the first time.
    `first_contact_s`: how long the server may be away before it was ever there.
    `drain_ms`: how long what runs may take once the worker is asked to leave.
    `exit_when_drained`: it leaves by itself when an operator has drained it and all has ended."""

    greeting: str = "connected"
    first_contact_s: float = 10.0
    drain_ms: int = 30_000
    exit_when_drained: bool = False


class Remote:
    """Drives one agent on one event loop. `tell` is given a line when somebody should know;
    `between` throws a number between two."""

    def __init__(
        self,
        agent: Agent,
        carry: Carry,
        *,
        clock_ms: Callable[[], int],
        tell: Callable[[str], None],
        terms: Terms,
        between: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._agent = agent
        self._carry = carry
        self._clock_ms = clock_ms
        self._tell = tell
        self._terms = terms
        self._between = between
        self._loop = asyncio.get_running_loop()
        self._is_rung = False
        self._resting: asyncio.Future[None] | None = None
        self._flying: dict[int, asyncio.Task[Reply | None]] = {}
        self._began = self._loop.time()
        self._was_there = False
        self._is_away = False
        self._asking: set[int] = set()
        self._refusal = ""
        # When what runs must have ended, once this worker was asked to leave.
        self._leave_by: int | None = None
        self._is_hurried = False

    def wake(self) -> None:
        """Something has ended. May be called from any thread, at any time."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ring)

    def leave(self) -> None:
        """Take nothing more and go when what runs has ended; asked a second time, go now."""
        if self._leave_by is None:
            self._leave_by = self._clock_ms() + self._terms.drain_ms
            self._agent.drain()
        else:
            self._is_hurried = True
        self._ring()

    async def work(self) -> bool:
        """Until asked to leave, and gone. False when it had to go because nothing can run here."""
        try:
            self._turn()
            while not self._must_go():
                await self._rest(self._patience_s())
                self._turn()
            await self._go()
        finally:
            for task in self._flying.values():
                task.cancel()
            await asyncio.gather(*self._flying.values(), return_exceptions=True)
            await asyncio.to_thread(self._agent.finish, 0)
        return self._agent.executor.fatal is None

    # One turn.

    def _turn(self) -> None:
        self._deliver()
        while (exchange := self._agent.step(self._clock_ms())) is not None:
            self._send(exchange)

    def _must_go(self) -> bool:
        if self._agent.executor.fatal is not None:
            return True
        if self._leave_by is None:
            return self._has_drained()
        return self._is_hurried or self._agent.is_idle() or self._clock_ms() >= self._leave_by

    def _has_drained(self) -> bool:
        """Whether an operator took this worker out, and nothing keeps it here."""
        may_go = self._terms.exit_when_drained and self._agent.is_drained
        return may_go and self._agent.is_idle()

    def _patience_s(self) -> float | None:
        now_ms = self._clock_ms()
        dues = [due for due in (self._agent.next_due(now_ms), self._leave_by) if due]
        return max(0.0, (min(dues) - now_ms) / 1_000) if dues else None

    async def _rest(self, seconds: float | None) -> None:
        """Until something happens, or a time has come."""
        if not self._is_rung:
            self._resting = self._loop.create_future()
            alarm = None if seconds is None else self._loop.call_later(seconds, self._ring)
            try:
                await self._resting
            finally:
                self._resting = None
                if alarm is not None:
                    alarm.cancel()
        self._is_rung = False

    def _ring(self, _: object = None) -> None:
        self._is_rung = True
        if self._resting is not None and not self._resting.done():
            self._resting.set_result(None)

    # Exchanges on their way.

    def _send(self, exchange: Exchange) -> None:
        while len(self._flying) >= UNDER_WAY_MAX:
            # Whoever was overtaken so often is not heard: its connection is dead.
            self._flying.pop(min(self._flying)).cancel()
        task = asyncio.create_task(self._bring(exchange))
        self._flying[exchange.number] = task
        task.add_done_callback(self._ring)

    def _deliver(self) -> None:
        """Hand the answers to the agent in the order of their exchanges."""
        while self._flying:
            number = min(self._flying)
            task = self._flying[number]
            if not task.done():
                return
            del self._flying[number]
            reply = None if task.cancelled() else task.result()
            if reply is not None:
                was_drained, refused = self._agent.is_drained, self._agent.refused
                self._agent.receive(reply, self._clock_ms())
                if self._agent.refused > refused:
                    self._tell(f"{TOO_LATE} {self._agent.refused - refused}")
                if self._agent.is_drained != was_drained:
                    self._note_drain()

    async def _bring(self, exchange: Exchange) -> Reply | None:
        """The answer to this exchange, however often it must be sent; None where a newer one has
        taken its place."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                reply = await self._ask(exchange)
            except Unreachable as error:
                self._note_absence(str(error), error)
            except Rejected as error:
                if error.problem.status == TOO_LARGE and exchange.done:
                    self._agent.make_smaller(exchange)
                    return None
                self._note_absence(f"the server does not listen to this worker: {error}", error)
            else:
                refusal = _refusal_in(reply, exchange)
                if not refusal:
                    self._note_presence()
                    await self._let_earlier_ones_arrive(exchange.number)
                    return reply
                self._note_refusal(refusal)
                if reply.who and exchange.hello is None:
                    exchange = structs.replace(exchange, hello=self._agent.hello)
            if self._is_overtaken(exchange.number):
                return None
            # Full jitter: a thousand workers must not come back in step.
            await asyncio.sleep(self._between(0, pause))
            pause = min(pause * 2, self._longest_pause_s())
            if self._is_overtaken(exchange.number):
                return None

    async def _ask(self, exchange: Exchange) -> Reply:
        number = exchange.number
        self._asking.add(number)
        if self._is_away or not self._was_there:
            self._loop.call_later(PROBE_S, self._probe, number)
        try:
            return await self._carry(exchange, self._answer_s(exchange))
        finally:
            self._asking.discard(number)

    def _probe(self, number: int) -> None:
        """A server that is back parks what has nothing to say. A newer exchange has the parked one
        answered, and so shows that somebody is there."""
        is_unsure = self._is_away or not self._was_there
        if is_unsure and number in self._asking and len(self._flying) == 1:
            self._agent.speak_up()
            self._ring()

    def _answer_s(self, exchange: Exchange) -> float:
        if is_empty(exchange):
            return PARKED_S
        third_s = self._agent.term_ms / 3_000
        return min(PROMPT_S, max(1.0, third_s)) if third_s else PROMPT_S

    def _longest_pause_s(self) -> float:
        """A server that is back gives every lease one term: whoever holds one is back well before
        it ends."""
        quarter_s = self._agent.term_ms / 4_000
        return min(LONGEST_PAUSE_S, quarter_s) if quarter_s else LONGEST_PAUSE_S

    def _is_overtaken(self, number: int) -> bool:
        return any(other > number for other in self._flying)

    async def _let_earlier_ones_arrive(self, number: int) -> None:
        """Two connections may bring two answers in the wrong order, and the work in the earlier
        one would be lost. The server has given it, so it is about to arrive, or never will."""
        earlier = [task for other, task in self._flying.items() if other < number]
        if earlier:
            _, late = await asyncio.wait(earlier, timeout=ORDER_S)
            for task in late:
                task.cancel()

    # What people are told.

    def _note_presence(self) -> None:
        if not self._was_there:
            self._tell(self._terms.greeting)
        elif self._is_away:
            self._tell("the server is back")
        self._was_there, self._is_away, self._refusal = True, False, ""

    def _note_absence(self, why: str, error: Exception) -> None:
        if not self._was_there:
            spent = self._loop.time() - self._began
            if _is_final(error) or spent >= self._terms.first_contact_s:
                raise error
        elif not self._is_away:
            self._is_away = True
            self._tell(f"{why} What runs goes on.")

    def _note_refusal(self, why: str) -> None:
        if why != self._refusal:
            self._refusal = why
            self._tell(f"this worker may not work: {why}. It asks again.")

    def _note_drain(self) -> None:
        if not self._agent.is_drained:
            self._tell("an operator lets it work again")
        elif self._terms.exit_when_drained:
            self._tell("drained by an operator: it leaves when what runs has ended")
        else:
            self._tell("drained by an operator: it takes nothing more until it is uncordoned")

    # Leaving.

    async def _go(self) -> None:
        """End what is left, give it back, and say goodbye, as far as anybody listens."""
        agent = self._agent
        if not agent.draining:
            agent.drain()
        if not self._was_there:
            return
        await asyncio.to_thread(agent.finish, 0)
        give_up_at = self._loop.time() + GOODBYE_S
        while not agent.is_idle() and self._loop.time() < give_up_at:
            self._turn()
            await self._rest(give_up_at - self._loop.time())
            self._deliver()
        if self._is_away or self._refusal or not agent.is_idle():
            return
        # Nothing is left to report but that; the answer proves that it was heard.
        agent.say_goodbye()
        self._turn()
        last = max(self._flying, default=0)
        while agent.seen < last and self._loop.time() < give_up_at:
            await self._rest(give_up_at - self._loop.time())
            self._deliver()


def _is_final(error: Exception) -> bool:
    """Whether asking again is of no use. That the same exchange, or a newer one, came to the server
    on another connection says nothing about this worker."""
    return isinstance(error, Rejected) and error.problem.status != CONFLICT


def _refusal_in(reply: Reply, exchange: Exchange) -> str:
    """Why this worker may not work at all; empty where it may. A verdict about no lease answers a
    report, and where nothing was reported it is about the worker."""
    if reply.refused:
        return reply.refused
    if not is_empty(exchange):
        return ""
    return next((verdict.why for verdict in reply.verdicts if not verdict.lease_id), "")
