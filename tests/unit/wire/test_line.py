"""Lines to a server: kept between requests, given up when anything about them is unclear."""

import io
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from holdfast.wire.answers import Broken
from holdfast.wire.http import Http, Rejected, Server, Unreachable
from holdfast.wire.line import Lines, NotConnected
from holdfast.wire.target import target_of

PATIENCE_S = 30.0
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nfi\r\n2\r\nne\r\n0\r\n\r\n"
LAST = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\nfine"
UNTIL_THE_END = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nfine"
SIGN = b"HTTP/1.1 102 Processing\r\n\r\n"
NO = (
    b"HTTP/1.1 413 No\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b"content-length: 2\r\n\r\n{}"
)

Attend = Callable[[socket.socket], None]


class Site:
    """Somebody who does with each visitor what is written down for it."""

    def __init__(self, path: Path, *visits: Attend) -> None:
        self.visitors = 0
        self.left = threading.Event()
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(path))
        self._door.listen()
        self._visits = visits
        self._thread = threading.Thread(target=self._attend)
        self._thread.start()

    def _attend(self) -> None:
        for visit in self._visits:
            line, _ = self._door.accept()
            self.visitors += 1
            with closing(line):
                visit(line)
            self.left.set()

    def close(self) -> None:
        self._thread.join(PATIENCE_S)
        self._door.close()
        assert not self._thread.is_alive()


def answering(*answers: bytes) -> Attend:
    """Say these, one to a request, and hang up."""

    def attend(line: socket.socket) -> None:
        for answer in answers:
            heard(line)
            line.sendall(answer)

    return attend


def heard(line: socket.socket) -> bytes:
    held = b""
    while b"\r\n\r\n" not in held:
        held += line.recv(65_536)
    head, _, body = held.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += line.recv(65_536)
    return held


@contextmanager
def visiting(path: Path, *visits: Attend) -> Iterator[tuple[Lines, Site]]:
    target = target_of(Server(url=f"unix:{path}"))
    with closing(Site(path, *visits)) as site:
        lines = Lines(target, most=2, connect_s=PATIENCE_S, wait_s=PATIENCE_S)
        with closing(lines):
            yield lines, site


def ask(lines: Lines) -> bytes:
    head = target_of(Server(url="http://x")).head("POST", "/x", {}, 5)
    with lines.taken() as line:
        return line.ask(head, (b"he", b"llo"), PATIENCE_S).content


def test_a_line_serves_one_request_after_another(tmp_path):
    with visiting(tmp_path / "s", answering(OK, CHUNKED, SIGN + OK)) as (lines, site):
        assert [ask(lines) for _ in range(3)] == [b"fine"] * 3
        assert site.visitors == 1


@pytest.mark.parametrize("last", [LAST, UNTIL_THE_END, OK])
def test_a_line_that_ended_is_not_used_again(tmp_path, last):
    with visiting(tmp_path / "s", answering(last), answering(OK)) as (lines, site):
        assert ask(lines) == b"fine"
        site.left.wait(PATIENCE_S)
        assert ask(lines) == b"fine"
        assert site.visitors == 2


@pytest.mark.parametrize(
    "said",
    [b"", OK[:-1], b"SMTP\r\n", OK + b"more", OK + OK],
    ids=["nothing", "half", "another tongue", "more", "twice"],
)
def test_what_is_not_exactly_one_answer_is_none(tmp_path, said):
    with visiting(tmp_path / "s", answering(said)) as (lines, _), pytest.raises(Broken):
        ask(lines)


def test_nobody_there_is_not_connected_and_nothing_was_sent(tmp_path):
    target = target_of(Server(url=f"unix:{tmp_path / 's'}"))
    lines = Lines(target, most=1, connect_s=PATIENCE_S, wait_s=PATIENCE_S)
    with closing(lines), pytest.raises(NotConnected):
        ask(lines)


