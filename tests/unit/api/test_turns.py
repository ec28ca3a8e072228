"""Who asks without end waits for its turn; who asks little does not wait behind it."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.api.turns import PAUSE, Turns

DEAR_S = 0.5


class Hall:
    """Askers before one who answers, each of whose requests takes half a second of a clock that
    stands still meanwhile."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turns = Turns(lambda: self.now, share_s=DEAR_S)
        self.begun: list[str] = []
        self.passes = 0

    async def ask(self, who: str, what: str, seconds: float = DEAR_S) -> None:
        if not self.turns.is_up(who):
            await self.turns.wait(who)
        began = self.turns.begin()
        self.now += seconds
        self.begun.append(what)
        self.turns.end(who, began)

    async def look_on(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.passes += 1


def played(story: Callable[[Hall], Awaitable[None]]) -> Hall:
    async def play() -> Hall:
        hall = Hall()
        watching = asyncio.create_task(hall.look_on())
        await story(hall)
        watching.cancel()
        return hall

    return asyncio.run(play())


def test_a_token_that_asks_without_end_is_passed_by_whoever_asks_once() -> None:
    async def story(hall: Hall) -> None:
        async with asyncio.TaskGroup() as asking:
            for number in range(8):
                asking.create_task(hall.ask("much", f"much {number}"))
            asking.create_task(hall.ask("little", "little"))

    begun = played(story).begun
    # Of those who came at one moment each token has one begun, whoever came first.
    assert begun[:2] == ["much 0", "little"]
    assert begun[2:] == [f"much {number}" for number in range(1, 8)]


def test_what_is_dear_is_begun_once_a_pass() -> None:
    async def story(hall: Hall) -> None:
        async with asyncio.TaskGroup() as asking:
            for number in range(5):
                asking.create_task(hall.ask("much", str(number)))

    hall = played(story)
    assert hall.begun == ["0", "1", "2", "3", "4"]
    assert hall.passes >= 4


def test_what_is_cheap_is_begun_at_once_as_much_as_fits() -> None:
    async def story(hall: Hall) -> None:
        for number in range(10):
            await hall.ask("much", str(number), DEAR_S / 10)

    hall = played(story)
    assert len(hall.begun) == 10
    # Nobody gave way to the loop.
    assert hall.passes == 0


def test_who_waits_is_not_overtaken_by_its_own_later_request() -> None:
    async def story(hall: Hall) -> None:
        asked = [asyncio.create_task(hall.ask("much", name)) for name in ("first", "second")]
        await asyncio.sleep(0)
        # The first has had its share, and the second waits.
        assert hall.begun == ["first"]
        hall.now += 10
        await hall.ask("much", "third", 0)
        await asyncio.gather(*asked)

    assert played(story).begun == ["first", "second", "third"]


def test_one_that_gave_up_waiting_does_not_stop_the_line() -> None:
    async def story(hall: Hall) -> None:
        first, gone, after = (
            asyncio.create_task(hall.ask("much", name)) for name in ("first", "gone", "after")
        )
        await first
        gone.cancel()
        await after

    assert played(story).begun == ["first", "after"]


def test_between_two_dear_requests_somebody_else_is_heard_and_answered() -> None:
    """What somebody else asks needs a few passes of the loop: none of them is dear."""

    async def other(hall: Hall) -> None:
        for hop in range(PAUSE):
            hall.begun.append(f"hop {hop}")
            await asyncio.sleep(0)

    async def story(hall: Hall) -> None:
        asked = [asyncio.create_task(hall.ask("much", str(number))) for number in range(4)]
        while len(hall.begun) < 2:
            await asyncio.sleep(0)
        await other(hall)
        await asyncio.gather(*asked)

    hops = [f"hop {hop}" for hop in range(PAUSE)]
    assert played(story).begun == ["0", "1", *hops, "2", "3"]


def test_of_what_is_cheap_as_many_are_let_in_as_fit() -> None:
    async def story(hall: Hall) -> None:
        async with asyncio.TaskGroup() as asking:
            asking.create_task(hall.ask("much", "dear"))
            for number in range(20):
                asking.create_task(hall.ask("much", str(number), DEAR_S / 4))

    hall = played(story)
    assert hall.begun == ["dear", *map(str, range(20))]
    # The first of them alone, since nobody knew that it was cheap; then four at a time.
    assert hall.passes <= 7 * (PAUSE + 2)


def test_what_comes_before_those_who_were_let_in_have_begun_is_behind_them() -> None:
    async def story(hall: Hall) -> None:
        first, second = (asyncio.create_task(hall.ask("much", name)) for name in ("1st", "2nd"))
        await first
        while hall.turns._waiting:
            await asyncio.sleep(0)
        assert not hall.turns.is_up("much")
        await hall.ask("much", "3rd")
        await second

    assert played(story).begun == ["1st", "2nd", "3rd"]
