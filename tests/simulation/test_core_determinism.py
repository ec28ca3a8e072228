"""The same seed gives the same log, byte for byte, whatever the hash seed of the process."""

import os
import subprocess
import sys
from pathlib import Path

import holdfast

TRACE = """
import hashlib, random, sys
from holdfast.testing.strategies import any_command, pass_time
from holdfast.testing.world import World

digest = hashlib.blake2b()
for seed in range(int(sys.argv[1]), int(sys.argv[1]) + 20):
    dice, world = random.Random(seed), World()
    for _ in range(80):
        pass_time(world, dice)
        world.do(any_command(world, dice))
    for data in world.log:
        digest.update(data)
    digest.update(world.fingerprint().encode())
    assert not world.troubles(), world.troubles()
print(digest.hexdigest())
"""


def traced(seed: int, hash_seed: str) -> str:
    source = str(Path(holdfast.__file__).parents[1])
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-c", TRACE, str(seed)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_the_same_seed_leaves_the_same_log_under_any_hash_seed(seed: int) -> None:
    traces = {traced(seed, hash_seed) for hash_seed in ("1", "2", "4242")}
    assert len(traces) == 1
    assert traces != {traced(seed + 1_000, "1")}