def test_no_more_lines_than_there_is_room_for(tmp_path):
    target = target_of(Server(url=f"unix:{tmp_path / 's'}"))
    lines = Lines(target, most=0, connect_s=PATIENCE_S, wait_s=0.0)
    with closing(lines), pytest.raises(NotConnected, match="too many"):
        ask(lines)


def test_a_stream_is_read_as_it_comes_and_ended_from_another_thread(tmp_path):
    ended = threading.Event()

    def attend(line: socket.socket) -> None:
        heard(line)
        line.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        # Nothing more: until the other side has had enough of it.
        assert line.recv(1) == b""
        ended.set()

    def read(http: Http) -> None:
        with http.stream("/x", idle_s=PATIENCE_S) as chunks:
            assert next(chunks) == b"one"
            threading.Thread(target=http.close).start()
            next(chunks)

    with (
        closing(Site(tmp_path / "s", attend)),
        closing(Http(Server(url=f"unix:{tmp_path / 's'}"))) as http,
        pytest.raises(Unreachable),
    ):
        read(http)
    assert ended.wait(PATIENCE_S)


def test_a_silent_stream_is_given_up(tmp_path):
    def attend(line: socket.socket) -> None:
        heard(line)
        # Whoever gives up so soon may not even wait for the head.
        with suppress(ConnectionError):
            line.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            assert line.recv(1) == b""

    with (
        closing(Site(tmp_path / "s", attend)),
        closing(Http(Server(url=f"unix:{tmp_path / 's'}"))) as http,
        pytest.raises(Unreachable),
        http.stream("/x", idle_s=0.01) as chunks,
    ):
        next(chunks)


def test_a_stream_that_is_refused_says_why(tmp_path):
    with (
        closing(Site(tmp_path / "s", answering(NO))),
        closing(Http(Server(url=f"unix:{tmp_path / 's'}"))) as http,
        pytest.raises(Rejected) as caught,
        http.stream("/x", idle_s=PATIENCE_S),
    ):
        pass
    assert caught.value.problem.status == 413


def test_an_upload_that_is_refused_before_its_end_is_told_why(tmp_path):
    size = 64 << 20

    def attend(line: socket.socket) -> None:
        line.recv(65_536)
        line.sendall(NO)

    with (
        closing(Site(tmp_path / "s", attend)),
        closing(Http(Server(url=f"unix:{tmp_path / 's'}"), patience_s=0.0)) as http,
        pytest.raises(Rejected) as caught,
    ):
        http.upload("/x", io.BytesIO(bytes(size)), size)
    assert caught.value.problem.status == 413


def test_only_the_head_answers_a_question_for_the_head(tmp_path):
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"
    with (
        closing(Site(tmp_path / "s", answering(head), answering(head))),
        closing(Http(Server(url=f"unix:{tmp_path / 's'}"))) as http,
    ):
        http.head("/x")
        http.head("/x")


def test_a_path_of_any_letters_and_a_query_are_sent_as_they_must_be(tmp_path):
    asked: list[bytes] = []

    def attend(line: socket.socket) -> None:
        asked.append(heard(line).partition(b"\r\n")[0])
        line.sendall(LAST.replace(b"fine", b"null"))

    with (
        closing(Site(tmp_path / "s", attend)),
        closing(Http(Server(url=f"unix:{tmp_path / 's'}"))) as http,
    ):
        http.get("/ü b", type(None), name="a&b ü", empty="", none=None, many=[1, 2], few=[])
    assert asked == [b"GET /%C3%BC%20b?name=a%26b+%C3%BC&many=1&many=2 HTTP/1.1"]


@pytest.mark.parametrize("url", ["127.0.0.1:7700", "ftp://x", "http://", "http://x:port"])
def test_what_is_no_address_is_said_so_at_once(url):
    with pytest.raises(Unreachable):
        Http(Server(url=url))


def test_a_client_that_was_closed_asks_nobody(tmp_path):
    http = Http(Server(url=f"unix:{tmp_path / 's'}"))
    http.close()
    with pytest.raises(RuntimeError, match="closed"):
        http.get("/x", dict)
