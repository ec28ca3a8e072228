"""Where a runtime runs: all of `dev` on one worker, `edge` over several."""

from collections import Counter
from typing import Any

import pytest

from holdfast.cli.runtime_texts import next_step
from holdfast.coordinator.reconciling.sites import Site, Sites
from holdfast.core import commands as c
from holdfast.core.ids import WorkerId
from holdfast.runtimes.documents import resource_document
from holdfast.testing.hosted import Host, Hosted, function, manifest


def told(workers: int = 2, slots: int = 8) -> Hosted:
    hosted = Hosted(workers, slots=slots)
    hosted.settle()
    return hosted


def greeter(**spec: Any) -> dict[str, Any]:
    odgm = {"command": ["serve"]}
    return manifest("greeter", function("hello", replicas=3), function("bye"), odgm=odgm, **spec)


def homes(hosted: Hosted) -> dict[str, int]:
    """How many replicas run on which worker."""
    return dict(Counter(hosted.host_of(lease).post.name for lease in hosted.running()))


def message(hosted: Hosted, place: int = 0) -> str:
    resource = hosted.read()
    assert resource is not None
    return resource.status.functions[place].message


def test_all_of_a_dev_runtime_goes_to_one_worker_and_stays_there() -> None:
    hosted = told()
    hosted.apply(greeter())
    hosted.settle()
    (home,) = homes(hosted)
    assert homes(hosted) == {home: 5}
    # Also what is started later, restarted, or replaced.
    hosted.apply(manifest("greeter", function("hello", replicas=5, env={"NEW": "1"})))
    hosted.pass_time(8_000)
    assert homes(hosted) == {home: 5}
    victim = hosted.running()[0]
    hosted.host_of(victim).end(victim)
    hosted.pass_time(3_000)
    assert homes(hosted) == {home: 5}
    assert hosted.phase() == "available"


def test_the_other_worker_stays_empty_when_there_is_no_room_and_the_way_out_is_told() -> None:
    hosted = told(slots=2)
    hosted.apply(manifest("greeter", function("hello", replicas=3)))
    hosted.pass_time(2_000)
    (home,) = homes(hosted)
    assert homes(hosted) == {home: 2}
    assert hosted.phase() == "progressing"
    assert f"worker {home} has no room for it, its 2 slots are taken" in message(hosted)
    assert "with more --slots, or declare template edge" in message(hosted)
    resource = hosted.read()
    assert resource is not None
    shown = resource_document(resource, lambda at: "2026-01-01T00:00:00Z")
    assert next_step(shown, "").startswith("declare `template: edge`")
    hosted.apply(manifest("greeter", function("hello", replicas=3), template="edge"))
    hosted.pass_time(5_000)
    assert hosted.phase() == "available"
    assert sorted(homes(hosted).values()) == [1, 2]


def test_the_worker_with_room_for_most_is_chosen() -> None:
    hosted = told(workers=1, slots=2)
    hosted.hosts.append(Host(hosted.service, "wide", 6))
    hosted.settle()
    hosted.apply(greeter())
    hosted.settle()
    assert homes(hosted) == {"wide": 5}


def test_when_its_worker_is_gone_all_of_it_goes_to_another() -> None:
    hosted = told()
    hosted.apply(greeter())
    hosted.settle()
    lost = hosted.host_of(hosted.running()[0])
    hosted.hosts.remove(lost)
    hosted.pass_time(40_000, step_ms=2_000)
    assert hosted.phase() == "available"
    (left,) = hosted.hosts
    assert homes(hosted) == {left.post.name: 5}
    # One that comes back finds nothing to do.
    hosted.hosts.append(Host(hosted.service, lost.post.name))
    hosted.pass_time(4_000)
    assert homes(hosted) == {left.post.name: 5}
    hosted.service.check()


def test_a_worker_that_takes_no_new_work_is_left_when_nothing_runs_there() -> None:
    hosted = told()
    hosted.apply(manifest("greeter", function("hello")))
    hosted.settle()
    (home,) = homes(hosted)
    hosted.service.do(c.CordonWorker(worker=WorkerId(home), reason="repair"))
    hosted.apply(manifest("greeter", function("hello", replicas=2)))
    hosted.pass_time(2_000)
    assert homes(hosted) == {home: 1}
    assert f"worker {home} takes no new work" in message(hosted)
    hosted.host_of(hosted.running()[0]).end(hosted.running()[0])
    hosted.pass_time(5_000)
    assert hosted.phase() == "available"
    assert home not in homes(hosted)


