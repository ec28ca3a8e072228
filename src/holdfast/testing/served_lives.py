"""A server, its delivery process and a worker, each of which dies at named steps and comes back."""

import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

import holdfast
from holdfast.core.owed import BLOCK
from holdfast.testing.blows import LAST_STEPS, Wanted
from holdfast.testing.deeds import CALLED_VARIABLE, deed
from holdfast.testing.loopback import ServerProcess, WorkerProcess
from holdfast.testing.outside import Outside, judge, promised
from holdfast.testing.stepping import ENTRY
from holdfast.testing.steps import ORDER_VARIABLE, Order, was_obeyed

PATIENCE_S: Final = 120.0
PAUSE_S: Final = 0.02


class House:
    """Everything is kept alive over many orders; only who was killed is started again."""

    def __init__(self, outside: Outside) -> None:
        folder = outside.folder
        outside.outputs.mkdir()
        settings = folder / "holdfast.toml"
        settings.write_text(_settings(outside), encoding="utf-8")
        self._order_file = folder / "order"
        environment = {
            ORDER_VARIABLE: str(self._order_file),
            CALLED_VARIABLE: str(outside.called),
            "HOLDFAST_CONFIG": str(settings),
        }
        self.outside = outside
        self.server = ServerProcess(folder, entry=ENTRY, environment=environment)
        self.server.start()
        self._worker = WorkerProcess(
            self.server, folder / "scratch", "--name", "w", "--slots", "2",
            entry=ENTRY, environment=environment,
        )  # fmt: skip
        self._worker.start()
        self._hf = holdfast.connect(self.server.url, token_file=self.server.token_file)
        self._tasks = 0
        self._is_over = threading.Event()
        # Whoever waits for a server that is away cannot be the one who starts it again.
        self._keeper = threading.Thread(target=self._keep, name="holdfast-test-keeper")
        self._keeper.start()

    def close(self) -> None:
        self._is_over.set()
        self._keeper.join()
        self._hf.close()
        self._worker.kill()
        self.server.kill()
        self.server.stop()

    def carry_out(self, wanted: Wanted, number: int) -> bool:
        """One job, one death, and all is settled in the end. Whether the step was reached."""
        order = Order(number, wanted.role, wanted.step)
        order.give(self._order_file)
        job = self._hf.map(deed, self.outside.items(number, wanted), key=f"run {number}")
        self._tasks += wanted.tasks
        if wanted.early:
            self._until(self._is_settled_or_parked)
        else:
            self._until(lambda: job.state == "SUCCEEDED")
        if wanted.step in LAST_STEPS:
            self._until(lambda: was_obeyed(self._order_file, order))
        self._order_file.unlink(missing_ok=True)
        return was_obeyed(self._order_file, order)

    def judge(self) -> list[str]:
        """What the dead have left is collected by the worker that comes next."""
        self._worker.end()
        self._until(self.outside.is_clean)
        return judge(self.server.data, self.outside)

    def _is_settled_or_parked(self) -> bool:
        found = promised(self.server.data)
        if len(found.committed) < self._tasks:
            return False
        return all(
            key in found.settled or (entry.kind == BLOCK and key in found.parked)
            for key, (entry, _, _) in found.entries.items()
        )

    def _until(self, is_so: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > give_up_at:
                raise TimeoutError("it does not come to its end")
            time.sleep(PAUSE_S)

    def _keep(self) -> None:
        """Whoever dies is started again."""
        while not self._is_over.wait(PAUSE_S):
            for process in (self.server, self._worker):
                if process.has_died():
                    process.kill()
                    process.start()


def _settings(outside: Outside) -> str:
    """The sinks as an operator would write them."""
    lines: list[str] = []
    for name, sink in outside.sinks().items():
        told = msgspec.to_builtins(sink)
        kept = ("first_wait", "circuit", "tries", "path", "url", "private", "target", "dsn",
                "statement")  # fmt: skip
        given = {"kind": told["kind"]} | {key: told[key] for key in kept if told.get(key)}
        given["circuit"] = ""
        lines += [f"[sinks.{name}]", *(f"{k} = {_value(v)}" for k, v in given.items())]
    return "\n".join([*lines, ""])


def _value(value: object) -> str:
    return msgspec.json.encode(value).decode()
