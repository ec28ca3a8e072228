"""The operations that a server carries out now, each in a task of its own beside the requests."""

import asyncio

from holdfast.coordinator.inspect import HistoryGone
from holdfast.coordinator.library import Library
from holdfast.coordinator.lines import say
from holdfast.coordinator.operations import Ask, Run, plan_of
from holdfast.coordinator.serving import Served
from holdfast.core.ids import NOWHERE
from holdfast.core.operation import Operation


class Underway:
    """One that is not in here is over, or was cut off by a restart and can be asked for again."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._runs: dict[str, tuple[Run, asyncio.Task[None]]] = {}

    def run_of(self, operation_id: str) -> Run | None:
        known = self._runs.get(operation_id)
        return None if known is None else known[0]

    def start(self, operation: Operation, actor: str) -> None:
        """Carry it out, unless that is being done. Whoever asked may leave meanwhile."""
        name = operation.operation_id
        if operation.last != NOWHERE or name in self._runs:
            return
        run = Run(name, actor, operation.reason)
        task = asyncio.ensure_future(self._follow(run, operation))
        self._runs[name] = (run, task)
        task.add_done_callback(lambda done: self._let_go(name, done))

    def _let_go(self, name: str, done: "asyncio.Task[None]") -> None:
        del self._runs[name]
        error = None if done.cancelled() else done.exception()
        if error is not None:
            say("operation_cut_off", operation=name, why=str(error))

    async def over(self, operation_id: str) -> None:
        """Until it is not carried out any more."""
        known = self._runs.get(operation_id)
        if known is not None:
            await asyncio.wait([known[1]])

    def stop(self) -> None:
        """Begin no further step: the log has all that was done, and it can be gone on with."""
        for _, task in list(self._runs.values()):
            task.cancel()

    async def _follow(self, run: Run, operation: Operation) -> None:
        """Its steps: questions in turn with everybody else's, reading aside."""
        served = self._served
        library = Library(served.told, served.history)
        plan = plan_of(run, operation, served.coordinator, library)
        try:
            step = next(plan)
            while True:
                try:
                    if isinstance(step, Ask):
                        answer = await served.ask(step.do)
                    else:
                        answer = await asyncio.to_thread(step.do)
                except (HistoryGone, FileNotFoundError) as gone:
                    step = plan.throw(gone)
                else:
                    step = plan.send(answer)
        except StopIteration:
            return
