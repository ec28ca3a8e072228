"""Two real workers. One is stopped with everything it runs, past its leases; the other does it all
again and commits; then the first goes on, and says that it is done."""

import json
from collections import Counter
from pathlib import Path
from typing import Final

from msgspec import Struct

import holdfast
from holdfast.testing.fleet import wait_until
from holdfast.testing.loopback import ServerProcess, WorkerProcess
from holdfast.testing.outside import promised
from holdfast.testing.proxy import Proxy
from holdfast.testing.tollgate import LEDGER, are_here, pass_and_pay
from holdfast.wire.bodies import Reason
from holdfast.wire.http import Http, Server

NAMES: Final = ("one", "two")
BACK: Final = "the server is back"
PATIENCE_S: Final = 60.0


class Thawed(Struct):
    """What it came to. `late`: results that were refused, as their workers tell."""

    tasks: int = 0
    late: int = 0


class Relay:
    """One house for many rounds; `slots` is how many tasks are stopped in each."""

    def __init__(self, folder: Path, *, slots: int, term: str) -> None:
        self.thawed = Thawed()
        self.ledger = folder / "ledger"
        self._folder = folder
        self._slots = slots
        settings = folder / "holdfast.toml"
        settings.write_text(f'[sinks.{LEDGER}]\nkind = "file"\npath = "{self.ledger}"\n')
        environment = {"HOLDFAST_CONFIG": str(settings)}
        self.server = ServerProcess(folder, "--lease-term", term, environment=environment)
        self.server.start()
        self._lines = [Proxy(int(self.server.url.rpartition(":")[2])).start() for _ in NAMES]
        self._workers = [
            WorkerProcess(
                self.server, folder / name, "--name", name, "--slots", str(slots),
                "--cpus", str(slots), url=f"http://127.0.0.1:{line.port}", environment=environment,
            )
            for name, line in zip(NAMES, self._lines, strict=True)
        ]  # fmt: skip
        for worker in self._workers:
            worker.start()
        self._http = Http(Server(url=self.server.url, token=self.server.token))
        self._hf = holdfast.connect(self.server.url, token_file=self.server.token_file)

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *error: object) -> None:
        self._hf.close()
        self._http.close()
        for worker in self._workers:
            worker.kill()
        for line in self._lines:
            line.close()
        self.server.stop()

    def round(self, number: int) -> None:
        """One worker is stopped with all that it holds, and comes too late with all of it."""
        first, second = number % 2, 1 - number % 2
        gate = self._folder / f"gate-{number}"
        gate.mkdir()
        wait_until(self._are_both_there, PATIENCE_S, what="both workers are there")
        self._say(second, "cordon")
        items = [(str(gate), self._slots * number + n) for n in range(self._slots)]
        job = self._hf.map(holdfast.task(max_losses=100)(pass_and_pay), items)
        wait_until(lambda: are_here(gate) == self._slots, PATIENCE_S, what="they come to the gate")
        stopped = self._workers[first]
        returns = stopped.said().count(BACK)
        stopped.freeze()
        # Nobody can tell it of its loss: it must bring what it has to hear of it.
        self._lines[first].cut()
        try:
            (gate / "open").touch()
            self._say(second, "uncordon")
            wait_until(lambda: job.state == "SUCCEEDED", PATIENCE_S, what="the other does it all")
        finally:
            stopped.thaw()
        self.thawed.tasks += self._slots
        # What it has comes with its first words or right after; now and then it is told of its
        # loss first, and brings nothing.
        wait_until(lambda: stopped.said().count(BACK) > returns, PATIENCE_S, what="it is back")
        self.thawed.late = self._late()

    def judge(self) -> list[str]:
        """Every task has committed once, and the ledger has a line for each commit and no other."""
        found = promised(self.server.data)
        lines = self.ledger.read_text(encoding="utf-8").splitlines()
        paid = Counter((line["id"], line["body"]["token"]) for line in map(json.loads, lines))
        owed = {(key, token) for key, (_, _, token) in found.entries.items()}
        troubles = [f"{task} committed {n} times" for task, n in found.committed.items() if n > 1]
        troubles += [f"{entry} was paid {n} times" for entry, n in paid.items() if n > 1]
        troubles += [f"{entry} was paid, and is not owed" for entry in paid.keys() - owed]
        troubles += [f"{entry} was never paid" for entry in owed - paid.keys()]
        if len(found.committed) != self.thawed.tasks:
            troubles.append(f"{len(found.committed)} committed of {self.thawed.tasks}")
        return troubles

    def _are_both_there(self) -> bool:
        listed = self._http.get("/api/v1/workers", dict)["workers"]
        return set(NAMES) <= {worker["name"] for worker in listed}

    def _late(self) -> int:
        return sum(worker.refused() for worker in self._workers)

    def _say(self, place: int, what: str) -> None:
        self._http.post(f"/api/v1/workers/{NAMES[place]}/{what}", Reason(), dict)
