"""The PostgreSQL sink against a real server: effect and key are one transaction, or none."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from holdfast.cli.benchmarks.services import find_postgres, postgres
from holdfast.testing.posting import a_delivery, a_parcel, delivered_to
from holdfast.wire.sinks import PostgresSink
from holdfast.worker.sinks.postgres import TOGETHER_MAX, PostgresOutlet

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: holdfast[postgres]")
pytestmark = pytest.mark.skipif(find_postgres() is None, reason="there is no PostgreSQL here")

INSERT = "insert into ledger (id, key, amount, body) values (%(id)s, %(key)s, %(body.n)s, %(body)s)"
STEPS = ("claimed", "run", "committed", "told")


@pytest.fixture(scope="module")
def server():
    # Not below the folder of the tests, which nobody else may enter: PostgreSQL is somebody else.
    with TemporaryDirectory() as folder, postgres(Path(folder)) as dsn:
        yield dsn


@pytest.fixture
def dsn(server):
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("drop table if exists ledger, holdfast_effects cascade")
        connection.execute("create table ledger (id text, key text, amount int, body jsonb)")
    return server


@pytest.fixture
def outlets(dsn):
    made = []

    def make(functions=None, **settings):
        where = {"statement": INSERT} if "function" not in settings else {}
        outlet = PostgresOutlet(PostgresSink(settings.pop("dsn", dsn), **where | settings),
                                functions or {})  # fmt: skip
        made.append(outlet)
        return outlet

    yield make
    for outlet in made:
        outlet.close()


def rows(dsn, query="select id from ledger order by amount"):
    with psycopg.connect(dsn) as connection:
        return [row[0] for row in connection.execute(query).fetchall()]


def ids(*numbers):
    return [f"log:7/{n}:9:0" for n in numbers]


def test_effect_and_key_are_there_together(dsn, outlets):
    outlet = outlets()
    assert delivered_to(outlet, a_delivery(1, {"n": 5, "x": ["ü"]}, key="k")) == [None]
    with psycopg.connect(dsn) as connection:
        row = connection.execute("select id, key, amount, body from ledger").fetchone()
        assert row == ("log:7/1:9:0", "k", 5, {"n": 5, "x": ["ü"]})
    assert rows(dsn, "select id from holdfast_effects") == ids(1)


def test_a_repeat_does_nothing_whoever_delivers_it(dsn, outlets):
    some = [a_delivery(n) for n in range(5)]
    assert delivered_to(outlets(), *some) == [None] * 5
    assert delivered_to(outlets(), *some, a_delivery(9)) == [None] * 6
    assert rows(dsn) == ids(0, 1, 2, 3, 4, 9)


def test_two_at_once_make_it_happen_once(dsn, outlets):
    some = [a_delivery(n) for n in range(50)]
    with ThreadPoolExecutor(4) as pool:
        told = pool.map(lambda outlet: delivered_to(outlet, *some), [outlets() for _ in range(4)])
        assert list(told) == [[None] * 50] * 4
    assert rows(dsn) == ids(*range(50))


def test_whoever_is_overtaken_in_making_the_table_finds_it(dsn, outlets, monkeypatch):
    """PostgreSQL looks for the table, and then for a type of its name: somebody may be between."""

    class Overtaken(psycopg.Connection):
        def execute(self, query, *rest, **options):
            told = super().execute(query, *rest, **options)
            if query.startswith("create table"):
                raise psycopg.errors.DuplicateObject('type "holdfast_effects" already exists')
            return told

    monkeypatch.setattr(psycopg, "connect", Overtaken.connect)
    assert delivered_to(outlets(), a_delivery(1)) == [None]


def test_something_else_of_the_name_of_the_table_is_told(dsn, outlets):
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create type holdfast_effects as enum ()")
        try:
            (bounced,) = delivered_to(outlets(), a_delivery(1))
        finally:
            connection.execute("drop type holdfast_effects")
    assert "absent and cannot be made here" in bounced.error
    assert not bounced.is_final


def test_many_share_a_transaction_and_one_that_fails_does_not_spoil_the_others(dsn, outlets):
    count = TOGETHER_MAX + 20
    some = [a_delivery(n, key=str(n)) for n in range(count)]
    some[7] = a_delivery(7, {"n": "seven"}, key="7")
    told = delivered_to(outlets(), *some)
    assert [n for n, bounced in enumerate(told) if bounced] == [7]
    assert told[7].is_final
    assert "InvalidTextRepresentation" in told[7].error
    assert rows(dsn) == ids(*(n for n in range(count) if n != 7))
    with psycopg.connect(dsn) as connection:
        count_of = "select count(distinct xmin::text) from ledger"
        assert connection.execute(count_of).fetchone()[0] < count


def test_a_function_gets_the_cursor_of_the_transaction(dsn, outlets):
    seen = []

    def book(cursor, effect):
        seen.append(effect.key)
        cursor.execute("insert into ledger (id, amount) values (%s, %s)", (effect.id, 1))
        if effect.key == "bad":
            raise ValueError("after all")

    outlet = outlets({"here:book": book}, function="here:book")
    told = delivered_to(outlet, a_delivery(1, key="good"), a_delivery(2, key="bad"))
    assert told[0] is None
    assert "ValueError: after all" in told[1].error
    assert delivered_to(outlet, a_delivery(1, key="good")) == [None]
    assert seen == ["good", "bad"]
    assert rows(dsn) == ids(1)
    assert rows(dsn, "select id from holdfast_effects") == ids(1)


def test_a_failure_that_was_swallowed_is_no_success(dsn, outlets):
    def book(cursor, effect):
        with suppress(psycopg.Error):
            cursor.execute("select 1/0")

    outlet = outlets({"here:book": book}, function="here:book")
    (bounced,) = delivered_to(outlet, a_delivery(1))
    assert "INERROR" in bounced.error
    assert not bounced.is_untried
    assert rows(dsn, "select id from holdfast_effects") == []


@pytest.mark.parametrize(("word", "happened"), [("commit", True), ("rollback", False)])
def test_whoever_ends_the_transaction_himself_is_found_out(dsn, outlets, word, happened):
    def book(cursor, effect):
        cursor.execute("insert into ledger (id, amount) values (%s, 1)", (effect.id,))
        cursor.execute(word)

    outlet = outlets({"here:book": book}, function="here:book")
    (bounced,) = delivered_to(outlet, a_delivery(1))
    assert "IDLE" in bounced.error
    assert rows(dsn) == (ids(1) if happened else [])
    after = outlets()
    assert delivered_to(after, a_delivery(1)) == [None]
    assert rows(dsn) == ids(1)


def test_a_table_that_is_absent_is_told_and_nothing_is_lost(dsn, outlets):
    outlet = outlets(statement="insert into absent values (%(id)s)")
    (bounced,) = delivered_to(outlet, a_delivery(1))
    assert 'relation "absent" does not exist' in bounced.error
    assert not bounced.is_final
    assert rows(dsn, "select id from holdfast_effects") == []
    with psycopg.connect(dsn) as connection:
        connection.execute("create table absent (id text)")
    assert delivered_to(outlet, a_delivery(1)) == [None]
    with psycopg.connect(dsn) as connection:
        connection.execute("drop table absent")


@pytest.mark.parametrize(
    ("statement", "told", "is_final"),
    [
        ("insert into ledger (id) values (%(nobody)s)", "%(nobody)s", True),
        ("insert into ledger (id) values (%(body.x)s)", "%(body.x)s", True),
        ("insert into into", "syntax error", True),
        ("insert into ledger (amount) values (%(body)s)", "DatatypeMismatch", False),
    ],
)
def test_a_statement_that_cannot_run_is_told(dsn, outlets, statement, told, is_final):
    (bounced,) = delivered_to(outlets(statement=statement), a_delivery(1))
    assert told in bounced.error
    assert bounced.is_final == is_final


@pytest.mark.slow
def test_a_statement_that_takes_too_long_is_ended(dsn, outlets):
    # The same time ends a transaction in which we are silent, so it is no shorter.
    outlet = outlets(statement="select pg_sleep(100)", timeout=5)
    (bounced,) = delivered_to(outlet, a_delivery(1))
    assert "statement timeout" in bounced.error
    assert not bounced.is_final


def test_a_database_that_is_not_there_is_told_without_its_password(outlets):
    address = "postgresql://me:hush-hush@127.0.0.1:1/books"
    told = delivered_to(outlets(dsn=address), *[a_delivery(n) for n in range(5)])
    assert "refused" in told[0].error
    assert [bounced.is_untried for bounced in told] == [False] * 3 + [True] * 2
    (bounced,) = delivered_to(outlets(dsn="host=x passwort=hush-hush"), a_delivery(1))
    assert "passwort" in bounced.error
    assert "hush" not in bounced.error


def test_an_address_by_reference(dsn, outlets, monkeypatch):
    monkeypatch.setenv("LEDGER_DSN", dsn)
    assert delivered_to(outlets(dsn="env:LEDGER_DSN"), a_delivery(1)) == [None]
    (bounced,) = delivered_to(outlets(dsn="env:NOBODY_SET_THIS"), a_delivery(2))
    assert "has no NOBODY_SET_THIS" in bounced.error


def test_a_role_that_may_not_make_the_table_is_told_what_to_type(dsn, outlets):
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop role if exists clerk")
        connection.execute("create role clerk login")
        connection.execute("revoke create on schema public from public")
    (bounced,) = delivered_to(outlets(dsn=dsn.replace("bench@", "clerk@")), a_delivery(1))
    assert "create table if not exists" in bounced.error


def test_a_connection_that_was_cut_is_made_again(dsn, outlets):
    outlet = outlets()
    delivered_to(outlet, a_delivery(1))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where pid <> pg_backend_pid() and backend_type = 'client backend'"
        )
    (bounced,) = delivered_to(outlet, a_delivery(2))
    assert not bounced.is_final
    assert delivered_to(outlet, a_delivery(2)) == [None]
    assert rows(dsn) == ids(1, 2)


DIES = """
import os, signal, sys
import msgspec
from holdfast.wire.delivery import Parcel
from holdfast.wire.sinks import PostgresSink
from holdfast.worker.sinks.postgres import PostgresOutlet

