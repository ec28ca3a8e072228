"""Definitions of sinks: what they are when little is said, and what is said of a mistake."""

import msgspec
import pytest

from holdfast.wire.delivery import SERVER, WORKERS
from holdfast.wire.sinks import (
    KINDS,
    FileSink,
    FunctionSink,
    HttpSink,
    PostgresSink,
    check_name,
    decode_sink,
    encode_sink,
    sink_of,
)  # fmt: skip

SINKS = [
    FileSink("/data/ledger.jsonl", tries=3),
    HttpSink("https://hooks.example.com/in", headers={"Authorization": "Bearer env:TOKEN"}),
    HttpSink(allow=("hooks.example.com", "http://10.0.0.1:80/a/"), private=("10.0.0.0/8", "here")),
    FunctionSink("mail.sending:send", circuit="", timeout=2.5),
    PostgresSink("env:LEDGER", statement="insert into t values (%(body)s)"),
    PostgresSink("host=db", function="ledger:book", keys_table="books.keys"),
]


@pytest.mark.parametrize("sink", SINKS, ids=lambda sink: type(sink).__name__)
def test_a_definition_travels_and_is_written_in_settings(sink):
    assert decode_sink(encode_sink(sink)) == sink
    assert sink_of("x", msgspec.to_builtins(sink)) == sink


def test_every_kind_has_a_sample_and_a_name():
    assert {type(sink) for sink in SINKS} == set(KINDS.values())
    assert all(kind.__struct_config__.tag == name for name, kind in KINDS.items())


def test_where_suits_the_kind_unless_it_is_said():
    assert [sink.where for sink in SINKS] == [SERVER, SERVER, SERVER, WORKERS, SERVER, WORKERS]
    assert FunctionSink("a:b", where=SERVER).where == SERVER
    assert HttpSink("https://a.b", where=WORKERS).where == WORKERS


def test_amounts_are_read_once_written():
    sink = FileSink("/f", first_wait="2s", longest_wait="1h", circuit="7/2m", timeout=0.5)
    amounts = (
        sink.first_wait_ms, sink.longest_wait_ms, sink.circuit_failures, sink.circuit_cooldown_ms,
        sink.timeout_ms,
    )  # fmt: skip
    assert amounts == (2_000, 3_600_000, 7, 120_000, 500)
    usual = FileSink("/f")
    assert (usual.tries, usual.first_wait_ms, usual.longest_wait_ms) == (20, 1_000, 300_000)
    assert (usual.circuit_failures, usual.circuit_cooldown_ms) == (5, 30_000)
    assert FileSink("/f", circuit="").circuit_failures == 0


FILE = {"kind": "file", "path": "/f"}
HTTP = {"kind": "http", "url": "https://a.b/"}
POSTGRES = {"kind": "postgres", "dsn": "host=h", "statement": "select 1"}
MISTAKES = [
    (5, "must be a table"),
    ({}, "kind must be one of file, http, function, postgres"),
    ({"kind": "smtp"}, "kind='smtp' must be one of"),
    ({"kind": ["file"]}, "must be one of"),
    ({"kind": "file"}, "`path`"),
    ({**FILE, "pth": "x"}, "unknown key 'pth'; a file sink has path, where"),
    ({**FILE, "path": 7}, "path"),
    ({**FILE, "path": ""}, "must name a file"),
    ({**FILE, "where": "workers"}, "on each of them"),
    ({**FILE, "where": "moon"}, "'server' or 'workers'"),
    ({**FILE, "tries": 0}, "tries=0"),
    ({**FILE, "timeout": "soon"}, "timeout='soon' is not a duration"),
    ({**FILE, "timeout": 0}, "timeout=0"),
    ({**FILE, "first_wait": "1h"}, "is longer than longest_wait"),
    ({**FILE, "circuit": "often"}, "5/30s"),
    ({**FILE, "circuit": "0/30s"}, "5/30s"),
    ({"kind": "http"}, "one of them is needed"),
    ({**HTTP, "allow": ["a.b"]}, "one of them is needed"),
    ({**HTTP, "url": "ftp://a.b"}, "must begin with https"),
    ({**HTTP, "url": "https://"}, "must begin with https"),
    ({**HTTP, "url": "https://u:secret@a.b/"}, "use headers"),
    ({**HTTP, "url": "https://a.b:99999/"}, "is not an address"),
    ({**HTTP, "url": "https://a.b/\r\nX: y"}, "no address has"),
    ({"kind": "http", "allow": ["a b"]}, "no address has"),
    ({**HTTP, "private": ["10.0.0.0/99"]}, "neither a network nor a host"),
    ({**HTTP, "headers": {"Host": "x"}}, "'Host'"),
    ({**HTTP, "headers": {"A b": "x"}}, "'A b'"),
    ({**HTTP, "headers": {"A": "x\r\ny"}}, "value of A"),
    ({"kind": "function", "target": "send"}, "module:function"),
    ({**POSTGRES, "dsn": ""}, "dsn"),
    ({**POSTGRES, "function": "a:b"}, "one of statement and function"),
    ({**POSTGRES, "statement": " "}, "one of statement and function"),
    ({**POSTGRES, "keys_table": "a; drop table b"}, "keys_table"),
]


@pytest.mark.parametrize(("told", "said"), MISTAKES)
def test_a_mistake_names_the_sink_and_the_key(told, said):
    with pytest.raises(ValueError, match=r"^sinks\.ledger") as raised:
        sink_of("ledger", told)
    assert said in str(raised.value)


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "a.b", "x" * 65])
def test_a_name_is_plain(name):
    with pytest.raises(ValueError, match="cannot be called"):
        check_name(name)


def test_what_people_see_has_no_secret_in_it():
    http = HttpSink("https://a.b/", headers={"X-Key": "hush", "Authorization": "Bearer env:KEY"})
    url = PostgresSink("postgresql://me:hush@db/books?sslpassword=hush", statement="select 1")
    words = PostgresSink("host=db password='hu sh' user=me", statement="select 1")
    for sink in (http, url, words):
        assert "hu" not in repr(sink).replace("https", "")
        assert "hush" not in str(sink.shown())
    assert http.shown()["headers"] == {"X-Key": "***", "Authorization": "Bearer env:KEY"}
    assert url.shown()["dsn"] == "postgresql://me:***@db/books?sslpassword=***"
    assert PostgresSink("env:DSN", statement="select 1").shown()["dsn"] == "env:DSN"
