"""The HTTP sink against a real receiver: what is sent, what each answer means, where it may go."""

import json
import shutil
import ssl
import subprocess
from contextlib import closing, contextmanager

import pytest

from holdfast.testing.loopback import address_of as here
from holdfast.testing.posting import a_delivery, delivered_to
from holdfast.testing.receiver import OK, answering, receiving
from holdfast.wire.ports import held_port
from holdfast.wire.sinks import HttpSink
from holdfast.worker.sinks.addresses import address_of, is_allowed
from holdfast.worker.sinks.http import ANSWER_BYTES_MAX, HttpOutlet


@contextmanager
def posting(url="", **settings):
    outlet = HttpOutlet(HttpSink(url, **{"private": True, "timeout": 60, **settings}))
    try:
        yield outlet
    finally:
        outlet.close()


def one(receiver, *deliveries, **settings):
    with posting(receiver.url(), **settings) as outlet:
        return delivered_to(outlet, *(deliveries or [a_delivery(1)]))


def test_an_effect_is_posted_as_json_under_its_key():
    with receiving() as receiver:
        assert one(receiver, a_delivery(1, {"a": ["ü"]}, tries=4)) == [None]
    (request,) = receiver.requests
    assert request.line == "POST /in HTTP/1.1"
    assert json.loads(request.body) == {"a": ["ü"]}
    assert request.headers["idempotency-key"] == "log:7/1:9:0"
    assert request.headers["holdfast-attempt"] == "5"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"


def test_one_connection_serves_many_and_is_opened_again_when_it_was_closed():
    closing = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"
    with receiving(OK, OK, closing, OK) as receiver:
        assert one(receiver, *[a_delivery(n) for n in range(4)]) == [None] * 4
        assert receiver.connections == 2


def test_a_connection_that_was_cut_in_silence_is_not_held_against_the_effect():
    def hang_up(link):
        link.close()

    with receiving(OK, hang_up, OK) as receiver, posting(receiver.url()) as outlet:
        assert delivered_to(outlet, a_delivery(1)) == [None]
        # The receiver takes this one and hangs up without a word; it is asked once more.
        assert delivered_to(outlet, a_delivery(2)) == [None]
        assert [r.headers["idempotency-key"] for r in receiver.requests] == [
            "log:7/1:9:0", "log:7/2:9:0", "log:7/2:9:0",
        ]  # fmt: skip


STATUSES = [
    (200, "delivered"), (201, "delivered"), (202, "delivered"), (204, "delivered"),
    (301, "final"), (302, "final"), (304, "final"), (307, "final"),
    (400, "final"), (401, "final"), (404, "final"), (409, "final"), (410, "final"),
    (422, "final"), (408, "again"), (425, "again"), (429, "again"),
    (500, "again"), (502, "again"), (503, "again"), (599, "again"), (600, "again"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "meant"), STATUSES)
def test_every_status_has_its_meaning(status, meant):
    with receiving(answering(status, b"because \x00 of that")) as receiver:
        (bounced,) = one(receiver)
    if meant == "delivered":
        assert bounced is None
        return
    assert bounced.is_final == (meant == "final")
    assert f"answered {status}" in bounced.error
    assert not bounced.is_untried


def test_a_conflict_counts_only_where_the_sink_says_so():
    with receiving(answering(409)) as receiver:
        assert one(receiver, conflict_is_delivered=True) == [None]


def test_a_redirect_is_named_and_not_followed():
    with receiving(answering(302, location="http://169.254.169.254/secret")) as receiver:
        (bounced,) = one(receiver)
        assert "a redirect to http://169.254.169.254/secret, which is not followed" in bounced.error
        assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("told", "wait_ms"),
    [("7", 7_000), ("999999999", 3_600_000), ("soon", 0), ("", 0),
     ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("Wed, 21 Oct 2099 07:28:00 GMT", 3_600_000)],
)  # fmt: skip
def test_the_receiver_may_ask_to_be_left_alone(told, wait_ms):
    with receiving(answering(429, retry_after=told)) as receiver:
        (bounced,) = one(receiver)
    assert bounced.wait_ms == wait_ms


def chatter(link):
    """Bytes without end."""
    while True:
        link.sendall(b"x" * 10_000)


