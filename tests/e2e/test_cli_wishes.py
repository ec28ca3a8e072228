"""The command line about where work may run and after what, against a real server and a worker."""

import json

import pytest

from holdfast.core.ids import WorkerId
from holdfast.wire.exchange import Capacity, Exchange, Reply


def submitted(call, *arguments: object) -> str:
    done = call("submit", *arguments)
    assert done.code == 0, done.err
    return done.out.strip()


def shown(call, *arguments: object) -> dict:
    done = call(*arguments, "-o", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.fixture(scope="module")
def offering(served) -> str:
    """A worker that was heard of once: two slots and a licence."""
    message = Exchange(
        worker=WorkerId("offering"), incarnation=7, number=1, seen=0, started=(), done=(),
        capacity=Capacity(2, 2_000, 2**30, 0, (("licence", 1_000),)),
        failed=(), released=(), held=(), occupied=0, draining=False,
    )  # fmt: skip
    http = served.http()
    try:
        # Nobody knows it, so it is answered at once and asked who it is.
        http.post("/api/v1/exchange", message, Reply)
    finally:
        http.close()
    return "offering"


def test_wishes_reach_the_job_and_are_shown_in_words(call) -> None:
    first = submitted(call, "--delay", "1h", "--", "true")
    job_id = submitted(
        call, "--array", 2, "--require", "zone == eu", "--prefer", "50 disk == ssd",
        "--concurrency", "customer-42=1", "--spread", "pack", "--gang", "--gang-by", "rack",
        "--preempt", "--after", f"{first}:finish", "--on-failed-parent", "wait", "--", "true",
    )  # fmt: skip
    job = shown(call, "job", "show", job_id)
    assert job["after"] == [{"job": first, "task": None, "condition": "finish"}]
    assert (job["blocked"], job["on_failed_parent"], job["user"]) == (True, "wait", "first")
    text = call("job", "show", job_id).out
    for line in ("zone == eu", "50 disk == ssd", f"{first}:finish (not yet)", "yes, by rack"):
        assert line in text
    child = submitted(call, "--parent", "last", "--", "true")
    assert shown(call, "job", "show", child)["parent"] == job_id
    assert call("job", "cancel", job_id).code == 0
    assert shown(call, "job", "show", child)["state"] == "KILLED"
    assert call("job", "cancel", first).code == 0


def test_a_server_and_its_folder_show_the_same_wishes(call, served) -> None:
    first = submitted(call, "--delay", "1h", "--", "true")
    job_id = submitted(call, "--require", "zone == eu", "--after", first, "--", "true")
    there = shown(call, "job", "show", job_id)
    here = shown(call, "job", "show", job_id, "--data", served.data)
    for name in ("after", "blocked", "on_failed_parent", "parent", "detached", "user", "spec"):
        assert here[name] == there[name]
    assert call("job", "cancel", job_id, first, "--yes").code == 0


def test_a_job_is_kept_replaced_or_refused_by_its_key(call) -> None:
    first = submitted(call, "--key", "nightly", "--delay", "1h", "--", "true")
    assert submitted(call, "--key", "nightly", "--delay", "1h", "--", "true") == first
    refused = call("submit", "--key", "nightly", "--existing", "refuse", "--", "true")
    assert refused.code == 5
    assert f"job {first}" in refused.err
    options = ("--key", "nightly", "--existing", "replace", "--unique-for", "1d")
    second = submitted(call, *options, "--delay", "1h", "--", "false")
    former = shown(call, "job", "show", first)
    assert (former["state"], former["reason"]) == ("KILLED", "replaced")
    assert call("job", "cancel", second).code == 0


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (("--after", "999999"), 4, "`holdfast job list` lists what there is"),
        (("--after", "nobody"), 4, "there is no job nobody"),
        (("--parent", "999999"), 4, "there is no job 999999"),
        (("--detached",), 2, "parent"),
        (("--existing", "replace"), 2, "key"),
        (("--must-fit", "--cpus", "4096"), 1, "no worker"),
        (("--array", "2", "--max-parallel", "1", "--gang"), 2, "max_parallel"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_recorded(call, options, code, told) -> None:
    before = call("job", "list", "-o", "name", "--limit", 0).out
    done = call("submit", *options, "--", "true")
    assert (done.code, done.out) == (code, "")
    assert told in done.err
    assert call("job", "list", "-o", "name", "--limit", 0).out == before


def test_a_resource_that_nobody_offers_is_refused_with_what_is_offered(call, offering) -> None:
    done = call("submit", "--resource", "licences=1", "--", "true")
    assert (done.code, done.out) == (2, "")
    assert "they offer licence" in done.err
    assert "holdfast worker start --resource licences=N" in done.err
    job_id = submitted(call, "--resource", "licence=1", "--", "true")
    assert "1 licence" in call("job", "show", job_id).out
    assert "1 licence" in call("worker", "show", offering).out
    assert "1 licence" in call("worker", "list", "-o", "wide").out
    assert call("job", "cancel", job_id).code == 0


def test_limits_are_set_listed_shown_and_cleared(call) -> None:
    done = call("limit", "set", "key/customer-42", "--running", 2, "--rate", "10/1m")
    assert done.code == 0, done.err
    assert "holdfast limit clear key/customer-42" in done.err
    assert call("limit", "set", "namespace/team", "--weight", 3).code == 0
    found = shown(call, "limit", "list")["limits"]
    assert [each["id"] for each in found] == ["key/customer-42", "namespace/team"]
    one = shown(call, "limit", "show", "key/customer-42")
    assert (one["running"], one["rate"], one["in_use"]) == (2, "10/1m", 0)
    assert "10/1m" in call("limit", "list").out
    # What is not named stays; none takes a bound away.
    amounts = ("--cpus", 4, "--memory", "8Gi", "--resource", "licence=1")
    assert call("limit", "set", "namespace/team", *amounts).code == 0
    assert call("limit", "set", "namespace/team", "--memory", "none", "--running", 9).code == 0
    team = shown(call, "limit", "show", "namespace/team")
    assert (team["weight"], team["running"], team["cpus"]) == (3, 9, 4.0)
    assert team["memory_bytes"] is None
    assert "0 of 4 cpus, 0 of 1 licence" in call("limit", "list").out
    assert call("limit", "clear", "key/customer-42", "namespace/team").code == 0
    assert "no limit was set" in call("limit", "clear", "key/customer-42").err
    missing = call("limit", "show", "key/customer-42")
    assert missing.code == 4
    assert "holdfast limit list" in missing.err
    assert "sets one" in call("limit", "list").err


def test_circuits_are_opened_listed_and_closed(call) -> None:
    done = call("circuit", "open", "shop.mail:send", "--reason", "it burns")
    assert done.code == 0, done.err
    assert "holdfast circuit close function/shop.mail:send" in done.err
    assert "was open already" in call("circuit", "open", "function/shop.mail:send").err
    assert call("circuit", "open", "function/team/a:b").code == 0
    found = shown(call, "circuit", "list")["circuits"]
    assert [each["name"] for each in found] == ["shop.mail:send", "team/a:b"]
    assert "it burns" in call("circuit", "list").out
    assert "is closed" in call("circuit", "close", "function/team/a:b").err
    assert call("circuit", "close", "shop.mail:send").code == 0
    assert "was closed already" in call("circuit", "close", "shop.mail:send").err
    assert "every circuit" in call("circuit", "list").err


def test_a_failed_job_is_sent_back_under_other_terms(call, hand) -> None:
    job_id = submitted(call, "--", "false")
    hand.fail(*hand.take())
    done = call("job", "retry", job_id, "--set", "retries=2", "--set", "memory=64Mi")
    assert done.code == 0, done.err
    spec = shown(call, "job", "show", job_id)["spec"]
    assert (spec["retries"], spec["memory_bytes"]) == (2, 64 * 2**20)
    assert "nothing of" in call("job", "retry", job_id, "--set", "retries=3").err
    assert shown(call, "job", "show", job_id)["spec"]["retries"] == 2
    hand.succeed(*hand.take())
    assert shown(call, "job", "show", job_id)["state"] == "SUCCEEDED"


def test_what_no_worker_takes_in_time_is_told_why_and_comes_back_with_less(call, hand) -> None:
    # Where no worker is known, that is the reason which is told.
    submitted(call, "--", "true")
    hand.succeed(*hand.take())
    done = call("submit", "--cpus", 640, "--schedule-timeout", "50ms", "--wait", "--", "true")
    assert done.code == 1, done.err
    job_id = done.out.split()[0]
    told = call("job", "explain", job_id).out
    assert "It ended UNSCHEDULABLE; " in told
    assert "no worker took it before its scheduling deadline: It fits on no worker" in told
    assert "it needs 640 cpus" in told
    assert f"holdfast job retry {job_id}" in told
    assert call("job", "retry", job_id, "--set", "cpus=1").code == 0
    hand.succeed(*hand.take())
    assert call("job", "wait", job_id).code == 0


def test_a_job_says_how_often_and_how_long(call) -> None:
    options = (
        "--job-timeout", "1h", "--max-failed-tasks", 2, "--backoff", "fixed",
        "--retry-delay", "5s", "--queue", "elsewhere",
    )  # fmt: skip
    job_id = submitted(call, *options, "--", "true")
    spec = shown(call, "job", "show", job_id)["spec"]
    assert (spec["job_timeout_ms"], spec["max_failed_tasks"]) == (3_600_000, 2)
    assert (spec["retry"]["backoff"], spec["retry"]["delay_ms"]) == ("fixed", 5_000)
    assert call("job", "cancel", job_id).code == 0
