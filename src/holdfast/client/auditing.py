"""What a program asks about who did what, and in SQL about everything."""

from datetime import UTC, datetime

from holdfast.client.audit import Answer, AuditEntry, AuditHead
from holdfast.client.backend import Backend
from holdfast.client.errors import Refused
from holdfast.client.ties import JobNamed, job_id_of
from holdfast.core.ids import parse_task_name
from holdfast.wire.amounts import Duration, duration_ms, text, wall_ms, whole
from holdfast.wire.bodies import Query
from holdfast.wire.wanted_entries import WantedEntries

Moment = int | datetime
"""A position of the log, or an instant of the wall clock."""


class Auditing:
    """Part of `Holdfast`: the audit trail, and questions in SQL."""

    _backend: Backend

    def audit(
        self,
        *,
        operator: str = "",
        command: str = "",
        job: JobNamed | None = None,
        task: str = "",
        since: Moment | None = None,
        until: Moment | None = None,
        refused: bool = False,
        limit: int = 100,
    ) -> list[AuditEntry]:
        """The newest lines of the audit trail, the newest last: every move of a task, whatever else
        was done, and what was refused, as far as it is noted. A `limit` of 0 gives all."""
        named = parse_task_name(text(task, "task")) if task else None
        if task and named is None:
            raise Refused("invalid", f"{task!r} is not a task; write JOB/INDEX, such as 12/0")
        if whole(limit, "limit") < 0:
            raise ValueError(f"limit={limit!r} cannot be negative")
        job_id = "" if job is None else job_id_of(job)
        wanted = WantedEntries(
            operator=text(operator, "operator"),
            command=text(command, "command"),
            job_id=job_id if named is None else named[0],
            index=-1 if named is None else named[1],
            since=wall_ms(since, "since") if isinstance(since, datetime) else 0,
            until=wall_ms(until, "until") if isinstance(until, datetime) else 0,
            first=_position(since, "since"),
            last=_position(until, "until"),
            refused=refused,
        )
        return self._backend.audit.entries(wanted, limit)

    def audit_head(self) -> AuditHead:
        """How far the log is durable, and the head of its chain there. `str` of it is what
        `holdfast audit verify --head` compares with, so keep it elsewhere."""
        return self._backend.audit.head()

    def query(
        self, sql: str, *, at: Moment | None = None, limit: int = 10_000, timeout: Duration = 30.0
    ) -> Answer:
        """Ask in SQL (that of SQLite, reading only) about jobs, tasks and everything else that is
        known, now or `at` a moment of the past: `for row in hf.query("select * from jobs")`. The
        tables are in docs/query.md. A `limit` of 0 gives all rows."""
        if whole(limit, "limit") < 0:
            raise ValueError(f"limit={limit!r} cannot be negative")
        body = Query(
            sql=text(sql, "sql"),
            limit=limit,
            timeout=f"{duration_ms(timeout, 'timeout')}ms",
            at=_told(at),
        )
        return self._backend.audit.answer(body)


def _position(moment: Moment | None, name: str) -> int:
    if moment is None or isinstance(moment, datetime):
        return 0
    return whole(moment, name)


def _told(moment: Moment | None) -> str:
    """As a server is told it."""
    if not isinstance(moment, datetime):
        return str(_position(moment, "at") or "")
    wall = datetime.fromtimestamp(wall_ms(moment, "at") / 1_000, UTC)
    return wall.isoformat(timespec="milliseconds")
