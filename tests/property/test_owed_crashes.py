"""A crash after any record: what was owed is delivered all the same, in its order, and no block
begins twice."""

from functools import partial

import pytest

from holdfast.testing.owing_cluster import OwingCluster

SEED = 11
HOWS = ("durable", "lost", "snapshot", "worker", "both")


class Struck(OwingCluster):
    """A calm day but for one moment: the coordinator, a worker or both die after record `at`."""

    def __init__(self, at: int, how: str) -> None:
        super().__init__(SEED, workers=2, jobs=2, is_calm=True)
        self.at_record = at
        self.how = how
        self.has_struck = False

    def _turn(self) -> None:
        super()._turn()
        if self.service.coordinator.state.position < self.at_record or self.has_struck:
            return
        self.has_struck = True
        if self.how != "worker":
            survives = self.how != "lost" and self.service.writing
            self.service.crash(frame_survives=survives, by_snapshot=self.how == "snapshot")
        if self.how in ("worker", "both"):
            self._replace(0)
        # Whoever had no answer asks again.
        for member in self.members:
            self.after(1, partial(member.freeze_for, 1))


def length() -> int:
    calm = Struck(10**9, "durable")
    calm.run()
    assert not calm.troubles
    assert calm.seen["owing"] > 10
    return int(calm.service.coordinator.state.position)


def strike(at: int, how: str) -> None:
    struck = Struck(at, how)
    struck.run()
    assert struck.has_struck
    assert not struck.troubles, f"after record {at}, {how}: {struck.troubles[:3]}"
    assert len(struck.acknowledged) == len(struck.wanted)


@pytest.mark.parametrize("how", HOWS)
def test_what_is_owed_survives_a_crash_after_any_of_some_records(how: str) -> None:
    whole = length()
    for at in range(3, whole, whole // 4):
        strike(at, how)


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_what_is_owed_survives_a_crash_after_every_record(how: str) -> None:
    for at in range(2, length()):
        strike(at, how)
