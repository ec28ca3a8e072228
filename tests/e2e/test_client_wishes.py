"""Where work may run and after what, asked for in Python: the same in a folder and at a server."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import task
from holdfast.errors import Refused, TaskFailed
from holdfast.testing import chores
from holdfast.testing.loopback import ServerProcess, WorkerProcess, WorkerThread

PATIENCE_S = 60
ATTRIBUTES = {"zone": "a", "cores": "8"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with a worker of two slots and one licence."""
    with ServerProcess(tmp_path_factory.mktemp("served")) as started:
        attributes = tuple(sorted(ATTRIBUTES.items()))
        with WorkerThread(
            started, slots=2, resources=(("licence", 1_000),), attributes=attributes
        ):
            yield started


@pytest.fixture(params=["folder", "server"])
def hf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    if request.param == "folder":
        with holdfast.open(
            tmp_path / "state", workers=2, resources={"licence": 1}, attributes=ATTRIBUTES
        ) as opened:
            yield opened
        return
    server = request.getfixturevalue("server")
    with holdfast.connect(server.url, token_file=server.token_file) as connected:
        # Whatever it takes until the worker is known: a wish is then judged by what it offers.
        assert connected.submit(chores.square, 2).result(PATIENCE_S) == 4
        yield connected


def test_wishes_that_can_be_fulfilled_are(hf: holdfast.Holdfast) -> None:
    wished = task(require=["zone == a", "cores >= 8"], prefer="disk == ssd", spread="pack")
    handle = hf.submit(
        wished(chores.square), 3, resources={"licence": 1}, concurrency={"k": 1}, preempt=True
    )
    assert handle.result(PATIENCE_S) == 9
    assert list(hf.map(chores.square, [1, 2], resources={"licence": 0.5}).results()) == [1, 4]
    assert list(hf.array(chores.square, 3, require="zone in a,b").results()) == [0, 1, 4]


def test_a_gang_of_a_map_or_an_array_runs_whole(hf: holdfast.Holdfast) -> None:
    assert list(hf.map(chores.square, iter([1, 2]), gang=True).results()) == [1, 4]
    assert list(hf.array(chores.square, 2, gang=True, gang_by="zone").results()) == [0, 1]


def test_jobs_come_after_others(hf: holdfast.Holdfast) -> None:
    first = hf.map(chores.fail_when_odd, [0, 1])
    fine = hf.submit(chores.square, 2, after=[f"{first.id}/0", ("finish", first)])
    rescue = hf.submit(chores.square, 3, after=("failure", first))
    doomed = hf.submit(chores.square, 4, after=first)
    assert (fine.result(PATIENCE_S), rescue.result(PATIENCE_S)) == (4, 9)
    with pytest.raises(TaskFailed):
        doomed.result(PATIENCE_S)
    assert doomed.wait(PATIENCE_S)
    assert (doomed.state, doomed.reason) == ("FAILED", "dependency_failed")
    stays = hf.submit(chores.square, 5, after=first, on_failed_parent="wait")
    assert stays.state == "PENDING"
    assert stays.cancel()


def test_a_child_ends_with_its_parent_unless_it_is_detached(hf: holdfast.Holdfast) -> None:
    parent = hf.submit(chores.square, 1, delay="1h")
    child = hf.submit(chores.square, 2, delay="1h", parent=parent)
    free = hf.submit(chores.square, 3, parent=parent.id, detached=True)
    assert parent.cancel()
    assert child.wait(PATIENCE_S)
    assert child.state == "KILLED"
    assert free.result(PATIENCE_S) == 9
    with pytest.raises(Refused) as late:
        hf.submit(chores.square, 4, parent=parent)
    assert late.value.code == "conflict"


def test_a_key_is_kept_replaced_or_refused(hf: holdfast.Holdfast) -> None:
    first = hf.submit(chores.square, 1, key="nightly", delay="1h")
    with pytest.raises(Refused) as no:
        hf.submit(chores.square, 1, key="nightly", existing="refuse", unique_for="1h")
    assert no.value.code == "conflict"
    second = hf.submit(chores.square, 2, key="nightly", existing="replace")
    assert second.result(PATIENCE_S) == 4
    assert first.wait(PATIENCE_S)
    assert (first.state, first.reason) == ("KILLED", "replaced")


def test_a_job_comes_back_under_other_terms(hf: holdfast.Holdfast, tmp_path: Path) -> None:
    trace = str(tmp_path / "trace")
    once = task(retries=0)(chores.fail_before.__holdfast_function__)
    handle = hf.submit(once, trace, 2)
    assert handle.exception(PATIENCE_S) is not None
    assert hf.retry(handle, retries=3, timeout="1m", require=["zone == a"]) == 1
    assert handle.result(PATIENCE_S) == 3


