"""Effects of a server: delivered by its own process or by workers, whoever is killed."""

import json
import subprocess
import sys
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec
import psutil
import pytest

from holdfast.core.owed import EFFECT, Entry
from holdfast.testing.fleet import wait_until
from holdfast.testing.receiver import OK, answering, receiving
from holdfast.wire.bodies import Command, Submit

PATIENCE_S = 60.0
COUNT = 60


def living(process, word=""):
    """The children of a process that run, and were started with this word."""
    found = []
    for each in process.children():
        # One that was killed may not be buried yet, and another may end while it is looked at.
        with suppress(psutil.Error):
            if each.status() != psutil.STATUS_ZOMBIE and (not word or word in each.cmdline()):
                found.append(each)
    return found


def child_of(process, word="", *, what):
    """The first of them, once there is one."""
    found = []

    def look():
        found[:] = living(process, word)
        return bool(found)

    wait_until(look, PATIENCE_S, what=what)
    return found[0]


class House:
    """A server with sinks, and a worker that commits what a test says."""

    def __init__(self, begin_server, hand_of, tmp_path, sinks):
        settings = tmp_path / "server-0" / "config" / "holdfast" / "config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(sinks)
        self.served = begin_server()
        self.hand = hand_of(self.served)

    def commit(self, count, owed):
        """A job whose tasks all commit, and owe."""
        http = self.hand._http
        body = Submit(command=Command(argv=["true"]), count=count)
        job = http.post("/api/v1/jobs", body, dict, key="one")["id"]
        left = count
        while left:
            some = self.hand.take(1)
            self.hand.succeed(*some, owed=owed)
            left -= len(some)
        return job

    def state(self, job):
        return self.hand._http.get(f"/api/v1/jobs/{job}", dict)["state"]

    def wait_for_success(self, job):
        wait_until(lambda: self.state(job) == "SUCCEEDED", PATIENCE_S, what="all is delivered")

    def delivery(self):
        """The process that delivers, once it is there."""
        server = psutil.Process(self.served.process.pid)
        return child_of(server, "deliver", what="there is a delivery process")


@pytest.fixture
def build(begin_server, hand_of, tmp_path):
    return lambda sinks: House(begin_server, hand_of, tmp_path, sinks)


def file_sink(path):
    return f'[sinks.ledger]\nkind = "file"\npath = "{path}"\nfirst_wait = "10ms"\n'


def entry(index, sink="ledger", *, key=""):
    return Entry(EFFECT, sink, key, msgspec.msgpack.encode({"n": index}))


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def check_once(path, count):
    lines = lines_of(path)
    assert sorted(line["body"]["n"] for line in lines) == list(range(count))
    assert len({line["id"] for line in lines}) == count


def test_the_server_has_its_sinks_delivered_by_a_process_of_its_own(build, tmp_path):
    path = tmp_path / "ledger.jsonl"
    house = build(file_sink(path))
    job = house.commit(COUNT, lambda index: (entry(index, key=str(index % 4)),))
    house.wait_for_success(job)
    check_once(path, COUNT)
    for key in "0123":
        mine = [line["body"]["n"] for line in lines_of(path) if line["key"] == key]
        assert mine == sorted(mine)


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["delivery", "child", "server"])
def test_whoever_is_killed_every_line_is_there_once(build, tmp_path, whom):
    path = tmp_path / "ledger.jsonl"
    house = build(file_sink(path))

    def kill():
        if whom == "server":
            house.served.restart(is_killed=True)
            return
        victim = house.delivery()
        if whom == "child":
            victim = child_of(victim, what="it delivers what is owed by now")
        victim.kill()

    def owed(index):
        if index % 20 == 10:
            kill()
        return (entry(index),)

    job = house.commit(COUNT, owed)
    house.wait_for_success(job)
    check_once(path, COUNT)


@pytest.mark.slow
def test_what_is_owed_survives_a_sink_that_is_down_and_a_restart(build):
    with receiving(answering(503)) as receiver:
        sink = (
            f'[sinks.ledger]\nkind = "http"\nurl = "{receiver.url()}"\nprivate = true\n'
            'first_wait = "10ms"\nlongest_wait = "50ms"\ntries = 100000\ncircuit = ""\n'
        )
        house = build(sink)
        job = house.commit(3, lambda index: (entry(index, key="k"),))
        wait_until(lambda: len(receiver.requests) > 3, PATIENCE_S, what="it was tried again")
        assert house.state(job) == "RUNNING"
        house.served.restart()
        receiver.answers[:] = [OK]
        house.wait_for_success(job)
    keys = [request.headers["idempotency-key"] for request in receiver.requests]
    assert len(set(keys)) == 3
    # In the order of their commits: nobody passed the one that failed.
    assert keys == sorted(keys, key=lambda key: int(key.split("/")[1].split(":")[0]))


@contextmanager
def a_worker(house, folder):
    """A real worker that finds its code in this folder."""
    words = [sys.executable, "-m", "holdfast", "worker", "start", "--slots", "1"]
    words += ["--server", house.served.url, "--token-file", str(house.served.token_file)]
    environment = {**house.served.environment, "SENT": str(folder / "sent")}
    process = subprocess.Popen(words, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


SENDING = """
import os

def send(effect):
    with open(os.environ["SENT"], "a") as file:
        print(effect.id, effect.body["n"], file=file)
    if effect.body["n"] == 1 and effect.tries == 0:
        os.abort()
"""


def test_functions_are_called_by_workers_and_a_crash_costs_one_try(build, tmp_path):
    (tmp_path / "sending.py").write_text(SENDING)
    house = build('[sinks.mail]\nkind = "function"\ntarget = "sending:send"\nfirst_wait = "10ms"\n')
    # A worker that came before this would be given some of the tasks.
    job = house.commit(4, lambda index: (entry(index, "mail", key="k"),))
    with a_worker(house, tmp_path):
        house.wait_for_success(job)
    sent = [line.split() for line in (tmp_path / "sent").read_text().splitlines()]
    assert [number for _, number in sent] == ["0", "1", "1", "2", "3"]
    assert len({name for name, _ in sent}) == 4
    # No sink is delivered from the server, so it has no process for that.
    assert not living(psutil.Process(house.served.process.pid), "deliver")


def test_the_readers_of_the_page_see_no_secret(build, tmp_path):
    house = build(
        '[sinks.books]\nkind = "postgres"\ndsn = "postgresql://me:hush-hush@127.0.0.1:1/x"\n'
        'statement = "select 1"\nfirst_wait = "10ms"\ntries = 1\n'
    )
    house.commit(1, lambda index: (entry(index, "books"),))
    data = house.served.data

    def is_parked():
        log = b"".join(file.read_bytes() for file in Path(data).rglob("*") if file.is_file())
        assert b"hush-hush" not in log
        return b"Parked" in log

    wait_until(is_parked, PATIENCE_S, what="it is parked")
    with closing(house.served.http()) as http:
        assert "hush-hush" not in str(http.get("/api/v1/jobs", dict))
