"""Effects of an open folder: tasks promise, sinks deliver, and whoever leaves pays first."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

import holdfast
from holdfast.testing.fleet import wait_until

PATIENCE_S = 60.0

TASKS = """
import os
import time

import holdfast


@holdfast.task
def pay(n):
    here = holdfast.current()
    here.effect("ledger", key=str(n % 3), body={"n": n})
    here.effect("mail", body={"n": n, "folder": os.getcwd()})
    return n


@holdfast.task
def pay_half(n):
    # The second half waits until somebody was killed: nobody is done before that.
    while n >= 200 and not os.path.exists("killed"):
        time.sleep(0.01)
    return pay(n)


def send(effect):
    with open(os.path.join(effect.body["folder"], "sent"), "a") as file:
        print(effect.id, file=file)
"""


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    (tmp_path / "sink_tasks.py").write_text(TASKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name == "sink_tasks"]:
        del sys.modules[name]
    import sink_tasks

    return sink_tasks


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def whole_lines(path):
    """How many there are; somebody may be writing another, or have died at it."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_whoever_leaves_has_delivered_what_tasks_promised(tasks, tmp_path, executor):
    sinks = {"ledger": holdfast.FileSink("ledger.jsonl"), "mail": tasks.send}
    with holdfast.open("data", executor=executor, workers=2, sinks=sinks) as folder:
        assert list(folder.map(tasks.pay, range(30)).results()) == list(range(30))
    # Results are there at the commit; what is owed was delivered before the folder was closed.
    lines = lines_of(tmp_path / "ledger.jsonl")
    assert sorted(line["body"]["n"] for line in lines) == list(range(30))
    for key in "012":
        mine = [line["id"].split(":") for line in lines if line["key"] == key]
        assert mine == sorted(mine, key=lambda parts: int(parts[2]))
    assert len(set((tmp_path / "sent").read_text().splitlines())) == 30
    with holdfast.open("data", sinks=sinks) as folder:
        assert folder.job("1").state == "SUCCEEDED"


def test_a_function_that_fails_is_called_again_with_the_same_effect(tasks):
    seen = []

    def send(effect):
        seen.append((effect.id, effect.tries))
        if len(seen) < 4:
            raise ValueError("not yet")

    sinks = {
        "ledger": holdfast.FileSink("ledger.jsonl"),
        "mail": holdfast.FunctionSink(send, first_wait="1ms", circuit=""),
    }
    with holdfast.open("data", sinks=sinks) as folder:
        job = folder.submit(tasks.pay, 1)
        assert job.result() == 1
        wait_until(lambda: folder.job("1").state == "SUCCEEDED", PATIENCE_S)
    assert [tries for _, tries in seen] == [0, 1, 2, 3]
    assert len({name for name, _ in seen}) == 1


def test_what_is_owed_to_a_sink_that_is_gone_waits_for_it(tasks, tmp_path):
    ledger = holdfast.FileSink("ledger.jsonl")

    def refuse(effect):
        raise ValueError("never")

    terms = {"first_wait": "1h", "longest_wait": "1h"}
    sinks = {"ledger": ledger, "mail": holdfast.FunctionSink(refuse, **terms)}
    with holdfast.open("data", sinks=sinks) as folder:
        folder.submit(tasks.pay, 1).result()
    with holdfast.open("data", sinks={"ledger": ledger}) as folder:
        job = folder.job("1")
        # The commit stands, and its result can be had, though something is owed.
        assert list(job.results()) == [1]
        assert job.state == "RUNNING"
    assert len(lines_of(tmp_path / "ledger.jsonl")) == 1


DIES = """
import sys

import holdfast
import sink_tasks

if __name__ == "__main__":
    ledger = holdfast.FileSink("ledger.jsonl")
    with holdfast.open("data", sinks={"ledger": ledger, "mail": sink_tasks.send}) as folder:
        print("open", flush=True)
        folder.map(sink_tasks.pay_half, range(400), key="all").wait()
    print("done", flush=True)
"""


@pytest.mark.slow
def test_a_program_that_is_killed_again_and_again_writes_each_line_once(tasks, tmp_path, dice):
    (tmp_path / "program.py").write_text(DIES)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", os.getcwd(), *sys.path])}
    ledger, kills = tmp_path / "ledger.jsonl", 0
    while True:
        process = subprocess.Popen(
            [sys.executable, "program.py"], env=environment, stdout=subprocess.PIPE, text=True
        )
        with process:
            assert process.stdout.readline() == "open\n"
            most = 395 if kills else 120
            wanted = min(most, whole_lines(ledger)) + dice.randint(1, 80)

            def is_far_enough(process=process, wanted=wanted):
                return whole_lines(ledger) >= wanted or process.poll() is not None

            wait_until(is_far_enough, PATIENCE_S, what="it delivers")
            if kills < 8 and process.poll() is None:
                process.send_signal(signal.SIGKILL)
                (tmp_path / "killed").touch()
                kills += 1
                continue
            assert process.stdout.read() == "done\n"
            break
    assert kills
    counted = Counter(line["body"]["n"] for line in lines_of(ledger))
    assert counted == dict.fromkeys(range(400), 1)
    sent = (tmp_path / "sent").read_text().splitlines()
    assert len(set(sent)) == 400
