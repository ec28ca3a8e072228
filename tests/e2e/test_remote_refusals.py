"""What a server says no to, as a program meets it; and who may not use a connection."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.client.handles import read
from holdfast.errors import Closed, NotAllowed, Refused, TaskFailed, Unreachable
from holdfast.testing import chores
from holdfast.testing.loopback import ServerProcess, WorkerThread
from holdfast.wire.bodies import NewToken
from holdfast.wire.http import Http, Server

PATIENCE_S = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("served")) as started:
        yield started


@pytest.fixture
def hf(server: ServerProcess) -> Iterator[holdfast.Holdfast]:
    with holdfast.connect(server.url, token_file=server.token_file) as connected:
        yield connected


def a_token(server: ServerProcess, *scopes: str) -> str:
    http = Http(Server(url=server.url, token=server.token))
    try:
        body = NewToken(name="some", scopes=list(scopes))
        return str(http.post("/api/v1/tokens", body, dict, key=os.urandom(8).hex())["token"])
    finally:
        http.close()


def test_a_token_that_opens_nothing_is_refused_and_the_settings_are_named(
    server: ServerProcess,
) -> None:
    with holdfast.connect(server.url, token="hf_no_token") as hf:
        with pytest.raises(NotAllowed, match="HOLDFAST_TOKEN_FILE") as caught:
            hf.submit(chores.square, 1)
        assert caught.value.code == "unauthenticated"
        with pytest.raises(NotAllowed):
            hf.job("1")


def test_a_token_that_may_only_submit_submits_and_is_told_that_it_may_not_wait(
    server: ServerProcess,
) -> None:
    with holdfast.connect(server.url, token=a_token(server, "submit")) as hf:
        handle = hf.submit(chores.square, 1)
        assert handle.id.isdigit()
        with pytest.raises(NotAllowed, match="'read'") as caught:
            handle.result(PATIENCE_S)
        assert caught.value.code == "forbidden"
        with pytest.raises(NotAllowed):
            handle.cancel()


def test_a_token_that_may_only_read_looks_and_does_not_touch(
    server: ServerProcess, hf: holdfast.Holdfast
) -> None:
    handle = hf.submit(chores.square, 1, delay="1h")
    with holdfast.connect(server.url, token=a_token(server, "read")) as reader:
        assert reader.job(handle.id).state == "PENDING"
        with pytest.raises(NotAllowed, match="'submit'"):
            reader.submit(chores.square, 1)
        with pytest.raises(NotAllowed, match="'cancel'"):
            reader.job(handle.id).cancel()
    assert handle.cancel("over")
    assert (handle.state, handle.reason, handle.done()) == ("KILLED", "cancelled", True)
    assert not handle.cancel()
    error = handle.exception()
    assert isinstance(error, TaskFailed)
    assert error.state == "KILLED"


def test_what_is_not_there_is_told_as_a_folder_would(hf: holdfast.Holdfast) -> None:
    for name in ("99999", "../tokens", "a b/ü?x=1"):
        with pytest.raises(Refused, match="there is no job") as caught:
            hf.job(name)
        assert caught.value.code == "not_found"
    with pytest.raises(Refused) as caught:
        hf.job("")
    assert caught.value.code == "not_found"
    with pytest.raises(Refused) as caught:
        hf.cancel("99999/0")
    assert caught.value.code == "not_found"


def test_what_makes_no_sense_is_refused_with_its_code(hf: holdfast.Holdfast) -> None:
    with pytest.raises(Refused) as caught:
        hf.array(chores.double, 0)
    assert caught.value.code == "invalid"
    handle = hf.submit(chores.square, 1, delay="1h")
    hf.reschedule(f"{handle.id}/0", delay="2h")
    assert handle.cancel()
    with pytest.raises(Refused) as caught:
        hf.reschedule(f"{handle.id}/0")
    assert caught.value.code == "invalid_transition"


def test_a_server_that_never_was_there_is_given_up() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with (
            holdfast.connect(url, token="x", patience="50ms") as hf,
            pytest.raises(Unreachable, match="HOLDFAST_SERVER"),
        ):
            hf.submit(chores.square, 1)


def test_a_server_may_listen_at_a_socket_of_this_machine(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path, listen=f"unix:{tmp_path}/socket") as near,
        WorkerThread(near),
        holdfast.connect(near.url, token_file=near.token_file) as hf,
    ):
        assert near.url.startswith("unix:")
        assert hf.submit(chores.square, 4).result(PATIENCE_S) == 16


def test_a_closed_connection_says_so_to_all(server: ServerProcess, hf: holdfast.Holdfast) -> None:
    with holdfast.connect(server.url, token_file=server.token_file) as other:
        handle = other.submit(chores.square, 1, delay="1h")
        told: list[Exception] = []

        def wait() -> None:
            try:
                handle.result(PATIENCE_S)
            except Closed as error:
                told.append(error)

        waiter = threading.Thread(target=wait)
        waiter.start()
    waiter.join(PATIENCE_S)
    assert len(told) == 1
    for ask in (lambda: other.submit(chores.square, 1), handle.wait, lambda: other.job("1")):
        with pytest.raises(Closed, match="connect again"):
            ask()
    assert hf.job(handle.id).cancel()


def test_a_forked_copy_may_not_use_the_connection(hf: holdfast.Holdfast) -> None:
    handle = hf.submit(chores.square, 1, delay="1h")
    child = os.fork()  # noqa: TID251 - a user may do what we do not
    if child == 0:
        refused = 0
        for ask in (lambda: hf.submit(chores.square, 1), handle.result, hf.refusals):
            try:
                ask()
            except Closed as error:
                refused += "Call holdfast.connect() in this process" in str(error)
        hf.close()
        os.kill(os.getpid(), signal.SIGKILL if refused == 3 else signal.SIGABRT)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert handle.cancel()


def test_an_event_loop_is_not_held_up_while_results_are_fetched(
    server: ServerProcess, hf: holdfast.Holdfast
) -> None:
    class Far:
        """Outcomes that tell which thread fetched them."""

        fetched_by: int | None = None

        def holds(self, index: int, position: int) -> bool:
            return self.fetched_by is not None

        def fetch(self, index: int, position: int) -> None:
            self.fetched_by = threading.get_ident()

        def value(self, index: int, state: int, position: int) -> int | None:
            return self.fetched_by

        def expect(self, indices: object, start: int, stop: int) -> None: ...

    assert asyncio.run(read(Far(), 0, 4, 9)) != threading.get_ident()

    async def main() -> list[int]:
        job = await hf.map_async(chores.square, range(100))
        return sorted([value async for value in job.as_completed()])

    with WorkerThread(server):
        assert asyncio.run(main()) == [n * n for n in range(100)]
