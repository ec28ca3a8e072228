"""The state as tables of SQL, for questions that no command answers.

A projection is made for a question and thrown away: it can always be made again from the log, and
nothing ever reads it but the one who asked. Only the tables that a question names are filled.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

from holdfast.coordinator import projected as now
from holdfast.coordinator import projected_history as then
from holdfast.coordinator.inspect import Reading
from holdfast.core.task import TaskState

Rows = Callable[[Reading], Iterable[tuple[Any, ...]]]


class Column(Struct, frozen=True):
    name: str
    kind: str
    about: str


class Table(Struct, frozen=True):
    """`key` are the columns that name a row."""

    name: str
    about: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: Rows

    @property
    def statement(self) -> str:
        columns = [f'"{column.name}" {column.kind}' for column in self.columns]
        key = ", ".join(self.key)
        return f"create table {self.name} ({', '.join(columns)}, primary key ({key}))"


def _text(name: str, about: str) -> Column:
    return Column(name, "text", about)


def _number(name: str, about: str) -> Column:
    return Column(name, "integer", about)


def _real(name: str, about: str) -> Column:
    return Column(name, "real", about)


_JOB: Final = _text("job_id", "The job.")
_TASK: Final = _text("task_id", "JOB/INDEX.")
_INDEX: Final = _number("task_index", "The number of the task within its job.")
_WORKER: Final = _text("worker", "The worker's name.")
_LEASE: Final = _number("lease_id", "The lease, which is the fencing token.")
_POSITION: Final = _number("position", "Where in the log.")

TABLES: Final = (
    Table(
        "meta",
        "What this is a picture of: one row a fact.",
        ("name",),
        (
            _text("name", "schema_version, log_id, epoch, position, at, oldest_position, version."),
            _text("value", "The fact, as text."),
        ),
        now.meta_rows,
    ),
    Table(
        "jobs",
        "Jobs in memory, with their tasks counted by state.",
        ("id",),
        (
            _text("id", "The job."),
            _text("name", "What it was called."),
            _text("state", "PENDING, RUNNING, SUCCEEDED, FAILED, KILLED or UNSCHEDULABLE."),
            _text("reason", "Why it ended so, where there is more to say."),
            _number("tasks", "How many tasks it has."),
            *(_number(state.name.lower(), f"How many are {state.name}.") for state in TaskState),
            _text("created_at", "When it was submitted."),
            _text("updated_at", "When something last happened to it."),
            _text("key", "The key it was submitted under."),
            _number("generation", "1, and one more for each retry by hand."),
            _number("sealed", "1 where no more tasks will come."),
            _number("blocked", "1 while it waits for other jobs."),
            _text("parent", "The job that it ends with."),
            _text("namespace", "Whose it is."),
            _text("queue", "The queue it waits in."),
            _text("user", "Who submitted it."),
            _number("priority", "How urgent it is."),
            _text("kind", "function or command."),
            _text("target", "What its tasks run."),
            _real("cpus", "What each task takes."),
            _number("memory_bytes", "What each task takes."),
            _number("gpus", "What each task takes."),
            _number("retries", "Failures allowed to each task."),
            _number("max_losses", "Lost workers allowed to each task."),
            _number("timeout_ms", "How long an attempt may run."),
            _text("labels", "A JSON object."),
            _number("position", "Where it was submitted."),
        ),
        now.job_rows,
    ),
    Table(
        "tasks",
        "Every task of these jobs.",
        ("job_id", "task_index"),
        (
            _text("id", "JOB/INDEX."),
            _JOB,
            _INDEX,
            _text("state", "WAITING, LEASED, RUNNING, COMMITTED, SUCCEEDED, QUARANTINED, …"),
            _number("attempt", "How many attempts it has had."),
            _text("worker", "Who has it, or had it last while it is not over."),
            _number("lease_id", "The lease it is held under."),
            _text("lease_expires_at", "Until when, unless it is renewed."),
            _text("started_at", "When the attempt under way began."),
            _text("not_before", "When it may be leased again."),
            _number("failures", "Used of its budget, while it is not over."),
            _number("losses", "Used of its budget, while it is not over."),
            _number("ended_position", "The record that ended it, or its last attempt."),
        ),
        now.task_rows,
    ),
    Table(
        "attempts",
        "Attempts that ended in the history that is kept, and those under way.",
        ("id",),
        (
            _text("id", "JOB/INDEX:N."),
            _TASK,
            _JOB,
            _INDEX,
            _number("attempt", "Its number."),
            _text("status", "LEASED, IN_PROGRESS, COMMITTED, DONE or ABORTED."),
            _text("reason", "Why it was aborted."),
            _WORKER,
            _LEASE,
            _text("started_at", "When it began."),
            _text("finished_at", "When it ended."),
            _number("duration_ms", "How long it ran."),
            _number("exit_code", "How its process ended."),
            _text("charged", "The budget it was charged to."),
            _text("error", "What it said."),
            _number("result_bytes", "How large its result is."),
            _POSITION,
        ),
        then.attempt_rows,
    ),
    Table(
        "leases",
        "Leases that are held.",
        ("lease_id",),
        (
            _LEASE,
            _TASK,
            _JOB,
            _INDEX,
            _number("attempt", "Its number."),
            _WORKER,
            _number("incarnation", "Which life of the worker."),
            _number("slot", "The slot of the worker."),
            _text("state", "LEASED or RUNNING."),
            _text("expires_at", "Until when; NULL for one that does not end by time."),
            _text("started_at", "When it began to run."),
            _number("position", "Where it was granted."),
        ),
        now.lease_rows,
    ),
    Table(
        "effects",
        "What commits still owe.",
        ("id",),
        (
            _text("id", "JOB/INDEX.N."),
            _TASK,
            _JOB,
            _INDEX,
            _number("number", "Its number within the commit."),
            _text("kind", "effect, file or block."),
            _text("place", "The sink, or the file system."),
            _text("key", "What it is kept in order by."),
            _number("parked", "1 where it waits for an operator."),
            _number("tries", "How many have failed."),
            _text("not_before", "When the next may be made."),
            _text("error", "What the last said."),
            _number("position", "Where it was committed."),
        ),
        now.effect_rows,
    ),
    Table(
        "workers",
        "Workers as they were noted beside the log, and those that hold or held something.",
        ("name",),
        (
            _text("name", "The worker."),
            _number("incarnation", "Which life of it."),
            _text("state", "BUSY, IDLE, CORDONED, DRAINING, SILENT, or UNKNOWN without a note."),
            _number("slots", "How many tasks it runs at once."),
            _real("cpus", "What it offers."),
            _number("memory_bytes", "What it offers."),
            _number("gpus", "What it offers."),
            _text("attributes", "A JSON object."),
            _number("leases", "How many it holds."),
            _number("cordoned", "1 where nothing more is given to it."),
            _text("reason", "Why."),
        ),
        now.worker_rows,
    ),
    Table(
        "schedules",
        "Work that comes again.",
        ("name",),
        (
            _text("name", "The schedule."),
            _text("state", "ACTIVE or PAUSED."),
            _text("reason", "Why it is paused."),
            _text("cron", "The expression."),
            _number("every_ms", "Or the interval."),
            _text("zone", "The time zone of the expression."),
            _text("missed", "What becomes of instants that were missed."),
            _text("overlap", "What becomes of one while the run before goes on."),
            _text("namespace", "Whose runs they are."),
            _text("next_at", "When it comes next."),
            _text("last_at", "When it came last."),
            _text("last_job", "The last run."),
            _number("runs", "How many there were."),
            _number("skipped", "How many were skipped."),
            _text("created_at", "When it was made."),
            _text("updated_at", "When it was changed."),
        ),
        now.schedule_rows,
    ),
    Table(
        "limits",
        "What namespaces, users and keys may have running.",
        ("id",),
        (
            _text("id", "SCOPE/NAME."),
            _text("scope", "namespace, user or key."),
            _text("name", "Whose."),
            _number("running", "How many at once."),
            _number("starts", "How many may start…"),
            _number("per_ms", "… in so long."),
            _number("weight", "A namespace's part in fair shares."),
            _real("cpus", "What they may take together."),
            _number("memory_bytes", "What they may take together."),
            _number("gpus", "What they may take together."),
            _number("in_use", "How many run."),
            _text("resources", "A JSON object of named resources."),
        ),
        now.limit_rows,
    ),
    Table(
        "resources",
        "What somebody declared. What is inside is not read here.",
        ("kind", "name"),
        (
            _text("kind", "What it is."),
            _text("name", "Which."),
            _number("generation", "How many specs it has had."),
            _number("version", "The position of its last change."),
            _number("spec_bytes", "The size of its spec."),
            _number("status_bytes", "The size of its status."),
            _text("finalizers", "Who has to clean up before it may go: a JSON array."),
            _text("created_at", "When it was declared."),
            _text("deleted_at", "When its deletion was asked for."),
        ),
        now.resource_rows,
    ),
    Table(
        "circuits",
        "Functions and sinks that something is held against.",
        ("id",),
        (
            _text("id", "KIND/NAME."),
            _text("kind", "function or sink."),
            _text("name", "Which."),
            _text("state", "CLOSED, OPEN or HALF_OPEN."),
            _number("failures", "In a row so far."),
            _number("cooldown_ms", "How long it stays open."),
            _text("since", "When it last changed."),
            _text("until", "When it half-opens."),
            _text("cause", "What changed it."),
        ),
        now.circuit_rows,
    ),
    Table(
        "queues",
        "Queues that are paused or have something waiting.",
        ("name",),
        (
            _text("name", "The queue."),
            _number("paused", "1 where nothing of it is given out."),
            _text("reason", "Why."),
            _number("waiting_jobs", "Jobs with a task to lease."),
        ),
        now.queue_rows,
    ),
    Table(
        "tokens",
        "Who may ask for what. Secrets are not known, and their digests are not shown.",
        ("id",),
        (
            _text("id", "The token."),
            _text("name", "What it is for."),
            _text("scopes", "A JSON list."),
            _text("worker", "The worker it is bound to."),
            _text("issued_at", "When it was made."),
            _text("expires_at", "When it ends."),
        ),
        now.token_rows,
    ),
    Table(
        "transactions",
        "Records of the history that is kept: what was asked, by whom, and why.",
        ("position",),
        (
            _POSITION,
            _text("time", "When."),
            _text("command", "What was asked."),
            _text("actor", "By whom."),
            _text("request_id", "As which request."),
            _text("reason", "Why, where somebody said so."),
            _number("events", "How many facts it made."),
        ),
        then.transaction_rows,
    ),
    Table(
        "transitions",
        "Moves of tasks in these records. Neighbours that took the same step are one row.",
        ("position", "number"),
        (
            _POSITION,
            _number("number", "Its number within the record."),
            _text("time", "When."),
            _JOB,
            _number("first_index", "The first task that moved."),
            _number("last_index", "The last one."),
            _text("from_state", "Where they were; NEW for those that were not there before."),
            _text("to_state", "Where they went."),
            _text("reason", "Why."),
            _text("operator", "Who asked for it."),
            _number("attempt", "Of which attempt, where it is about one."),
            _text("worker", "Whose it was."),
        ),
        then.transition_rows,
    ),
    Table(
        "events",
        "The facts of these records.",
        ("position", "number"),
        (
            _POSITION,
            _number("number", "Its number within the record."),
            _text("type", "The event."),
            _JOB,
        ),
        then.event_rows,
    ),
    Table(
        "actions",
        "What these records did, one row for each thing it was done to.",
        ("position", "number"),
        (
            _POSITION,
            _number("number", "Its number within the record."),
            _text("action", "What was done."),
            _text("entity", "To what."),
            _text("details", "A JSON object."),
        ),
        then.action_rows,
    ),
)
"""Only grows: columns are added at the end, and a table that changes meaning gets a new name."""


def schema_lines() -> Iterator[str]:
    """The page of the tables, in Markdown: made from the tables themselves."""
    for table in TABLES:
        yield f"### {table.name}\n\n{table.about} Key: {', '.join(table.key)}.\n"
        yield "| column | type | |"
        yield "|---|---|---|"
        for column in table.columns:
            yield f"| {column.name} | {column.kind} | {column.about} |"
        yield ""
