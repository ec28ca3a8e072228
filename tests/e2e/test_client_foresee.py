"""What would become of a call, asked in Python: the same in a folder and at a server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import Refused
from holdfast.testing import chores
from holdfast.testing.loopback import ServerProcess, WorkerThread

PATIENCE_S = 60


@pytest.fixture(params=["folder", "server"])
def hf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    if request.param == "folder":
        with holdfast.open(tmp_path / "state", workers=2) as opened:
            assert opened.submit(chores.square, 2).result(PATIENCE_S) == 4
            yield opened
        return
    with (
        ServerProcess(tmp_path) as server,
        WorkerThread(server, slots=2),
        holdfast.connect(server.url, token_file=server.token_file) as connected,
    ):
        assert connected.submit(chores.square, 2).result(PATIENCE_S) == 4
        yield connected


def test_a_call_is_foreseen_and_nothing_is_recorded(hf: holdfast.Holdfast) -> None:
    before = [entry.position for entry in hf.transactions(1)]
    told = hf.foresee(chores.square, 3, key="once")
    assert (told.tasks, told.starting, told.existing) == (1, 1, None)
    assert told.workers == {"all": 1, "fitting": 1, "free": 1}
    assert [why.code for why in told.reasons] == ["next"]
    later = hf.foresee(chores.square, 3, delay="1h")
    assert ([why.code for why in later.reasons], later.starting) == (["not_begun"], 0)
    patient = holdfast.task(schedule_timeout="1h")(chores.square)
    nowhere = hf.foresee(patient, 3, require="zone == nowhere")
    assert [why.code for why in nowhere.reasons] == ["constraint_unmet"]
    assert [entry.position for entry in hf.transactions(1)] == before
    made = hf.submit(chores.square, 3, key="once")
    assert hf.foresee(chores.square, 3, key="once").existing == made.id


def test_what_would_be_refused_is_refused(hf: holdfast.Holdfast) -> None:
    for options in ({"require": "zone == nowhere", "must_fit": True}, {"resources": {"moon": 1}}):
        with pytest.raises(Refused) as meant:
            hf.submit(chores.square, 3, **options)
        with pytest.raises(Refused) as told:
            hf.foresee(chores.square, 3, **options)
        assert str(told.value) == str(meant.value)
