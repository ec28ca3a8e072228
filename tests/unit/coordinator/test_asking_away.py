"""Asking a real server from a thread of its own; the answer comes on the thread that posts."""

import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from holdfast.coordinator import asking_away
from holdfast.coordinator.asking_away import AT_ONCE, CONTENT_BYTES_MAX, Asker

PATIENCE_S = 30.0
SOON_MS, LONG_MS = 50, 30_000
PAGES: dict[str, tuple[int, bytes]] = {
    "/api?query=a+b": (200, b'{"status":"success"}'),
    "/bad": (400, b'{"status":"error","error":"parse error"}'),
    "/gone": (404, b"<html>"),
    "/broken": (503, b"{}"),
    "/endless": (200, b"x" * (CONTENT_BYTES_MAX + 1)),
}


@contextmanager
def serving(silent: threading.Event) -> Iterator[str]:
    """Pages, and one that says nothing until it is told to."""

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/silent":
                silent.wait(PATIENCE_S)
                return
            status, content = PAGES[self.path]
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Tests print nothing."""

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:
                """Whoever asked has heard enough."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        silent.set()
        server.shutdown()
        server.server_close()
        thread.join()


class Desk:
    """Does what is posted on the thread of the test."""

    def __init__(self) -> None:
        self.posted: queue.Queue[Callable[[], None]] = queue.Queue()
        self.asker = Asker(self.posted.put)
        self.heard: list[tuple[bytes | None, str]] = []

    def ask(self, url: str, timeout_ms: int = LONG_MS) -> None:
        self.asker.ask(url, timeout_ms, lambda *told: self.heard.append(told))

    def hear(self) -> tuple[bytes | None, str]:
        self.posted.get(timeout=PATIENCE_S)()
        return self.heard[-1]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/api?query=a+b", (b'{"status":"success"}', "")),
        # Prometheus says what is wrong with a question in the answer.
        ("/bad", (b'{"status":"error","error":"parse error"}', "")),
        ("/gone", (None, "it answered 404")),
        ("/broken", (None, "it answered 503")),
        ("/endless", (None, f"the answer is longer than {CONTENT_BYTES_MAX} bytes")),
    ],
)
def test_a_page_is_told_on_the_thread_that_was_asked(
    path: str, told: tuple[bytes | None, str]
) -> None:
    desk = Desk()
    with serving(threading.Event()) as url:
        desk.ask(url + path)
        assert desk.hear() == told


def test_who_does_not_answer_is_given_up_and_who_is_not_there_is_told_of() -> None:
    desk = Desk()
    with serving(threading.Event()) as url:
        desk.ask(f"{url}/silent", SOON_MS)
        content, why = desk.hear()
        assert content is None
        assert "timed out" in why
    desk.ask(f"{url}/api")
    content, why = desk.hear()
    assert content is None
    assert "refused" in why
    desk.ask("http:///nowhere")
    assert desk.hear() == (None, "http:///nowhere names no host")


def test_only_so_many_are_asked_at_once_and_the_others_have_their_turn() -> None:
    desk, silent = Desk(), threading.Event()
    with serving(silent) as url:
        for _ in range(AT_ONCE):
            desk.ask(f"{url}/silent")
        desk.ask(f"{url}/bad")
        assert desk.posted.empty()
        silent.set()
        heard = [desk.hear() for _ in range(AT_ONCE + 1)]
        assert [why for content, why in heard if content is not None] == [""]


def test_a_line_that_is_too_long_is_told_and_grows_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking_away, "IN_LINE", 0)
    desk = Desk()
    desk.ask("http://127.0.0.1:1/")
    assert desk.hear() == (None, "0 questions are open already")


def test_who_drips_is_given_up() -> None:
    desk, heard = Desk(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                while not heard.wait(SOON_MS / 5_000):
                    connection.sendall(b"H")

        thread = threading.Thread(target=drip)
        thread.start()
        desk.ask(f"http://127.0.0.1:{server.getsockname()[1]}/", SOON_MS)
        assert desk.hear()[0] is None
        heard.set()
        thread.join()


class AtOnce:
    """A timer whose time is up before anything else is done."""

    def __init__(self, _seconds: float, work: Callable[[], None]) -> None:
        self.start = work
        self.daemon = False

    def cancel(self) -> None:
        """There is nothing to cancel."""


def test_who_is_reached_when_the_time_is_up_is_asked_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking_away, "Timer", AtOnce)
    desk = Desk()
    with socket.create_server(("127.0.0.1", 0)) as server:
        desk.ask(f"http://127.0.0.1:{server.getsockname()[1]}/", LONG_MS)
        connection, _ = server.accept()
        with connection:
            # One that drips would be listened to for as long as it does.
            assert connection.recv(1) == b""
    assert desk.hear() == (None, "timed out")


def test_an_answer_after_the_loop_was_left_is_nobodys() -> None:
    left = threading.Event()

    def closed(work: Callable[[], None]) -> None:
        left.set()
        raise RuntimeError("Event loop is closed")

    with serving(threading.Event()) as url:
        Asker(closed).ask(f"{url}/bad", LONG_MS, lambda *_: pytest.fail("nobody asked"))
        assert left.wait(PATIENCE_S)
