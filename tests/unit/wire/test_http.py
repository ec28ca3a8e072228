"""Asking over a real socket as a client does: what is asked again, and when."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from holdfast.wire import http as http_module
from holdfast.wire.bodies import Problem, Reason
from holdfast.wire.http import Http, Rejected, Server, Unreachable

PATIENCE_S = 30.0
TOO_OFTEN = Problem(type="", title="No", status=429, detail="slowly", code="rate_limited")


def answer(status: int, body: object, *headers: str) -> bytes:
    content = msgspec.json.encode(body)
    head = [
        f"HTTP/1.1 {status} So", "content-type: application/json", "connection: close",
        f"content-length: {len(content)}", *headers,
    ]  # fmt: skip
    return "\r\n".join([*head, "", ""]).encode() + content


@contextmanager
def answering(path: Path, *answers: bytes) -> Iterator[list[bytes]]:
    """Somebody who says these one after the other; what was asked is kept."""
    asked: list[bytes] = []
    with closing(socket.socket(socket.AF_UNIX)) as door:
        door.bind(str(path))
        door.listen()

        def attend() -> None:
            for said in answers:
                line, _ = door.accept()
                with closing(line):
                    asked.append(_request(line))
                    line.sendall(said)

        thread = threading.Thread(target=attend)
        thread.start()
        yield asked
        thread.join(PATIENCE_S)


def _request(line: socket.socket) -> bytes:
    held = b""
    while b"\r\n\r\n" not in held:
        held += line.recv(65_536)
    head, _, body = held.partition(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    while len(body) < int(length or b"0"):
        body += line.recv(65_536)
    return head + b"\r\n\r\n" + body


class Waited:
    """How long the client wanted to wait; nobody has to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, http: Http) -> None:
        self.seconds: list[float] = []
        monkeypatch.setattr(http._closed, "wait", self._wait)

    def _wait(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        return False


@pytest.mark.parametrize("key", ["", "k1"])
def test_who_asked_too_often_comes_again_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    later = answer(429, TOO_OFTEN, "retry-after: 7")
    with (
        answering(tmp_path / "s", later, later, answer(200, {"ok": 1})) as asked,
        closing(Http(Server(url=f"unix:{tmp_path / 's'}"))) as http,
    ):
        waited = Waited(monkeypatch, http)
        # Nothing was done, so what is otherwise not repeated is repeated too.
        assert http.post("/x", Reason(reason="r"), dict, key=key) == {"ok": 1}
    assert [int(seconds) for seconds in waited.seconds] == [7, 7]
    assert len(asked) == 3
    assert len(set(asked)) == 1


@pytest.mark.parametrize("headers", [(), ("retry-after: Fri, 31 Dec 1999 23:59:59 GMT",)])
def test_who_is_not_told_when_waits_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headers: tuple[str, ...]
) -> None:
    later = answer(429, TOO_OFTEN, *headers)
    with (
        answering(tmp_path / "s", later, answer(200, {})),
        closing(Http(Server(url=f"unix:{tmp_path / 's'}"))) as http,
    ):
        waited = Waited(monkeypatch, http)
        assert http.get("/x", dict) == {}
    assert [int(seconds) for seconds in waited.seconds] == [int(http_module.LONGEST_PAUSE_S)]


def test_who_has_no_time_to_wait_is_told_why(tmp_path: Path) -> None:
    later = answer(429, TOO_OFTEN, "retry-after: 60")
    with (
        answering(tmp_path / "s", later) as asked,
        closing(Http(Server(url=f"unix:{tmp_path / 's'}"), patience_s=1.0)) as http,
        pytest.raises(Rejected, match="slowly") as caught,
    ):
        http.get("/x", dict)
    assert (caught.value.problem.code, len(asked)) == ("rate_limited", 1)


def test_a_server_that_is_away_is_asked_again_only_what_may_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = answer(503, {"so": "what"})
    with (
        answering(tmp_path / "s", away, answer(200, {"ok": 1}), away),
        closing(Http(Server(url=f"unix:{tmp_path / 's'}"))) as http,
    ):
        Waited(monkeypatch, http)
        assert http.post("/x", None, dict, key="k") == {"ok": 1}
        with pytest.raises(Rejected):
            http.post("/x", None, dict)


def test_nobody_there_is_unreachable_once_patience_ends() -> None:
    with closing(socket.socket()) as door:
        # Taken, so that nobody else can listen there meanwhile.
        door.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{door.getsockname()[1]}"
        with closing(Http(Server(url=url), patience_s=0.0)) as http, pytest.raises(Unreachable):
            http.post("/x", None, dict)


def test_an_answer_that_takes_its_time_is_waited_for_as_long_as_was_said(tmp_path: Path) -> None:
    path = tmp_path / "door"
    with closing(socket.socket(socket.AF_UNIX)) as door:
        door.bind(str(path))
        door.listen()
        # Nobody ever answers here: sixty seconds is what is waited for unless somebody says so.
        http = Http(Server(url=f"unix:{path}"), patience_s=0)
        with closing(http), pytest.raises(Unreachable, match="timed out"):
            http.post("/x", Reason(reason=""), dict, answer_s=0.01)