def test_limits_are_set_listed_and_cleared(hf: holdfast.Holdfast) -> None:
    hf.set_limit("key/customer-42", running=1, rate="100/1s")
    hf.set_limit("namespace/default", weight=2)
    found = {f"{limit.scope}/{limit.name}": limit for limit in hf.limits()}
    assert (found["key/customer-42"].running, found["key/customer-42"].rate) == (1, "100/1s")
    assert found["namespace/default"].weight == 2
    # What is not named stays; None takes a bound away.
    hf.set_limit("namespace/default", cpus=1.5, memory="64Gi", resources={"licence": 1})
    hf.set_limit("namespace/default", memory=None)
    (_, team) = hf.limits()
    assert (team.weight, team.cpus, team.memory_bytes) == (2, 1.5, None)
    assert team.resources == {"licence": 1.0}
    with pytest.raises(ValueError, match="would let nothing run"):
        hf.set_limit("namespace/default", running=0)
    job = hf.map(chores.square, range(4), concurrency="customer-42")
    assert list(job.results()) == [0, 1, 4, 9]
    assert hf.clear_limit("key/customer-42")
    assert not hf.clear_limit("key/customer-42")
    assert hf.clear_limit("namespace/default")
    with pytest.raises(ValueError, match="rate="):
        hf.set_limit("key/k", rate="often")
    with pytest.raises(Refused, match="unknown scope"):
        hf.set_limit("queue/k", running=1)


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"resources": {"licence": 2}, "must_fit": True}, "unschedulable"),
        ({"require": ["zone == b"], "must_fit": True}, "unschedulable"),
        ({"after": ["999999"]}, "not_found"),
        ({"parent": "999999"}, "not_found"),
    ],
)
def test_what_cannot_be_is_refused(
    hf: holdfast.Holdfast, wish: dict[str, object], code: str
) -> None:
    with pytest.raises(Refused) as no:
        hf.submit(task(schedule_timeout="1h")(chores.square), 1, **wish)
    assert no.value.code == code


def test_a_resource_that_is_not_there_is_refused(hf: holdfast.Holdfast) -> None:
    with pytest.raises(Refused, match="licences"):
        hf.submit(chores.square, 1, resources={"licences": 1})


def test_a_task_knows_the_job_it_belongs_to(hf: holdfast.Holdfast) -> None:
    first, second = hf.submit(chores.whose), hf.submit(chores.whose)
    assert first.result(PATIENCE_S) == first.id
    assert second.result(PATIENCE_S) == second.id


@pytest.mark.slow
def test_a_task_in_a_process_of_its_own_knows_it_too(tmp_path: Path) -> None:
    with holdfast.open(tmp_path, executor="processes", workers=1) as hf:
        first, second = hf.submit(chores.whose), hf.submit(chores.whose)
        assert first.result(PATIENCE_S) == first.id
        assert second.result(PATIENCE_S) == second.id


@pytest.mark.slow
def test_a_worker_of_its_own_gives_its_resources_out_no_further_than_they_go(
    tmp_path: Path,
) -> None:
    with (
        ServerProcess(tmp_path / "served") as server,
        WorkerProcess(
            server, tmp_path / "scratch", "--slots", "2", "--resource", "licence=1",
            "--attr", "zone=a",
        ),
        holdfast.connect(server.url, token_file=server.token_file) as hf,
    ):  # fmt: skip
        wished = task(resources={"licence": 1}, require=["zone == a"])
        here = str(tmp_path / "crowd")
        job = hf.map(wished(chores.crowd_pair), [(n, here) for n in range(6)])
        assert list(job.results()) == list(range(6))
        assert chores.most_at_once(Path(here)) == 1


def test_a_task_says_in_which_queue_and_namespace_it_waits(hf: holdfast.Holdfast) -> None:
    """Two namespaces with a limit of one each: one of them does not hold the other up."""
    for name in ("red", "blue"):
        hf.set_limit(f"namespace/{name}", running=1)
    red = hf.map(task(namespace="red", queue="quick")(chores.square), range(4))
    blue = hf.map(task(namespace="blue")(chores.square), range(4))
    assert sorted(red.results()) == sorted(blue.results()) == [0, 1, 4, 9]
    # The server is that of other tests too, which list what is set.
    for name in ("red", "blue"):
        assert hf.clear_limit(f"namespace/{name}")
    with pytest.raises(ValueError, match="namespace cannot be empty"):
        task(namespace="")


def test_why_it_does_not_run_is_told_to_programs_as_well(hf: holdfast.Holdfast) -> None:
    before = Counter(hf.waiting())
    first = hf.submit(chores.square, 3, delay="1h")
    second = hf.submit(chores.square, 4, after=first, resources={"licence": 1})
    assert [why.code for why in first.explain().reasons] == ["not_begun"]
    told = hf.explain(second)
    assert (told.id, told.state, told.ahead) == (second.id, "PENDING", 0)
    (why,) = told.reasons
    assert (why.code, why.tasks, why.jobs) == ("dependency", 1, (first.id,))
    assert str(told) == f"{second.id} is PENDING\n- It comes after the success of {first.id}."
    assert hf.explain(f"{second.id}/0").state == "WAITING"
    assert Counter(hf.waiting()) - before == {"not_begun": 1, "dependency": 1}
    large = task(cpus=640, schedule_timeout="1ms")(chores.square)
    lost = hf.submit(large, 1)
    assert lost.exception(PATIENCE_S) is not None
    (ended,) = lost.explain().reasons
    assert ended.example == f"{lost.id}/0"
    assert "it needs 640 cpus" in ended.sentence
    assert hf.retry(lost, cpus=1) == 1
    assert lost.result(PATIENCE_S) == 1
    for wrong, code in (("999", "not_found"), (f"{first.id}/7", "not_found"), ("1/x", "invalid")):
        with pytest.raises(Refused) as caught:
            hf.explain(wrong)
        assert caught.value.code == code
    assert first.cancel()
    assert Counter(hf.waiting()) == before


def test_a_mistake_says_what_to_write_instead(hf: holdfast.Holdfast) -> None:
    wrong = {
        "cpus=…": {"cpus": 2},
        "must be a datetime": {"not_before": "tomorrow"},
        "must be text such as 'customer-42'": {"concurrency": [42]},
        "must be a dict": {"resources": "licence"},
        "say gang as well": {"gang_by": "rack"},
    }
    for told, words in wrong.items():
        with pytest.raises((TypeError, ValueError), match=told):
            hf.submit(chores.square, 2, **words)
    with pytest.raises(TypeError, match="cpus='two' must be a number"):
        task(cpus="two")  # type: ignore[call-overload]