dsn, statement, wanted, parcel = *sys.argv[1:4], sys.stdin.buffer.read()

def reached(step):
    if step == wanted:
        os.kill(os.getpid(), signal.SIGKILL)

class Dying(PostgresOutlet):
    def _claim(self, cursor, ids):
        found = super()._claim(cursor, ids)
        reached("claimed")
        return found

    def _run(self, cursor, effect):
        super()._run(cursor, effect)
        reached("run")

    def _do(self, effects):
        super()._do(effects)
        reached("committed")

for _ in Dying(PostgresSink(dsn, statement=statement), {}).deliver(
    msgspec.msgpack.decode(parcel, type=Parcel)
):
    reached("told")
"""


@pytest.mark.parametrize("step", STEPS)
def test_whoever_delivers_may_be_killed_at_any_step(dsn, outlets, step):
    some = [a_delivery(n, key=str(n % 3)) for n in range(20)]
    content = msgspec.msgpack.encode(a_parcel(*some))
    for _ in range(2):
        words = [sys.executable, "-c", DIES, dsn, INSERT, step]
        done = subprocess.run(words, input=content, check=False, env=dict(os.environ))
        assert done.returncode == -signal.SIGKILL
    assert delivered_to(outlets(), *some) == [None] * 20
    assert rows(dsn) == ids(*range(20))
