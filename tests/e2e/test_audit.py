"""Who did what, strict callers and refusals, with a real server and in a program."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import Refused
from holdfast.testing import chores
from holdfast.testing.patience import until

PATIENCE_S = 60


def test_a_strict_program_is_told_of_repeats_and_works_as_ever(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "state", workers=1, strict=True) as hf:
        job = hf.map(chores.square, range(2_500), key="m")
        assert sum(job.results()) == sum(n * n for n in range(2_500))
        with pytest.raises(Refused, match="key 'm' has job 1 already") as repeated:
            hf.map(chores.square, range(2_500), key="m")
        assert repeated.value.code == "repeated"
        with pytest.raises(Refused, match="nothing of job 1 is left"):
            job.cancel()
        assert hf.submit(chores.square, 3).result(PATIENCE_S) == 9


@pytest.mark.slow
def test_the_trail_of_a_server_is_that_of_its_folder(
    begin_server: Callable, hand_of: Callable, typing: Callable, tmp_path: Path
) -> None:
    served = begin_server("--strict")
    call, worker = typing(served), hand_of(served)
    job_id = call("submit", "--key", "k", "--", "true").out.strip()
    again = call("submit", "--key", "k", "--", "true")
    assert again.code == 5
    assert "has job" in again.err
    worker.succeed(*worker.take())
    assert call("job", "cancel", job_id).code == 5
    moved = call("task", "reschedule", f"{job_id}/0", "--now")
    assert moved.code == 5

    def refused() -> list[dict]:
        told = call("audit", "list", "--refused", "--job", job_id, "-o", "json")
        return json.loads(told.out)["entries"]

    until(lambda: len(refused()) == 2)
    cancel, reschedule = refused()
    assert cancel["metadata"]["code"] == "repeated"
    assert (reschedule["from"], reschedule["to"]) == ("SUCCEEDED", "WAITING")
    history = call("task", "history", f"{job_id}/0").out
    assert history.splitlines()[-1].split()[0] == "refused"
    file = tmp_path / "trail.jsonl"
    assert call("audit", "export", file).code == 0
    head = call("audit", "head").out.strip()
    served.stop()
    kept = ("--data", served.data, "--head", head)
    assert call("audit", "verify", file, *kept).code == 0
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:3] + lines[4:]))
    bad = call("audit", "verify", file, *kept)
    assert (bad.code, "line 4" in bad.err) == (1, True)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["embedded", "served"])
def test_a_program_reads_the_trail_and_asks_in_sql(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if where == "embedded":
        opened = holdfast.open(tmp_path / "state", workers=1)
    else:
        served = request.getfixturevalue("begin_server")()
        opened = holdfast.connect(served.url, token_file=served.token_file)
    with opened as hf:
        job_id = hf.submit(chores.square, 3, delay="1h").id
        hf.cancel(f"{job_id}/0", "not needed")
        with pytest.raises(Refused):
            hf.force(f"{job_id}/0", to="SUCCEEDED", reason="why not")
        made, stopped = [one for one in hf.audit(job=job_id) if one.task_id and one.position]
        assert (made.from_state, made.to_state, stopped.to_state) == ("NEW", "WAITING", "KILLED")
        assert hf.audit(task=f"{job_id}/0", since=stopped.position)[0] == stopped
        assert [one.position for one in hf.audit(limit=1, until=made.position)] == [made.position]
        until(lambda: [one.to_state for one in hf.audit(refused=True)] == ["SUCCEEDED"])
        head = hf.audit_head()
        assert str(head) == f"{head.position}:{head.head}"
        assert head.position >= stopped.position

        now = hf.query("select id, state from tasks order by id")
        assert list(now) == [{"id": f"{job_id}/0", "state": "KILLED"}]
        then = hf.query("select state from tasks", at=made.position)
        assert then.rows == [["WAITING"]]
        assert (then.position, then.complete, len(then)) == (made.position, True, 1)
        with pytest.raises(Refused, match="only questions are answered"):
            hf.query("delete from tasks")
        with pytest.raises(Refused, match="Ask for"):
            hf.query("select 1", at=10_000)
        with pytest.raises(Refused, match="JOB/INDEX"):
            hf.audit(task="no such")
