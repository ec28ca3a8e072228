"""Which server is asked, and with which token: the nearest place that names one wins."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from holdfast.cli.asking import LONG_PATIENCE_S, PATIENCE_S, Asker, find_server
from holdfast.cli.errors import USAGE, Trouble
from holdfast.cli.options import USUAL_SERVER
from holdfast.cli.reading import Look


@pytest.fixture
def written(home: Path) -> Path:
    """What `holdfast serve` leaves for its user: a token, and the address beside it."""
    folder = home / "config" / "holdfast"
    folder.mkdir(parents=True)
    (folder / "token").write_text("hf_usual_1\n")
    (folder / "token.server").write_text("http://10.0.0.5:7701\n")
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of this project are found."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def stranger() -> Iterator[str]:
    """Something on the network that greets everybody in its own language."""

    class Greeting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<h1>It works!</h1>")

        def log_message(self, *told: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Greeting) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_without_anything_the_usual_server_is_asked_without_a_token() -> None:
    asked = find_server(None, None)
    assert (asked.url.value, asked.token.value, asked.named) == (USUAL_SERVER, "", ())


def test_what_serve_wrote_down_is_found(written: Path) -> None:
    asked = find_server(None, None)
    assert (asked.url.value, asked.url.source) == (
        "http://10.0.0.5:7701",
        str(written / "token.server"),
    )
    assert (asked.token.value, asked.token.source) == ("hf_usual_1", str(written / "token"))


def test_a_flag_comes_before_the_environment_before_a_file_before_what_was_written(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = written / "config.toml"
    token = tmp_path / "token"
    token.write_text("hf_file_2\n")
    config.write_text(
        f'[client]\nserver = "https://file.example"\ntoken_file = "{token}"\nca_file = "ca.pem"\n'
    )
    asked = find_server(None, None)
    assert (asked.url.value, asked.token.value) == ("https://file.example", "hf_file_2")
    assert asked.ca_file == "ca.pem"
    monkeypatch.setenv("HOLDFAST_SERVER", "https://variable.example/")
    monkeypatch.setenv("HOLDFAST_TOKEN", "hf_variable_3")
    asked = find_server(None, None)
    assert (asked.url.value, asked.token.value) == ("https://variable.example", "hf_variable_3")
    flag = tmp_path / "flag token"
    flag.write_text("hf_flag_4\n")
    asked = find_server("flag.example:7700", flag)
    assert (asked.url.value, asked.token.value) == ("http://flag.example:7700", "hf_flag_4")
    assert asked.named == ("--server flag.example:7700", f"--token-file '{flag}'")


def test_a_named_token_file_brings_the_address_beside_it(written: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("hf_mine_1\n")
    assert find_server(None, mine).url.value == "http://10.0.0.5:7701"
    (tmp_path / "mine.server").write_text("unix:/run/mine.sock\n")
    asked = find_server(None, mine)
    assert (asked.url.value, asked.token.value) == ("unix:/run/mine.sock", "hf_mine_1")


@pytest.mark.parametrize(
    ("server", "is_shown"),
    [
        ("http://10.0.0.5:7701", True),
        ("http://127.0.0.1:9", True),
        ("http://localhost:9", True),
        ("unix:/run/holdfast.sock", True),
        ("http://10.0.0.6:7701", False),
        ("https://elsewhere.example", False),
        ("http://127.0.0.1.elsewhere.example", False),
        ("http://127.0.0.1@elsewhere.example", False),
    ],
)
def test_the_token_that_serve_wrote_is_shown_to_no_stranger(
    written: Path, server: str, is_shown: bool
) -> None:
    assert bool(find_server(server, None).token.value) is is_shown


@pytest.mark.parametrize("server", ["ftp://x", "http://", "http://x:port", "https://x:99999999"])
def test_what_is_no_server_is_refused(server: str) -> None:
    with pytest.raises(Trouble, match="is not a server") as trouble:
        find_server(server, None)
    assert trouble.value.code == USAGE


def test_a_token_file_without_a_token_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for file in (empty, tmp_path / "none"):
        with pytest.raises(Trouble, match="there is no token") as trouble:
            find_server(None, file)
        assert trouble.value.code == USAGE


@pytest.mark.parametrize("text", ["two words", "snöw", "a\nb"])
def test_what_cannot_be_a_token_is_not_sent(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "odd"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(Trouble, match="holds no token"):
        find_server(None, file)
    monkeypatch.setenv("HOLDFAST_TOKEN", text)
    with pytest.raises(Trouble, match="HOLDFAST_TOKEN holds no token"):
        find_server(None, None)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_leads_elsewhere_is_refused_before_anybody_is_asked(
    run, nobody_there: str, name: str
) -> None:
    for command in (("job", "show"), ("worker", "show"), ("queue", "pause"), ("token", "revoke")):
        assert run(*command, name).code == 4


def test_a_stranger_that_answers_is_known_for_one(
    run, monkeypatch: pytest.MonkeyPatch, stranger: str
) -> None:
    monkeypatch.setenv("HOLDFAST_SERVER", stranger)
    done = run("job", "list")
    assert (done.code, done.out) == (1, "")
    assert "not a Holdfast server" in done.err
    assert run("doctor").code == 1


def test_a_named_command_leads_to_the_same_server() -> None:
    asked = find_server("http://localhost:1", None)
    http = asked.http()
    assert Asker(asked, http).options == " --server http://localhost:1"
    http.close()


@pytest.mark.parametrize(
    "arguments",
    [
        ("job", "list"),
        ("job", "show", "last"),
        ("job", "wait", "1"),
        ("job", "cancel", "1"),
        ("job", "retry", "1"),
        ("ps",),
        ("task", "list"),
        ("task", "show", "1/0"),
        ("task", "cancel", "1/0"),
        ("task", "reschedule", "1/0", "--now"),
        ("transactions",),
        ("submit", "--", "true"),
        ("run", "--", "true"),
        ("worker", "list"),
        ("worker", "show", "w"),
        ("worker", "cordon", "w"),
        ("worker", "uncordon", "w"),
        ("worker", "drain", "w"),
        ("worker", "token"),
        ("token", "list"),
        ("token", "create", "t", "--scope", "read"),
        ("token", "revoke", "t"),
        ("queue", "list"),
        ("queue", "pause", "q"),
        ("queue", "resume", "q"),
    ],
)
def test_where_no_server_answers_the_code_says_try_again(
    run, nobody_there: str, arguments: tuple[str, ...]
) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (75, "")
    assert nobody_there in done.err
    assert "holdfast serve" in done.err


def test_a_doctor_without_a_server_says_so(run, nobody_there: str) -> None:
    done = run("doctor")
    # The port is held by whoever made sure that nobody is there.
    assert done.code == 1
    assert "BAD" in done.out
    assert nobody_there in done.out


def test_who_waits_anyway_bears_with_a_server_that_is_started_again() -> None:
    look = Look(server="http://127.0.0.1:1")
    with look.source() as hurried, look.source(is_patient=True) as patient:
        assert [source.asker.http._patience_s for source in (hurried, patient)] == [
            PATIENCE_S,
            LONG_PATIENCE_S,
        ]
