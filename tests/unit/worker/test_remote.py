"""Exchanges over a network that fails: what is said again, in which order, and when it is over."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from msgspec import structs

from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.testing.clock import ManualClock
from holdfast.testing.stepped import SteppedExecutor
from holdfast.wire.bodies import Problem
from holdfast.wire.exchange import Capacity, Exchange, Hello, Item, Reply, Run, Verdict
from holdfast.wire.http import Rejected, Unreachable
from holdfast.worker.agent import Agent, is_empty
from holdfast.worker.remote import TOO_LATE, Remote, Terms

TAKES_MS = 1_000
HELLO = Hello("host", 7, "1.0")
Answer = Callable[[Exchange], Awaitable[Reply]]


def a_reply(number: int, *runs: Run) -> Reply:
    return Reply(number, (), (), (), runs)


def a_run(*leases: int, slot: int = 0) -> Run:
    items = tuple(Item(Index(n), LeaseId(n), 1, b"x") for n in leases)
    return Run(JobId("1"), slot, "function", "work", 0, 0, False, len(items), items)


def away() -> Unreachable:
    return Unreachable("http://there", "connection refused")


def rejected(status: int) -> Rejected:
    return Rejected(Problem(type="", title="no", status=status, detail="no", code="no"))


class Line:
    """The other end: answers are scripted by exchange number, the rest is parked until a newer
    exchange comes."""

    def __init__(self) -> None:
        self.said: list[Exchange] = []
        self.script: dict[int, list[Reply | Exception]] = {}
        self.most_under_way = 0
        self._under_way = 0
        self._parked: dict[int, asyncio.Future[Reply]] = {}
        self._drain = False

    @property
    def drain(self) -> bool:
        return self._drain

    @drain.setter
    def drain(self, is_drained: bool) -> None:
        """Every answer says so from now on, beginning with what is parked."""
        self._drain = is_drained
        self._unpark(max(self._parked) + 1)

    def _unpark(self, before: int) -> None:
        for number in [number for number in self._parked if number < before]:
            parked = self._parked.pop(number)
            if not parked.done():
                parked.set_result(self._nothing(number))

    def _nothing(self, number: int) -> Reply:
        return structs.replace(a_reply(number), drain=self._drain)

    async def carry(self, exchange: Exchange, answer_s: float) -> Reply:
        self.said.append(exchange)
        self._under_way += 1
        self.most_under_way = max(self.most_under_way, self._under_way)
        try:
            return await self._answer(exchange)
        finally:
            self._under_way -= 1

    async def _answer(self, exchange: Exchange) -> Reply:
        self._unpark(exchange.number)
        script = self.script.get(exchange.number)
        if script:
            answer = script.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        if not is_empty(exchange) or exchange.leaving:
            return self._nothing(exchange.number)
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._parked[exchange.number] = future
        return await future


class Post:
    """A remote worker whose attempts take a second of a clock that moves by hand."""

    def __init__(self, line: Line, *, first_contact_s: float = 10.0, exits: bool = False) -> None:
        self.line = line
        self.clock = ManualClock()
        self.executor = SteppedExecutor(2, Random(1), takes_ms=TAKES_MS)
        self.agent = Agent(WorkerId("w"), 1, self.executor, Capacity(2, 2_000, 0, 0), hello=HELLO)
        self.told: list[str] = []
        self.remote = Remote(
            self.agent,
            line.carry,
            clock_ms=lambda: int(self.clock.now()),
            tell=self.told.append,
            terms=Terms(first_contact_s=first_contact_s, exit_when_drained=exits),
        )
        self.work = asyncio.create_task(self.remote.work())

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Let the worker take turns until something is so. A bug shows as a test that hangs."""
        while not is_so() and not self.work.done():
            await asyncio.sleep(0)
        if self.work.done() and not is_so():
            self.work.result()

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.executor.advance(int(self.clock.now()))
        self.remote.wake()

    async def begin(self) -> None:
        """Let what was given begin."""
        await self.until(lambda: not self.agent.is_idle())
        self.pass_time(1)

    async def leave(self) -> bool:
        """At once, whatever runs."""
        self.remote.leave()
        self.remote.leave()
        return await self.work


