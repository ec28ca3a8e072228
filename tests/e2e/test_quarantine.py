"""What an operator sees and types about tasks that failed for good, with a real server."""

import json

import pytest

import holdfast
from holdfast import task
from holdfast.client.errors import Refused
from holdfast.testing.fleet import wait_until

pytestmark = pytest.mark.slow


def ids_of(told: str) -> list[str]:
    return [json.loads(line)["id"] for line in told.splitlines()]


def submitted(call, count: int, name: str) -> str:
    return call("submit", "--array", count, "--name", name, "--", "true").out.strip()


def test_a_canary_goes_first_and_the_rest_when_it_succeeded(call, hand):
    job = submitted(call, 3, "canaries")
    hand.fail(*hand.take(3))
    mine = ("--name", "canaries")
    look = call("quarantine", "retry", *mine, "--dry-run", "-o", "jsonl")
    assert sorted(ids_of(look.out)) == [f"{job}/0", f"{job}/1", f"{job}/2"]
    assert "nothing was done; 3 tasks would be retried" in look.err
    refused = call("quarantine", "retry", *mine)
    assert refused.code == 2
    assert "this would retry 3 tasks: add --yes" in refused.err
    first = call("quarantine", "retry", *mine, "--canary", "--note", "the disk is new")
    assert first.code == 0
    assert "goes first for" in first.err
    (leased,) = hand.take(1)
    hand.succeed(leased)
    mark = json.loads(call("quarantine", "list", *mine, "-o", "json").out)["groups"][0]
    assert mark["count"] == 2
    rest = call("quarantine", "retry", f"fp:{mark['fingerprint']}", *mine, "--yes")
    assert "2 tasks were sent back" in rest.err
    hand.succeed(*hand.take(2))
    assert call("job", "wait", job).code == 0
    shown = json.loads(call("task", "show", f"{job}/0", "-o", "json").out)
    assert [attempt["attempt"] for attempt in shown["attempts"]] == [1, 2]
    assert json.loads(call("job", "show", job, "-o", "json").out)["generation"] == 3


def test_a_canary_that_fails_again_is_code_1(call, begin_server, typing):
    server = begin_server("--workers", "1")
    typed = typing(server)
    job = typed("submit", "--retries", "0", "--", "false").out.strip()
    typed("job", "wait", job)
    again = typed("quarantine", "retry", "--job", job, "--canary", "--wait", "--timeout", "60s")
    assert again.code == 1
    assert "QUARANTINED again" in again.err


def test_what_is_given_up_leaves_the_quarantine_for_good(call, hand):
    job = submitted(call, 2, "hopeless")
    hand.fail(*hand.take(2))
    gone = call("quarantine", "purge", f"{job}/1", "--note", "the input was wrong")
    assert gone.code == 0
    assert "1 task was given up" in gone.err
    left = call("quarantine", "list", "--flat", "--job", job, "-o", "jsonl")
    assert ids_of(left.out) == [f"{job}/0"]
    assert f"{job}/0" in ids_of(call("quarantine", "retry", "all", "--dry-run", "-o", "jsonl").out)
    back = call("job", "retry", f"{job}/1")
    assert back.code == 5
    assert json.loads(call("job", "show", job, "-o", "json").out)["state"] == "FAILED"
    again = call("quarantine", "purge", f"{job}/1", "--note", "again")
    assert "there are no such tasks in quarantine" in again.err


def test_001_94_a_task_is_forced_and_its_worker_is_fenced(call, hand):
    job = submitted(call, 1, "forced")
    (leased,) = hand.take(1)
    found = call("task", "force", f"{job}/0", "--to", "waiting", "--reason", "wrong machine")
    assert (found.code, found.out) == (0, f"task {job}/0: LEASED -> WAITING\n")
    hand.succeed(leased)
    shown = json.loads(call("task", "show", f"{job}/0", "-o", "json").out)
    assert shown["attempts"][0]["reason"] == "released"
    assert shown["failures"]["used"] == shown["losses"]["used"] == 0
    told = call("task", "history", f"{job}/0").out
    assert "LEASED → WAITING" in told
    assert "forced: " in told
    never = call("task", "force", f"{job}/0", "--to", "SUCCEEDED", "--reason", "I know")
    assert never.code == 5
    assert "only the holder of its current lease commits" in never.err
    hand.succeed(*hand.take(1))
    stays = call("task", "force", f"{job}/0", "--to", "WAITING", "--reason", "again")
    assert stays.code == 5
    assert "submit it again" in stays.err


@task(retries=0)
def broken(n: int) -> int:
    raise ValueError(f"no {n}")


@pytest.mark.parametrize("is_served", [False, True], ids=["embedded", "served"])
def test_a_program_looks_at_the_quarantine_and_decides(is_served, tmp_path, begin_server, typing):
    if is_served:
        server = begin_server("--workers", "1")
        typing(server)
        door = holdfast.connect(server.url, token=server.token_file.read_text().strip())
    else:
        door = holdfast.open(tmp_path / "state", workers=1)
    with door as hf:
        job = hf.map(broken, range(3))
        wait_until(job.done, 60)
        found = hf.quarantine(job=job)
        assert [case.reason for case in found] == ["failed"] * 3
        (group,) = hf.quarantine_groups()
        assert (group.count, group.fingerprint) == (3, found[0].fingerprint)
        assert group.error.startswith("ValueError")
        assert hf.quarantine(fingerprint="fp:0123456789ab") == []
        assert hf.retry_quarantined(fingerprint=group.fingerprint, canary=True) == 1
        wait_until(lambda: len(hf.quarantine()) == 3, 60)
        assert hf.purge_quarantined(found[0].id, note="not needed") == 1
        with pytest.raises(Refused, match="for a reason"):
            hf.purge_quarantined(every=True, note=" ")
        with pytest.raises(Refused, match="stays so"):
            hf.force(found[0].id, to="WAITING", reason="no")
        assert hf.force(found[1].id, to="KILLED", reason="no")
        assert not hf.force(found[1].id, to="KILLED", reason="no")
        assert [case.id for case in hf.quarantine()] == [found[2].id]
