"""The event loop a lane keeps for coroutine functions.

Making a loop costs more than many a task, so a lane makes one when it first needs it and keeps
it. Nothing else is kept: every task gets a fresh context, and what it leaves running is cancelled
before the next one begins.
"""

import contextvars
import importlib
from collections.abc import Coroutine
from typing import Any


class LaneLoop:
    """One loop for one thread. Only that thread may use it."""

    def __init__(self) -> None:
        # Found late: asyncio takes longer to import than all the rest a child needs.
        self._asyncio: Any = None
        self._runner: Any = None

    def complete(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end and hand on what it returns or raises."""
        if self._runner is None:
            self._asyncio = importlib.import_module("asyncio")
            self._runner = self._asyncio.Runner()
        context = contextvars.copy_context()
        try:
            return self._runner.run(coroutine, context=context)
        except Exception:
            raise
        except BaseException:
            # SystemExit and its like tear through the loop and leave it half way.
            self.close()
            raise
        finally:
            if self._runner is not None:
                self._sweep(self._runner)

    def close(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()

    def _sweep(self, runner: Any) -> None:
        left = self._asyncio.all_tasks(runner.get_loop())
        if left:
            for task in left:
                task.cancel()
            runner.run(self._ended(left))

    async def _ended(self, tasks: set[Any]) -> None:
        await self._asyncio.gather(*tasks, return_exceptions=True)
