"""Processes that were told to end and have their grace: a runtime is gone when they are."""

from holdfast.testing.hosted import Host, Hosted, function, manifest


def in_grace(hosted: Hosted) -> Host:
    """A runtime is deleted, and its process takes its time to end: the host that has it."""
    hosted.apply(manifest("greeter", function("hello")))
    hosted.settle()
    host = hosted.host_of(hosted.running()[0])
    host.lingers = True
    hosted.delete()
    hosted.pass_time(3_000)
    return host


def test_a_process_in_its_grace_holds_the_deletion_back(hosted: Hosted) -> None:
    host = in_grace(hosted)
    assert hosted.phase() == "deleting"
    host.lingers = False
    hosted.pass_time(3_000)
    assert hosted.read() is None


def test_a_restart_waits_for_a_process_in_its_grace_all_the_same(hosted: Hosted) -> None:
    host = in_grace(hosted)
    hosted.service.crash()
    # Longer than the workers have to say what they know.
    hosted.pass_time(40_000, step_ms=1_000)
    assert hosted.phase() == "deleting"
    host.lingers = False
    hosted.pass_time(40_000, step_ms=1_000)
    assert hosted.read() is None


def test_a_restart_in_the_middle_of_a_deletion_hears_every_worker_first(hosted: Hosted) -> None:
    host = in_grace(hosted)
    hosted.service.crash()
    # Nobody has said anything yet.
    hosts, hosted.hosts[:] = list(hosted.hosts), []
    hosted.pass_time(3_000)
    assert hosted.phase() == "deleting"
    hosted.hosts[:] = hosts
    hosted.pass_time(3_000)
    assert hosted.phase() == "deleting"
    host.lingers = False
    hosted.pass_time(40_000, step_ms=1_000)
    assert hosted.read() is None
