"""When nothing can run, the executor says so once, and gives every lease back uncharged."""

import sys
import threading
from pathlib import Path

import pytest

from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.wire.exchange import Item, Released, Run
from holdfast.worker.payloads import encode_call
from holdfast.worker.processes import ProcessExecutor

PATIENCE_S = 60

UNGUARDED = """
from holdfast.worker.functions import MissingGuard, loading_script
def f(n): return n
raise MissingGuard(loading_script())
"""


def a_run(target: str, leases: range) -> Run:
    items = tuple(Item(Index(n), LeaseId(n), 1, encode_call((n,))) for n in leases)
    return Run(JobId("job"), 0, "function", target, 0, 0, False, len(items), items)


def given_back(target: str, count: int) -> tuple[ProcessExecutor, list[Released]]:
    """Give tasks to an executor that can run none, and more once it has said so."""
    bell = threading.Event()
    executor = ProcessExecutor(1, bell.set, lambda: 0)
    executor.start()
    released: list[Released] = []
    for leases in (range(1, count), range(count, count + 3)):
        executor.assign(a_run(target, leases))
        while len(released) < leases.stop - 1:
            assert bell.wait(PATIENCE_S), "nothing came back in time"
            bell.clear()
            harvest = executor.harvest()
            assert (harvest.done, harvest.failed) == ([], [])
            released += harvest.released
    executor.close(0)
    return executor, released


def test_children_that_cannot_start_are_fatal_and_charge_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    executor, released = given_back("builtins:abs", 10)
    assert executor.fatal_kind == "ChildrenCannotStart"
    assert "exited with code 1" in str(executor.fatal)
    assert sorted(each.lease_id for each in released) == list(range(1, 13))
    assert not any(each.started for each in released)


def test_a_program_that_is_not_there_is_fatal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    executor, _ = given_back("builtins:abs", 10)
    assert executor.fatal_kind == "ChildrenCannotStart"
    assert "No such file" in str(executor.fatal)


def test_a_missing_guard_is_fatal_and_charges_nobody(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(UNGUARDED)
    executor, released = given_back(f"script:{script}:f", 10)
    assert executor.fatal_kind == "MissingGuard"
    assert f"{script} has no `if __name__ == '__main__':` guard" in str(executor.fatal)
    assert sorted(each.lease_id for each in released) == list(range(1, 13))
    assert not any(each.started for each in released)
