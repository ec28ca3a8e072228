"""Who asks without end waits for its turn, and nobody behind it has to.

One thread answers everybody, and what has come to it is begun in the order in which it came: a
token with a hundred connections would have a hundred requests begun before the one of another.
So each token has a share of every pass of the loop; what is beyond that begins in a later pass,
after whatever has come meanwhile from others.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

SHARE_S: Final = 0.001
"""So long a token may keep the loop in one pass. What it asks is cheap as a rule, and many of it
fit; what is dear is begun all the same, alone."""

MOST: Final = 64
"""How many that wait are let in at once, however cheap they are."""

PAUSE: Final = 4
"""So many passes lie between two shares of a token. A request of somebody else needs a few to come
to its end, from being heard to being answered; a pass in which nothing else waits costs little."""


class Turns:
    """`clock` counts seconds, finely."""

    def __init__(self, clock: Callable[[], float], share_s: float = SHARE_S) -> None:
        self._clock = clock
        self._share_s = share_s
        self._spent: dict[str, float] = {}
        # What the last request of a token took: how many of those that wait fit into a share.
        self._lasted: dict[str, float] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._is_passing = False
        # Whether somebody has had a whole share, and how many passes it waits for another.
        self._is_full = False
        self._pause = 0

    def is_up(self, who: str) -> bool:
        """Whether a request of this token may begin now."""
        return who not in self._waiting and self._spent.get(who, 0.0) < self._share_s

    def begin(self) -> float:
        return self._clock()

    def end(self, who: str, began: float) -> None:
        """What was begun then has been answered, or waits for something else than us."""
        took = self._clock() - began
        spent = self._spent[who] = self._spent.get(who, 0.0) + took
        self._is_full = self._is_full or spent >= self._share_s
        if who in self._waiting:
            self._lasted[who] = took
        self._pass_on()

    async def wait(self, who: str) -> None:
        """Until it is this one's turn; those of a token go in their order."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        self._pass_on()
        await turn

    def _pass_on(self) -> None:
        if not self._is_passing:
            self._is_passing = True
            asyncio.get_running_loop().call_soon(self._pass)

    def _pass(self) -> None:
        """Another pass of the loop: everybody has a share again, and whoever waits begins what
        should fit into it, at least one. That is begun a little later, and has the share already:
        what comes meanwhile from the same is behind it."""
        self._is_passing = False
        if self._is_full and self._pause:
            self._pause -= 1
            self._pass_on()
            return
        self._pause = PAUSE
        self._is_full = bool(self._waiting)
        self._spent.clear()
        for who, line in list(self._waiting.items()):
            self._let_in(line, self._lasted.get(who, self._share_s))
            self._spent[who] = self._share_s
            if not line:
                del self._waiting[who]
                self._lasted.pop(who, None)
        if self._spent:
            self._pass_on()

    def _let_in(self, line: deque[asyncio.Future[None]], lasted: float) -> None:
        room = self._share_s
        while line and room > 0:
            turn = line.popleft()
            if not turn.done():
                turn.set_result(None)
                room -= max(lasted, self._share_s / MOST)