def endless_body(link):
    link.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    chatter(link)


def endless_head(link):
    link.sendall(b"HTTP/1.1 200 OK\r\nx: ")
    chatter(link)


def silence(link):
    link.recv(1)


def half_a_head(link):
    link.sendall(b"HTTP/1.1 200")
    link.recv(1)


def drip(link):
    link.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    link.recv(1)


NONSENSE = [
    (b"what do you want?\r\n\r\n", "does not speak HTTP"),
    (b"\x16\x03\x01\x00\xff" * 20, "does not speak HTTP"),
    (b"HTTP/1.1 twohundred OK\r\n\r\n", "does not speak HTTP"),
    (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", ""),
    (lambda link: None, "hung up without an answer"),
    (lambda link: link.sendall(b"HTTP/1.1 2"), "hung up without an answer"),
    (endless_head, "no end of headers"),
    (silence, "did not answer in time"),
    (half_a_head, "did not answer in time"),
]


@pytest.mark.parametrize(("answer", "told"), NONSENSE)
def test_nonsense_is_a_failure_that_is_tried_again(answer, told):
    with receiving(answer) as receiver:
        (bounced,) = one(receiver, timeout=0.1 if answer in (silence, half_a_head) else 60)
    assert told in bounced.error
    assert not bounced.is_final


@pytest.mark.parametrize("answer", [endless_body, drip])
def test_an_answer_counts_though_its_body_never_ends(answer):
    # On a slow machine not even the head comes in so short a time: it has more then.
    for timeout in (0.2, 2, 20):
        with receiving(answer, OK) as receiver:
            told = one(receiver, a_delivery(1), a_delivery(2), timeout=timeout)
        if not any(bounced and "did not answer in time" in bounced.error for bounced in told):
            break
    assert told == [None, None]
    assert receiver.connections == 2


def test_a_long_answer_is_read_as_far_as_it_helps():
    with receiving(answering(500, b"y" * (ANSWER_BYTES_MAX * 3)), OK) as receiver:
        first, second = one(receiver, a_delivery(1), a_delivery(2))
    assert first.error.endswith("y" * 50)
    assert len(first.error) < 400
    assert second is None


def test_nobody_there_is_told_and_after_three_failures_the_rest_is_spared():
    with closing(held_port()) as held, posting(f"http://{here(held)}/") as outlet:
        told = delivered_to(outlet, *[a_delivery(n) for n in range(5)])
    assert "refused" in told[0].error
    assert [bounced.is_untried for bounced in told] == [False] * 3 + [True] * 2


def test_a_failed_effect_holds_up_its_own_key_alone():
    with receiving(answering(400), OK) as receiver:
        told = one(receiver, a_delivery(1, key="a"), a_delivery(2, key="b"), a_delivery(3, key="a"))
    assert told[0].is_final
    assert told[1] is None
    assert told[2].is_untried


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_private_address_is_refused_unless_it_was_listed(host):
    with receiving() as receiver:
        with posting(receiver.url(host=host), private=False) as outlet:
            (bounced,) = delivered_to(outlet, a_delivery(1))
        assert bounced.is_final
        assert "not a public address" in bounced.error
        assert receiver.connections == 0
        for listed in (("127.0.0.0/8",), (host,)):
            with posting(receiver.url(host=host), private=listed) as outlet:
                assert delivered_to(outlet, a_delivery(1)) == [None]
        with posting(receiver.url(host=host), private=("10.0.0.0/8",)) as outlet:
            assert delivered_to(outlet, a_delivery(1))[0].is_final


def test_a_host_that_is_not_there_may_be_there_later():
    with posting("https://nowhere.invalid/") as outlet:
        (bounced,) = delivered_to(outlet, a_delivery(1))
    assert "cannot be found" in bounced.error
    assert not bounced.is_final


def test_an_effect_may_say_where_it_goes_within_what_is_allowed():
    with receiving() as receiver:
        to = receiver.url("/hooks/7?x=1")
        with posting(allow=(receiver.url("/hooks/"),)) as outlet:
            told = delivered_to(
                outlet,
                a_delivery(1, {"to": to, "body": [1]}),
                a_delivery(2, {"to": receiver.url("/other"), "body": 1}),
                a_delivery(3, {"to": "file:///etc/passwd", "body": 1}),
                a_delivery(4, {"to": to}),
                a_delivery(5, "just so"),
            )
    assert told[0] is None
    assert all(bounced.is_final for bounced in told[1:])
    assert [(r.line, r.body) for r in receiver.requests] == [("POST /hooks/7?x=1 HTTP/1.1", b"[1]")]


ALLOWED = [
    ("https://a.b/x", ("a.b",), True),
    ("http://a.b/x", ("a.b",), False),
    ("https://a.b:444/x", ("a.b",), False),
    ("https://a.b:444/x", ("a.b:444",), True),
    ("https://A.B/x", ("a.b",), True),
    ("https://evil.a.b/", ("a.b",), False),
    ("https://a.b.evil/", ("a.b",), False),
    ("https://a.b/hooks/1", ("https://a.b/hooks/",), True),
    ("https://a.b/hooks", ("https://a.b/hooks",), True),
    ("https://a.b/hooks/1", ("https://a.b/hooks",), True),
    ("https://a.b/hooksandmore", ("https://a.b/hooks",), False),
    ("https://a.b/hooks/../admin", ("https://a.b/hooks/",), False),
    ("https://a.b/hooks/%2e%2E/admin", ("https://a.b/hooks/",), False),
    ("https://a.b/hooks/..%2fadmin", ("https://a.b/hooks/",), False),
    ("https://a.b/hooks/..\\admin", ("https://a.b/hooks/",), False),
    ("http://a.b/hooks/", ("https://a.b/hooks/",), False),
    ("https://[::1]:8/x", ("https://[::1]:8/",), True),
]


@pytest.mark.parametrize(("url", "allow", "may"), ALLOWED)
def test_what_is_allowed(url, allow, may):
    assert is_allowed(address_of(url), allow) is may


def test_secrets_come_by_reference_and_stay_out_of_what_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("LEDGER_KEY", "hush-hush")
    file = tmp_path / "key"
    file.write_text("other-secret\n")
    headers = {"Authorization": "Bearer env:LEDGER_KEY", "X-Key": f"file:{file}", "X-Plain": "p"}
    with receiving(answering(500, b"who is hush-hush or other-secret?")) as receiver:
        (bounced,) = one(receiver, headers=headers)
    sent = receiver.requests[0].headers
    assert sent["authorization"] == "Bearer hush-hush"
    assert sent["x-key"] == "other-secret"
    assert sent["x-plain"] == "p"
    assert bounced.error.endswith("who is *** or ***?")


@pytest.mark.parametrize(
    ("value", "told"),
    [("env:NOBODY_SET_THIS", "has no NOBODY_SET_THIS"), ("file:/nowhere/at/all", "cannot be read")],
)
def test_a_secret_that_is_not_there_is_waited_for(value, told):
    with receiving() as receiver:
        (bounced,) = one(receiver, headers={"X-Key": value})
        assert told in bounced.error
        assert not bounced.is_final
        assert not receiver.requests


def test_a_secret_of_two_lines_cannot_smuggle_a_header(monkeypatch):
    monkeypatch.setenv("LEDGER_KEY", "a\r\nX-Evil: 1")
    with receiving() as receiver:
        (bounced,) = one(receiver, headers={"X-Key": "env:LEDGER_KEY"})
        assert "not one line" in bounced.error
        assert not receiver.requests


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_tls_is_verified_by_name(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-days", "2", "-subj", "/CN=x", "-addext", "subjectAltName=DNS:localhost",
            "-keyout", str(key), "-out", str(cert),
        ],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(cert, key)
    with receiving(trust=trust) as receiver:
        with posting(receiver.url(host="localhost"), ca_file=str(cert)) as outlet:
            assert delivered_to(outlet, a_delivery(1), a_delivery(2)) == [None, None]
        for url, ca_file in [
            (receiver.url(host="127.0.0.1"), str(cert)), (receiver.url(host="localhost"), ""),
        ]:  # fmt: skip
            with posting(url, ca_file=ca_file) as outlet:
                (bounced,) = delivered_to(outlet, a_delivery(3))
            assert "certificate verify failed" in bounced.error
        assert len(receiver.requests) == 2
