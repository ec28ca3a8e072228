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


class Turns:
    """`clock` counts seconds, finely."""

    def __init__(self, clock: Callable[[], float], share_s: float = SHARE_S) -> None:
        self._clock = clock
        self._share_s = share_s
        self._spent: dict[str, float] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._is_passing = False

    def is_up(self, who: str) -> bool:
        """Whether a request of this token may begin now."""
        return who not in self._waiting and self._spent.get(who, 0.0) < self._share_s

    def begin(self) -> float:
        return self._clock()

    def end(self, who: str, began: float) -> None:
        """What was begun then has been answered, or waits for something else than us."""
        self._spent[who] = self._spent.get(who, 0.0) + self._clock() - began
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
        """Another pass of the loop: everybody has a share again, and whoever waits begins one."""
        self._is_passing = False
        self._spent.clear()
        for who, line in list(self._waiting.items()):
            turn = line.popleft()
            if not line:
                del self._waiting[who]
            if not turn.done():
                turn.set_result(None)
        if self._waiting:
            self._pass_on()
