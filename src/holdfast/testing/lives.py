"""A program that embeds Holdfast and is killed at named steps, life after life in one folder.

    python -m holdfast.testing.lives [MISTAKE] < PLAN

The plan says at which steps. Each order is a job of its own: a life submits it and dies, or one of
its processes does, and the next life goes on until everything is settled or parked. This process
has no threads and forks each life, which costs a fraction of a start. It prints a line an order. A
mistake is planted first (see `plants`).
"""

import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

import holdfast
from holdfast.client.local import Local
from holdfast.coordinator.coordinator import Coordinator
from holdfast.core.ids import JobId
from holdfast.core.job import only_owes
from holdfast.testing.blows import LAST_STEPS, Wanted
from holdfast.testing.deeds import CALLED_VARIABLE, deed
from holdfast.testing.outside import Outside, judge
from holdfast.testing.plants import PLANTS
from holdfast.testing.steps import DOOM, ORDER_VARIABLE, Order, was_obeyed

PATIENCE_S: Final = 60.0
PAUSE_S: Final = 0.002

Executor = Literal["threads", "processes"]


class Plan(Struct, frozen=True):
    folder: str
    executor: Executor
    hook: str
    orders: list[Wanted]
    books: str = ""


class Passed(Struct, frozen=True):
    """What came of an order; `troubles` come with the last line alone, whose step is empty."""

    step: str
    was_obeyed: bool
    troubles: list[str] = []


class Lives:
    """One folder, and all that lived in it. `next` is kept in a file, which survives them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.outside = Outside(Path(plan.folder), plan.hook, plan.books)
        self.outside.outputs.mkdir(exist_ok=True)
        self.order_file = self.outside.folder / "order"
        self._next_file = self.outside.folder / "next"

    @property
    def next(self) -> int:
        return int(self._next_file.read_text()) if self._next_file.exists() else 0

    def live(self) -> None:
        """Go on with the orders where the life before this one ended."""
        with _opened(self.plan, self.outside) as (hf, local):
            for number in range(self.next, len(self.plan.orders)):
                self._carry_out(number, hf, local)
                self._next_file.write_text(str(number + 1))

    def _carry_out(self, number: int, hf: holdfast.Holdfast, local: Local) -> None:
        wanted = self.plan.orders[number]
        order = Order(number, wanted.role, wanted.step)
        if not was_obeyed(self.order_file, order):
            order.give(self.order_file)
        job = hf.map(deed, self.outside.items(number, wanted), key=f"run {number}")

        def is_over(coordinator: Coordinator) -> bool:
            debts = coordinator.state.debts
            mine = coordinator.state.jobs[JobId(job.id)]
            return only_owes(mine) and len(debts) == debts.parked

        _wait(lambda: local.call(is_over))
        if wanted.step in LAST_STEPS:
            _wait(lambda: was_obeyed(self.order_file, order))
        _tell(Passed(wanted.step, was_obeyed(self.order_file, order)))
        self.order_file.unlink(missing_ok=True)

    def collect(self) -> None:
        """Whatever the dead have left is taken away by whoever comes next."""
        with _opened(self.plan, self.outside):
            _wait(self.outside.is_clean)


def main() -> None:
    lives = Lives(msgspec.json.decode(sys.stdin.buffer.read(), type=Plan))
    os.environ[ORDER_VARIABLE] = str(lives.order_file)
    os.environ[CALLED_VARIABLE] = str(lives.outside.called)
    mistakes = sys.argv[1:]
    for name in mistakes:
        PLANTS[name]()
    DOOM.enter("program")
    deaths: Counter[int] = Counter()
    while (code := _fork(lives.live)) != 0:
        deaths[lives.next] += 1
        if code != -signal.SIGKILL or deaths[lives.next] > 1:
            raise AssertionError(f"a life with order {lives.next} ended with {code}")
    # What a mistake leaves lying about is its own, and stays.
    if not mistakes and _fork(lives.collect) != 0:
        raise AssertionError("what lies about is not collected")
    troubles = judge(lives.outside.folder / "state", lives.outside)
    _tell(Passed("", was_obeyed=True, troubles=troubles))


@contextmanager
def _opened(plan: Plan, outside: Outside) -> Iterator[tuple[holdfast.Holdfast, Local]]:
    with holdfast.open(
        outside.folder / "state", executor=plan.executor, workers=2, sinks=outside.sinks()
    ) as hf:
        local = hf._backend
        if not isinstance(local, Local):
            raise TypeError("this folder is elsewhere")
        yield hf, local


def _wait(is_so: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > give_up_at:
            raise TimeoutError("it does not come to its end")
        time.sleep(PAUSE_S)


def _fork(live: Callable[[], None]) -> int:
    """One life, from its beginning to its end: its exit code, negative for a signal."""
    # Nothing can be copied half-way here: this process has no threads, and runs nothing else.
    pid = os.fork()  # noqa: TID251
    if pid == 0:
        code = 1
        try:
            live()
            code = 0
        except BaseException:  # noqa: BLE001 - a life must not return into this one
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _tell(passed: Passed) -> None:
    sys.stdout.write(msgspec.json.encode(passed).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
