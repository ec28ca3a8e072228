"""Effects as rows: the effect and its idempotency key in one transaction, so each exactly once.

The key is inserted first. Where it is there already, the effect has happened and nothing is done;
where the transaction fails, neither is there. A connection that is lost while it commits leaves
the question open, and the next try finds the answer in the table.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from holdfast.wire.delivery import Delivery, Parcel
from holdfast.wire.masks import masked_address
from holdfast.wire.sinks import PostgresSink
from holdfast.worker.sinks.function import Functions, call, found
from holdfast.worker.sinks.outlet import (
    Effect,
    NotDelivered,
    Order,
    Outcome,
    effect_of,
    one_by_one,
)  # fmt: skip
from holdfast.worker.sinks.secrets import Secrets
from holdfast.worker.troubles import describe

TOGETHER_MAX: Final = 200
HOPELESS: Final = ("22", "23502", "23514", "42601")
"""Beginnings of codes that no other try will change: values that do not fit, or bad SQL."""
MISSING: Final = "psycopg is not installed where this is delivered: pip install holdfast[postgres]"


class PostgresOutlet:
    """`alive` is told that something goes on."""

    def __init__(
        self,
        sink: PostgresSink,
        functions: Functions,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._sink = sink
        self._alive = alive
        self._functions = functions
        self._secrets = Secrets()
        self._connection: Any = None

    def deliver(self, parcel: Parcel) -> Iterator[Outcome]:
        """Statements of a whole parcel share a transaction while all goes well: one commit is one
        wait for the disk. Where anything is wrong, each has one of its own."""
        order = Order()
        start = 0
        while start < len(parcel.deliveries):
            # A database that may be away is asked by one alone.
            most = 1 if self._connection is None else TOGETHER_MAX
            some = parcel.deliveries[start : start + most]
            start += len(some)
            if not any(map(order.obstacle, some)) and self._went_well_together(some):
                order.went_well()
                yield from [(delivery, None) for delivery in some]
            else:
                yield from one_by_one(some, self._make, order)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _went_well_together(self, deliveries: Sequence[Delivery]) -> bool:
        if len(deliveries) == 1 or not self._sink.statement:
            return False
        try:
            self._do([effect_of(delivery) for delivery in deliveries])
        except NotDelivered:
            self._alive()
            return False
        return True

    def _make(self, delivery: Delivery) -> None:
        self._do([effect_of(delivery)])

    def _do(self, effects: Sequence[Effect]) -> None:
        psycopg = _psycopg()
        connection = self._connected()
        try:
            with connection.transaction(), connection.cursor() as cursor:
                fresh = self._claim(cursor, [effect.id for effect in effects])
                for effect in effects:
                    if effect.id in fresh:
                        self._run(cursor, effect)
                        self._alive()
                self._check_open(connection)
        except psycopg.Error as error:
            if connection.closed or connection.broken:
                self.close()
            raise self._trouble(error) from None

    def _run(self, cursor: Any, effect: Effect) -> None:
        if self._sink.statement:
            cursor.execute(self._sink.statement, _parameters(effect))
            return
        call(found(self._sink.function, self._functions), cursor, effect)

    def _check_open(self, connection: Any) -> None:
        """A failure that was swallowed makes a commit a rollback, and PostgreSQL says so to nobody;
        one that was ended by the statement itself is not ours to commit."""
        status = connection.info.transaction_status
        if status != _psycopg().pq.TransactionStatus.INTRANS:
            raise NotDelivered(
                f"the transaction is {status.name} after the effect: it failed, or was ended, by "
                "what ran in it"
            )

    def _claim(self, cursor: Any, ids: list[str]) -> frozenset[str]:
        """Which of these have not happened; from now on, they have."""
        cursor.execute(
            f"insert into {_quoted(self._sink.keys_table)} (id) select unnest(%s::text[]) "
            "on conflict do nothing returning id",
            (ids,),
        )
        return frozenset(row[0] for row in cursor.fetchall())

    def _connected(self) -> Any:
        if self._connection is not None:
            return self._connection
        psycopg = _psycopg()
        timeout_ms = self._sink.timeout_ms
        dsn = self._secrets.look_up(self._sink.dsn)
        try:
            connection = psycopg.connect(
                dsn, autocommit=True, connect_timeout=max(1, timeout_ms // 1_000)
            )
        except (psycopg.Error, ValueError, UnicodeError) as error:
            raise self._trouble(error, dsn) from None
        try:
            connection.execute(f"set statement_timeout = {timeout_ms}")
            connection.execute(f"set idle_in_transaction_session_timeout = {timeout_ms}")
            self._prepare(connection)
        except psycopg.Error as error:
            connection.close()
            raise self._trouble(error) from None
        except NotDelivered:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _prepare(self, connection: Any) -> None:
        """Have the table of keys, made here where it is absent and we may make it."""
        if self._has_keys(connection):
            return
        table = self._sink.keys_table
        made = (
            f"create table if not exists {_quoted(table)} (id text primary key, "
            "delivered_at timestamptz not null default now())"
        )
        try:
            connection.execute(made)
        except _psycopg().Error as error:
            # Where somebody else makes it in the same moment PostgreSQL has several words for that:
            # a relation that exists, a type that does, a key that is not unique.
            if self._has_keys(connection):
                return
            told = f"the table of keys {table} is absent and cannot be made here ({error}): {made}"
            raise NotDelivered(self._secrets.hide(told)) from None

    def _has_keys(self, connection: Any) -> bool:
        asked = connection.execute("select to_regclass(%s)", (_quoted(self._sink.keys_table),))
        return asked.fetchone()[0] is not None

    def _trouble(self, error: Exception, dsn: str = "") -> NotDelivered:
        code = str(getattr(error, "sqlstate", None) or "")
        told = describe(error).error
        if dsn:
            told = told.replace(dsn, masked_address(dsn))
        return NotDelivered(self._secrets.hide(told), is_final=code.startswith(HOPELESS))


class _Fields(dict[str, Any]):
    """Parameters of a statement. One that is asked for and not there is a fault of the effect."""

    def __missing__(self, name: str) -> Any:
        told = f"the statement asks for %({name})s, which the effect does not have"
        raise NotDelivered(told, is_final=True)


def _parameters(effect: Effect) -> _Fields:
    """`id`, `key`, `tries` and `body`, and each field of a body that has any as `body.NAME`."""
    fields = _Fields(id=effect.id, key=effect.key, tries=effect.tries, body=_value(effect.body))
    if isinstance(effect.body, dict):
        for name, value in effect.body.items():
            fields[f"body.{name}"] = _value(value) if isinstance(value, dict | list) else value
    return fields


def _value(body: Any) -> Any:
    from psycopg.types.json import Jsonb  # noqa: PLC0415 - only where the extra is installed

    return Jsonb(body)


def _psycopg() -> Any:
    try:
        import psycopg  # noqa: PLC0415 - only where the extra is installed
    except ImportError as error:
        raise NotDelivered(f"{MISSING} ({error})") from None
    return psycopg


def _quoted(table: str) -> str:
    return ".".join(f'"{part}"' for part in table.split("."))
