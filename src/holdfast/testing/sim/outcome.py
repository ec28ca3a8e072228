"""What is told of a run: enough to judge it, to compare it and to count it."""

from msgspec import Struct


class Outcome(Struct):
    """What came of a run. `faults` counts what was done to the cluster, message by message;
    `trace` is the same for two runs exactly where they are."""

    seed: int
    mode: str
    troubles: list[str]
    simulated_ms: int
    steps: int
    records: int
    trace: str
    faults: dict[str, int]
    points: dict[str, int]
    moves: dict[str, int]
    phases: dict[str, int]
    ends: dict[str, int]
    events: dict[str, int]
    ops: dict[str, int]
