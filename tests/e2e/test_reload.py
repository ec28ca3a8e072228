"""SIGHUP: a server that serves takes up its settings again, all of them or none."""

import signal
from collections.abc import Callable
from contextlib import closing
from hashlib import blake2b
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.fleet import wait_until

pytestmark = pytest.mark.slow

PATIENCE_S = 60
LAST_WORDS = ("holdfast: settings stay", "holdfast: needs a restart")


class Reloaded:
    """A server whose settings file is written by the test."""

    def __init__(self, served: Any) -> None:
        self.served = served
        self.file: Path = served.token_file.with_name("config.toml")

    def reload(self, text: str, until: tuple[str, ...] = LAST_WORDS) -> list[str]:
        """Write the file, have it read, and all that was said about it."""
        self.file.write_text(text)
        return self.again(until)

    def again(self, until: tuple[str, ...]) -> list[str]:
        self.served.process.send_signal(signal.SIGHUP)
        said = []
        for line in self.served.process.stderr:
            said.append(line.rstrip())
            if line.startswith(until):
                return said
        raise AssertionError(said)

    def ask(
        self, method: str, path: str, body: bytes | None = None, token: str | None = None
    ) -> int:
        wire = HTTPConnection(self.served.url.removeprefix("http://"), timeout=PATIENCE_S)
        token = token or self.served.token_file.read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        try:
            wire.request(method, f"/api/v1{path}", body, headers)
            return wire.getresponse().status
        finally:
            wire.close()

    def submit(self) -> int:
        return self.ask("POST", "/jobs", b'{"command": {"argv": ["true"]}}')

    def bring(self, size: int) -> int:
        bundle = bytes(size)
        digest = blake2b(bundle, digest_size=32).hexdigest()
        return self.ask("PUT", f"/bundles/{digest}", bundle)


@pytest.fixture
def house(begin_server: Callable[..., Any]) -> Reloaded:
    return Reloaded(begin_server())


def test_limits_quotas_and_the_log_level_change_while_serving(house: Reloaded) -> None:
    """`listen` was named on the command line, so what a file says of it changes nothing."""
    assert (house.submit(), house.bring(2_000)) == (201, 201)
    said = house.reload(
        """
        [server]
        jobs = 2
        followers = 0
        bundle_size = "1Ki"
        keep_finished = 7
        lease_term = "20s"
        listen = "127.0.0.1:1"
        workers = 1
        [log]
        level = "debug"
        """
    )
    later = "server.workers = 1, server.lease_term = 20s"
    assert said == [
        "holdfast: settings were read again",
        "holdfast: server.keep_finished is 7 now, was 10000",
        "holdfast: server.jobs is 2 now, was 5000000",
        "holdfast: server.followers is 0 now, was 100",
        "holdfast: server.bundle_size is 1Ki now, was 64Mi",
        "holdfast: log.level is debug now, was info",
        f"holdfast: needs a restart to be taken up: {later}",
    ]
    # The second job is the last, and what was there before stays.
    assert (house.submit(), house.submit()) == (201, 503)
    assert (house.bring(2_001), house.bring(500)) == (413, 201)
    assert house.ask("GET", "/events?since=0") == 503
    said = house.reload("", until=("holdfast: log.level",))
    assert "holdfast: server.jobs is 5000000 now, was 2" in said
    assert not any("restart" in line for line in said)
    assert (house.submit(), house.bring(2_001)) == (201, 201)


def test_a_rate_is_taken_up_by_tokens_that_asked_before(house: Reloaded) -> None:
    assert house.submit() == 201
    house.reload("[server]\nrate = 1\n", until=("holdfast: server.rate is 1.0 now",))
    assert 429 in [house.submit() for _ in range(10)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[server", "cannot be read"),
        ("[server]\njobs = 1\nspeed = 9\n", "unknown setting 'server.speed'"),
        ('[server]\njobs = 1\nhistory = "much"\n', "is not a size"),
        ("[server]\njobs = 1\nkeep_finished = -1\n", "must be at least 0"),
        ('[server]\njobs = 1\n[log]\nlevel = "loud"\n', "log.level"),
        ('[server]\njobs = 1\ntls_cert = "/nowhere"\n', "go together"),
    ],
)
def test_a_bad_file_is_told_and_everything_stays(
    begin_server: Callable[..., Any], text: str, told: str
) -> None:
    house = Reloaded(begin_server())
    (said,) = house.reload(text)
    assert said.startswith("holdfast: settings stay as they were: ")
    assert told in said
    assert (house.submit(), house.submit()) == (201, 201)


def test_another_token_file_is_taken_up_and_the_address_is_written_beside_it(
    house: Reloaded, tmp_path: Path
) -> None:
    other = tmp_path / "other-token"
    said = house.reload(
        f'[server]\ntoken_file = "{other}"\n', until=("holdfast: a new token was written",)
    )
    assert f"holdfast: a new token was written to {other}" in said
    assert other.stat().st_mode & 0o777 == 0o600
    assert other.with_name("other-token.server").read_text().strip() == house.served.url
    assert house.ask("GET", "/version", token=other.read_text().strip()) == 200
    other.write_text("no token at all\n")
    (said,) = house.again(LAST_WORDS)
    assert f"settings stay as they were: {other} holds no token" in said


def test_an_option_of_the_command_outlives_what_files_say(
    begin_server: Callable[..., Any],
) -> None:
    house = Reloaded(begin_server("--bundle-size", "1Ki"))
    text = '[server]\nbundle_size = "64Mi"\nkeep_finished = 3\n'
    said = house.reload(text, until=("holdfast: server.keep_finished",))
    assert not any("bundle_size" in line for line in said)
    assert house.bring(2_000) == 413


def workers_of(house: Reloaded) -> list[str]:
    with closing(house.served.http()) as http:
        return [each["name"] for each in http.get("/api/v1/workers", dict)["workers"]]


def test_sinks_come_change_and_go_and_so_does_who_delivers(
    house: Reloaded, tmp_path: Path
) -> None:
    sink = f'[sinks.ledger]\nkind = "file"\npath = "{tmp_path / "ledger"}"\n'
    said = house.reload(sink, until=("holdfast: delivery: effects are delivered from here",))
    path = str(tmp_path / "ledger")
    assert f"holdfast: sink ledger is new: FileSink(path={path!r}, where='server')" in said
    assert workers_of(house) == ["delivery"]
    changed = "holdfast: sink ledger is changed"
    said = house.reload(sink + "tries = 3\n", until=(changed,))
    assert said[-1].endswith(f"FileSink(path={path!r}, where='server', tries=3)")
    house.reload(sink + "pth = 3\n", until=("holdfast: settings stay as they were",))
    house.reload("", until=("holdfast: sink ledger is gone: what is owed there waits",))
    wait_until(lambda: not workers_of(house), PATIENCE_S, what="the delivery process has left")
