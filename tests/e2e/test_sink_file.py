"""The file sink when whoever delivers is killed: every effect is one line all the same."""

import json
import os
import signal
import subprocess
import sys

import msgspec
import pytest

from holdfast.testing.posting import a_delivery, a_parcel, delivered_to
from holdfast.wire.sinks import FileSink
from holdfast.worker.sinks.file import FileOutlet

STEPS = ("looked", "torn", "written", "synced", "told")

DIES = """
import os, signal, sys
import msgspec
from holdfast.wire.delivery import Parcel
from holdfast.wire.sinks import FileSink
from holdfast.worker.sinks.file import FileOutlet

path, wanted, parcel = sys.argv[1], sys.argv[2], sys.stdin.buffer.read()

def reached(step):
    if step == wanted:
        os.kill(os.getpid(), signal.SIGKILL)

real_write = os.write
def torn(file, content):
    real_write(file, bytes(content)[: len(content) // 2 + 3])
    os.kill(os.getpid(), signal.SIGKILL)
if wanted == "torn":
    os.write = torn
for _ in FileOutlet(FileSink(path), reached=reached).deliver(
    msgspec.msgpack.decode(parcel, type=Parcel)
):
    reached("told")
"""


@pytest.mark.parametrize("step", STEPS)
def test_whoever_delivers_may_be_killed_at_any_step(step, tmp_path):
    path = tmp_path / "ledger.jsonl"
    some = [a_delivery(n, key=str(n % 3)) for n in range(20)]
    content = msgspec.msgpack.encode(a_parcel(*some))
    for _ in range(2):
        words = [sys.executable, "-c", DIES, str(path), step]
        done = subprocess.run(words, input=content, check=False, env=dict(os.environ))
        assert done.returncode == -signal.SIGKILL
    after = FileOutlet(FileSink(str(path)))
    assert delivered_to(after, *some) == [None] * 20
    after.close()
    ids = [json.loads(line)["id"] for line in path.read_text().splitlines()]
    assert ids == [each.idempotency for each in some]