async def at_work(*leases: int, exits: bool = False) -> tuple[Line, "Post"]:
    """A worker that was given these leases with its first answer, and has begun the first."""
    line = Line()
    line.script[1] = [a_reply(1, a_run(*leases))]
    post = Post(line, exits=exits)
    await post.begin()
    return line, post


def leases_told(line: Line, kind: str) -> list[int]:
    """The leases of every report of a kind, in the order they were told."""
    return [each.lease_id for said in line.said for each in getattr(said, kind)]


async def leaves_in_order(line: Line, post: "Post") -> None:
    """Of two leases, what has not begun goes back, what runs is finished, and then it is over."""
    await post.until(lambda: any(said.released for said in line.said))
    assert not post.work.done()
    post.pass_time(TAKES_MS)
    assert await post.work
    assert (leases_told(line, "released"), leases_told(line, "done")) == ([6], [5])


def played(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(story(), 30)

    asyncio.run(bounded())


def test_an_exchange_without_an_answer_is_sent_again_the_very_same() -> None:
    async def story() -> None:
        line = Line()
        line.script[1] = [away(), away(), a_reply(1, a_run(5))]
        post = Post(line)
        await post.until(lambda: len(line.said) >= 4)
        assert line.said[0] == line.said[1] == line.said[2]
        assert line.said[3].held == (5,)
        await post.leave()

    played(story)


def test_reports_overtake_an_exchange_that_is_parked_and_two_are_the_most() -> None:
    async def story() -> None:
        line, post = await at_work(5, 6)
        for lease in (5, 6):
            post.pass_time(TAKES_MS)
            await post.until(lambda lease=lease: lease in leases_told(line, "done"))
        await post.until(post.agent.is_idle)
        assert line.most_under_way <= 2
        await post.leave()

    played(story)


def test_answers_that_come_in_the_wrong_order_lose_no_work() -> None:
    async def story() -> None:
        late = asyncio.Event()
        line = Line()
        plain = line._answer

        async def answer(exchange: Exchange) -> Reply:
            if exchange.number == 2:
                await late.wait()
                return a_reply(2, a_run(6, slot=1))
            if exchange.number == 3:
                asyncio.get_running_loop().call_later(0.01, late.set)
            return await plain(exchange)

        line._answer = answer
        line.script[1] = [a_reply(1, a_run(5))]
        post = Post(line)
        await post.begin()
        await post.until(lambda: len(line.said) >= 2)
        post.pass_time(TAKES_MS)
        await post.until(lambda: any(said.held == (6,) for said in line.said))
        await post.leave()

    played(story)


def test_a_worker_that_is_refused_asks_again_with_the_same_number() -> None:
    async def story() -> None:
        line = Line()
        no = Reply(1, (), (), (), (), refused="w is at work elsewhere")
        old = Reply(1, (Verdict(LeaseId(0), "REFUSED", "a later one is here"),), (), (), ())
        line.script[1] = [no, no, old, a_reply(1)]
        post = Post(line)
        await post.until(lambda: len(line.said) >= 5)
        assert [said.number for said in line.said[:5]] == [1, 1, 1, 1, 2]
        assert [line for line in post.told if "may not work" in line] == [
            "this worker may not work: w is at work elsewhere. It asks again.",
            "this worker may not work: a later one is here. It asks again.",
        ]
        await post.leave()

    played(story)


def test_who_it_is_is_said_when_asked() -> None:
    async def story() -> None:
        line = Line()
        line.script[1] = [Reply(1, (), (), (), (), who=True)]
        post = Post(line)
        await post.until(lambda: len(line.said) >= 2)
        assert line.said[1].hello == HELLO
        await post.leave()

    played(story)


def test_a_server_that_is_away_ends_nothing_and_is_told_once() -> None:
    async def story() -> None:
        line = Line()
        line.script[1] = [a_reply(1, a_run(5))]
        line.script[2] = [away(), rejected(401), away()]
        post = Post(line)
        await post.begin()
        await post.until(lambda: len(post.told) >= 3)
        assert [running.lease_id for running in post.executor.running()] == [5]
        assert len(post.told) == 3
        assert post.told[0] == "connected"
        assert "What runs goes on" in post.told[1]
        assert post.told[2] == "the server is back"
        post.pass_time(TAKES_MS)
        await post.until(post.agent.is_idle)
        await post.leave()

    played(story)


@pytest.mark.parametrize("trouble", [away(), rejected(401), rejected(404)])
def test_a_worker_that_was_never_heard_ends_with_the_reason(trouble: Exception) -> None:
    async def story() -> None:
        line = Line()
        line.script[1] = [trouble]
        with pytest.raises(type(trouble)):
            await Post(line, first_contact_s=0).work

    played(story)


def test_a_first_exchange_that_came_twice_is_no_reason_to_go() -> None:
    async def story() -> None:
        line = Line()
        line.script[1] = [rejected(409), a_reply(1)]
        post = Post(line)
        await post.until(lambda: post.told == ["connected"])
        assert await post.leave()

    played(story)


def test_results_that_come_too_late_are_counted_and_told() -> None:
    async def story() -> None:
        line = Line()
        line.script[1] = [a_reply(1, a_run(5, 6))]
        plain = line._answer

        async def answer(exchange: Exchange) -> Reply:
            reply = await plain(exchange)
            late = [done.lease_id for done in exchange.done if done.lease_id == 5]
            lost = tuple(Verdict(LeaseId(lease), "LEASE_LOST", "ended") for lease in late)
            return structs.replace(reply, verdicts=lost)

        line._answer = answer
        post = Post(line)
        await post.begin()
        for lease in (5, 6):
            post.pass_time(TAKES_MS)
            await post.until(lambda lease=lease: lease in leases_told(line, "done"))
        await post.until(post.agent.is_idle)
        assert post.agent.refused == 1
        assert [told for told in post.told if "too late" in told] == [f"{TOO_LATE} 1"]
        await post.leave()

    played(story)


def test_leaving_waits_for_what_runs_gives_back_the_rest_and_says_goodbye() -> None:
    async def story() -> None:
        line, post = await at_work(5, 6)
        post.remote.leave()
        await leaves_in_order(line, post)
        assert (line.said[-1].draining, line.said[-1].held) == (True, ())
        assert [said.leaving for said in line.said[-2:]] == [False, True]

    played(story)


def test_a_worker_that_exits_when_drained_goes_when_what_runs_has_ended() -> None:
    async def story() -> None:
        line, post = await at_work(5, 6, exits=True)
        await post.until(lambda: len(line.said) >= 2)
        line.drain = True
        await leaves_in_order(line, post)
        assert line.said[-1].draining
        assert any("leaves when what runs has ended" in told for told in post.told)

    played(story)


def test_a_drained_worker_stays_and_works_again_when_it_may() -> None:
    async def story() -> None:
        line = Line()
        post = Post(line)
        await post.until(lambda: len(line.said) >= 2)
        line.drain = True
        await post.until(lambda: bool(line.said) and line.said[-1].draining)
        line.drain = False
        await post.until(lambda: not line.said[-1].draining)
        assert post.told[-2:] == [
            "drained by an operator: it takes nothing more until it is uncordoned",
            "an operator lets it work again",
        ]
        await post.leave()

    played(story)


@pytest.mark.parametrize("is_hurried", [True, False])
def test_what_does_not_end_in_time_is_released_without_charge(is_hurried: bool) -> None:
    async def story() -> None:
        line, post = await at_work(5)
        post.remote.leave()
        await post.until(lambda: any(said.draining for said in line.said))
        if is_hurried:
            post.remote.leave()
        else:
            post.clock.advance(30_000)
            post.remote.wake()
        assert await post.work
        assert [(r.lease_id, r.started) for said in line.said for r in said.released] == [(5, True)]

    played(story)


def test_what_is_too_large_for_the_server_is_told_and_ends_nothing_else() -> None:
    async def story() -> None:
        line, post = await at_work(5)
        await post.until(lambda: len(line.said) >= 2)
        line.script[3] = [rejected(413)]
        post.pass_time(TAKES_MS)
        await post.until(lambda: any(said.failed for said in line.said))
        await post.until(post.agent.is_idle)
        await post.leave()

    played(story)


def test_a_worker_where_nothing_can_run_gives_everything_back_and_says_so() -> None:
    async def story() -> None:
        line, post = await at_work(5)
        post.executor.fatal = "no processes"
        post.remote.wake()
        assert not await post.work
        assert leases_told(line, "released") == [5]

    played(story)