def test_without_a_worker_it_says_so_and_comes_up_when_one_is_there() -> None:
    hosted = told(workers=0)
    hosted.apply(manifest())
    hosted.pass_time(2_000)
    assert "no worker is there: start one with `holdfast worker start`" in message(hosted)
    hosted.hosts.append(Host(hosted.service, "late"))
    hosted.pass_time(3_000)
    assert hosted.phase() == "available"
    assert homes(hosted) == {"late": 2}


def test_what_no_single_worker_can_be_is_told() -> None:
    hosted = told()
    apart = [
        function(zone, placement={"constraints": [f"zone == {zone}"]}) for zone in ("eu", "us")
    ]
    hosted.apply(manifest("greeter", *apart))
    hosted.pass_time(2_000)
    assert "no worker meets what all parts of it ask for together" in message(hosted)
    assert not hosted.jobs()


def test_an_edge_runtime_is_spread_over_workers() -> None:
    hosted = told(workers=3)
    hosted.apply(manifest("greeter", function("hello", replicas=6), template="edge"))
    hosted.settle()
    assert homes(hosted) == {"w0": 2, "w1": 2, "w2": 2}


def bound(key: str, worker: str, **more: Any) -> dict[str, Any]:
    return function(key, placement={"constraints": [f"holdfast.worker == {worker}"]}, **more)


def test_where_it_kept_failing_it_is_not_begun_while_another_worker_is_only_busy() -> None:
    hosted = told(workers=1)
    hosted.hosts.append(Host(hosted.service, "small", 1))
    hosted.settle()
    hosted.apply(manifest("other", bound("all", "small"), template="edge"))
    hosted.settle()
    hosted.apply(manifest("greeter", function("hello", "crash"), template="edge"))
    hosted.pass_time(60_000, step_ms=1_000)
    assert "it kept failing on w0 and is not begun there for a while" in message(hosted)
    assert "it waits for room on another" in message(hosted)
    here, there = (sum(host.begun.values()) for host in hosted.hosts)
    hosted.pass_time(60_000, step_ms=2_000)
    assert [sum(host.begun.values()) for host in hosted.hosts] == [here, there]
    # As soon as the other one has room it goes there.
    hosted.delete("other")
    hosted.pass_time(5_000)
    assert sum(hosted.hosts[0].begun.values()) == here
    assert sum(hosted.hosts[1].begun.values()) > there


def test_where_it_kept_failing_it_is_begun_again_if_nobody_else_could_take_it() -> None:
    hosted = told(workers=1)
    hosted.apply(manifest("greeter", function("hello", "crash")))
    hosted.pass_time(30_000, step_ms=1_000)
    assert "it kept failing on w0, and no other worker could take it" in message(hosted)
    begun = sum(hosted.hosts[0].begun.values())
    hosted.pass_time(60_000, step_ms=1_000)
    assert sum(hosted.hosts[0].begun.values()) > begun


def test_a_look_at_all_parts_of_a_runtime_looks_for_its_worker_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hosted = told(slots=40)
    hosted.apply(manifest("greeter", *(function(f"f{number}") for number in range(30))))
    hosted.settle()
    searches = []
    search = Sites.of

    def counted(sites: Sites, *of: Any) -> Site:
        searches.append(of)
        return search(sites, *of)

    monkeypatch.setattr(Sites, "of", counted)
    hosted.clock.advance(1)
    hosted.reconciling.enqueue("greeter")
    hosted.service.settle()
    assert len(searches) == 1


def test_runtimes_that_come_at_once_do_not_all_choose_the_same_room() -> None:
    hosted = told(workers=4, slots=4)
    for number in range(16):
        hosted.apply(manifest(f"r{number}", function("a")))
    hosted.pass_time(2_000, step_ms=1_000)
    assert homes(hosted) == {"w0": 4, "w1": 4, "w2": 4, "w3": 4}
    for number in range(16):
        hosted.delete(f"r{number}")
    hosted.pass_time(10_000, step_ms=1_000)
    assert homes(hosted) == {}
    # What was expected of those that went is expected no more.
    hosted.apply(manifest("greeter", function("hello", replicas=4)))
    hosted.pass_time(2_000, step_ms=1_000)
    assert set(homes(hosted).values()) == {4}


def test_one_that_waits_where_there_is_no_room_goes_to_a_worker_that_came_later() -> None:
    hosted = told(workers=1, slots=2)
    for number in range(4):
        hosted.apply(manifest(f"r{number}", function("a")))
    hosted.pass_time(2_000, step_ms=1_000)
    assert homes(hosted) == {"w0": 2}
    hosted.hosts.append(Host(hosted.service, "w1", 2))
    hosted.pass_time(4_000, step_ms=1_000)
    assert homes(hosted) == {"w0": 2, "w1": 2}
    assert hosted.reconciling.tally.phases() == {"available": 4}
