"""A worker that is played by hand, over real exchanges with a real server."""

from collections.abc import Callable
from typing import Final

from holdfast.core.ids import Index, LeaseId, WorkerId
from holdfast.core.owed import Entry
from holdfast.wire.exchange import Capacity, Done, Exchange, Failed, Hello, Reply, Run, Started
from holdfast.wire.http import Http

EXCHANGES_MAX: Final = 4

Leased = tuple[Run, Index, LeaseId]


class Hand:
    """A worker that does what the test says and nothing else. Whoever has the `lock` that another
    of its name had is known to follow on its death."""

    def __init__(self, http: Http, name: str, incarnation: int = 7, *, lock: str = "") -> None:
        self.name = name
        self.incarnation = incarnation
        self._hello = Hello("here", 1, "0.1.0", "", (("zone", "eu"),), lock=lock)
        self._http = http
        self._number = 0
        self._epoch = 0
        self._held: list[LeaseId] = []
        self._given: list[Leased] = []

    def exchange(
        self,
        *,
        started: tuple[Started, ...] = (),
        done: tuple[Done, ...] = (),
        failed: tuple[Failed, ...] = (),
    ) -> Reply:
        self._number += 1
        message = Exchange(
            worker=WorkerId(self.name),
            incarnation=self.incarnation,
            number=self._number,
            seen=self._number - 1,
            capacity=Capacity(slots=4, cpus_milli=4_000, memory_bytes=2**30, gpus=0),
            started=started,
            done=done,
            failed=failed,
            released=(),
            held=tuple(self._held),
            occupied=0,
            draining=False,
            hello=self._hello,
            epoch=self._epoch,
        )
        reply = self._http.post("/api/v1/exchange", message, Reply)
        self._epoch = reply.epoch
        for run in reply.runs:
            self._given += [(run, item.index, item.lease_id) for item in run.items]
            self._held += [item.lease_id for item in run.items]
        return reply

    def take(self, count: int = 1) -> list[Leased]:
        """So many leased tasks: the run, the index and the lease of each."""
        for _ in range(EXCHANGES_MAX):
            if len(self._given) >= count:
                taken, self._given = self._given[:count], self._given[count:]
                return taken
            self.exchange()
        raise AssertionError(f"only {len(self._given)} of {count} tasks were given out")

    def succeed(
        self, *leased: Leased, owed: Callable[[int], tuple[Entry, ...]] | None = None
    ) -> None:
        """`owed` says what the task of an index owes."""
        self._start(*leased)
        self._drop(*leased)
        self.exchange(
            done=tuple(
                Done(run.job_id, i, lease, 5, b"\xc0", owed(i) if owed else ())
                for run, i, lease in leased
            )
        )

    def fail(self, *leased: Leased, exit_code: int = 1) -> None:
        self._start(*leased)
        self._drop(*leased)
        self.exchange(
            failed=tuple(
                Failed(run.job_id, i, lease, 5, "failed", f"exit {exit_code}", "", exit_code)
                for run, i, lease in leased
            )
        )

    def _start(self, *leased: Leased) -> None:
        self.exchange(started=tuple(Started(run.job_id, i, lease, 1) for run, i, lease in leased))

    def _drop(self, *leased: Leased) -> None:
        gone = {lease for _, _, lease in leased}
        self._held = [lease for lease in self._held if lease not in gone]
