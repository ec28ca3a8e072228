"""Jobs and tasks as tables and in words, drawn from the views alone: it is all one whether a
folder or a server told them."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial

from holdfast.cli.output import Column, View, clean_text, draw, draw_fields
from holdfast.cli.placing import named, placed, tied
from holdfast.cli.spans import age, clock, size, span

Cell = tuple[Column, Callable[[View], object]]
"""A column of a table of views, and what stands in it."""


def cell(title: str, value: str | Callable[[View], object], **how: bool) -> Cell:
    """A column that shows a field of each view, by its name, or what is made of the view."""
    return Column(title, **how), (lambda view: view[value]) if isinstance(value, str) else value


number = partial(cell, right=True)
words = partial(cell, elastic=True)
"""Columns of figures, and of text that gives way where a terminal is narrow."""


def table_of(views: Iterable[View], *cells: Cell) -> str:
    rows = [[value(view) for _, value in cells] for view in views]
    return draw([column for column, _ in cells], rows)


def jobs_table(views: Sequence[View], now: int, *, wide: bool = False) -> str:
    """The jobs as rows: how far each is, and why it is as it is. Ages end at `now`."""
    more = (cell("CREATED", "created_at"), cell("UPDATED", "updated_at"), words("KEY", "key"))
    return table_of(
        views,
        cell("JOB", "id"),
        words("NAME", "name"),
        cell("STATE", "state"),
        number("DONE", _done),
        number("RUN", lambda view: _count(view, "LEASED", "RUNNING", "COMMITTED")),
        number("FAIL", lambda view: _count(view, "QUARANTINED", "KILLED", "UNSCHEDULABLE")),
        number("WAIT", lambda view: _count(view, "WAITING")),
        number("AGE", lambda view: age(now - wall_of(view["created_at"]))),
        words("WHY", lambda view: view.get("why") or view["reason"]),
        *(more if wide else ()),
    )


def _done(view: View) -> str:
    """How many of how many; more tasks may come to a job that is not sealed."""
    return f"{view['counts']['SUCCEEDED']}/{view['tasks']}{'' if view['sealed'] else '+'}"


def _count(view: View, *states: str) -> int | None:
    return sum(view["counts"][state] for state in states) or None


def wall_of(time: str) -> int:
    """Milliseconds since 1970 of a time as views have it."""
    return round(datetime.fromisoformat(time).timestamp() * 1_000)


def job_text(view: View, options: str) -> str:
    """One job in words, with what to type next; `options` lead there."""
    spec = view["spec"]
    counts = ", ".join(f"{count} {name.lower()}" for name, count in view["counts"].items() if count)
    state = view["state"] + (f" ({view['reason']})" if view["reason"] else "")
    fields: list[tuple[str, object]] = [
        ("job", view["id"]),
        ("name", view["name"]),
        ("state", state),
        ("tasks", f"{view['tasks']}: {counts}" if counts else "none yet"),
        ("progress", _progress(view["progress"])),
        ("owes", _owes(view["owed"])),
        ("service", _service(spec.get("service"))),
        ("sealed", None if view["sealed"] or spec.get("service") else "no: more items may come"),
        ("created", view["created_at"]),
        ("updated", view["updated_at"]),
        ("not before", view["not_before"]),
        ("times out", view["times_out_at"]),
        ("deadline", view["deadline"]),
        ("schedule by", view["schedule_by"]),
        ("runs", f"{spec['target']} ({spec['kind']})"),
        ("budgets", f"{spec['retries']} failures, {spec['max_losses']} losses a task"),
        ("timeout", span(spec["timeout_ms"]) if spec["timeout_ms"] else None),
        ("stall timeout", span(spec["stall_timeout_ms"]) if spec["stall_timeout_ms"] else None),
        ("in parallel", spec["max_parallel"]),
        ("needs", _needs(spec)),
        *placed(spec),
        *tied(view),
        ("priority", spec["priority"] or None),
        ("namespace", None if spec["namespace"] == "default" else spec["namespace"]),
        ("labels", ", ".join(f"{key}={value}" for key, value in spec["labels"].items())),
        ("key", view["key"]),
        ("generation", view["generation"] if view["generation"] > 1 else None),
        ("position", view["position"]),
    ]
    listed = f"holdfast task list {view['id']}{options}"
    if view["counts"]["QUARANTINED"]:
        listed += " --state quarantined"
    owed = f"What it owes: holdfast effect list --job {view['id']}{options}\n"
    return draw_fields(fields) + f"\nIts tasks: {listed}\n" + (owed if view["owed"] else "")


def _owes(owed: View | None) -> str | None:
    if owed is None:
        return None
    more = "" if owed["complete"] else " at least"
    parked = f", {owed['parked']} of them parked" if owed["parked"] else ""
    entries = "1 entry" if owed["entries"] == 1 else f"{owed['entries']} entries"
    return f"{entries}{more}{parked}"


def _service(told: View | None) -> str | None:
    """`web, until it is ended; 10 restarts, one back every 10m`."""
    if told is None:
        return None
    budget = f"{told['restarts']} restarts, one back in {span(told['refill_ms'])}"
    return f"{told['endpoint']}, until it is ended; {budget}"


def _replica(told: View | None) -> str | None:
    """`ready at host:8000, 2 restarts`."""
    if told is None:
        return None
    where = f" at {told['address']}" if told["address"] else ""
    why = f": {told['why']}" if told["why"] else ""
    standing = f"{told['state']}{where}{why}, " if told["state"] else ""
    return f"{standing}{told['restarts']} restarts"


def _progress(told: View | None) -> str | None:
    """`30 of 100: reading`, of one task or of several."""
    if told is None:
        return None
    total = "" if told["total"] is None else f" of {told['total']:,}"
    tasks = told.get("tasks", 1)
    whose = "" if tasks == 1 else f", {tasks} tasks together"
    note = f": {told['note']}" if told.get("note") else ""
    return f"{told['done']:,}{total}{whose}{note} (at {told['at']})"


def _needs(spec: View) -> str:
    """What each task needs of its worker, where that is more than one processor."""
    told = [] if spec["cpus"] == 1 else [f"{spec['cpus']:g} cpus"]
    if spec["memory_bytes"]:
        told.append(size(spec["memory_bytes"]))
    if spec["gpus"]:
        told.append(f"{spec['gpus']} gpus")
    told += named((spec.get("placing") or {}).get("resources", {}))
    return ", ".join(told)


def tasks_table(views: Sequence[View]) -> str:
    return table_of(
        views,
        cell("TASK", "id"),
        cell("STATE", "state"),
        number("ATTEMPT", "attempt"),
        number("LEASE", "lease_id"),
        words("WORKER", "worker"),
        cell("STARTED UTC", lambda view: clock(view["started_at"])),
        cell("NOT BEFORE UTC", lambda view: clock(view["not_before"])),
    )


def task_text(view: View, *, wide: bool = False) -> str:
    """One task in words: how it stands, what it has used, and each attempt."""
    failures, losses = view["failures"], view["losses"]
    state = view["state"] + (f" ({view['reason']})" if view["reason"] else "")
    fields: list[tuple[str, object]] = [
        ("task", view["id"]),
        ("state", state),
        ("progress", _progress(view["progress"])),
        ("service", _replica(view.get("service"))),
        ("failures", f"{failures['used']} of {failures['allowed']} allowed"),
        ("losses", f"{losses['used']} of {losses['allowed']} allowed"),
        ("not before", view["not_before"]),
        ("finished", view["finished_at"]),
        ("exit code", view["exit_code"]),
        ("result", None if view["result_bytes"] is None else f"{view['result_bytes']} bytes"),
        ("error", view["error"]),
    ]
    text = draw_fields(fields)
    if view["owed"]:
        text += f"\nIt has committed and owes:\n{effects_table(view['owed'], wide=wide)}"
    if view["attempts"]:
        text += "\n" + attempts_table(view["attempts"], wide=wide)
    if view["traceback"]:
        text += "\n" + clean_text(view["traceback"]).rstrip() + "\n"
    return text


def effects_table(views: Sequence[View], *, wide: bool = False) -> str:
    """What commits owe, as rows."""
    more = (cell("POSITION", "position"), words("ERROR", "error"), words("COMMAND", "command"))
    return table_of(
        views,
        cell("ID", "id"),
        cell("KIND", "kind"),
        words("SINK/PLACE", "place"),
        words("KEY", "key"),
        cell("STATE", "state"),
        number("TRIES", lambda view: view["tries"] or None),
        cell("NEXT UTC", lambda view: clock(view["next_at"])),
        words("WHY", "why"),
        *(more if wide else ()),
    )


def attempts_table(attempts: list[View], *, wide: bool = False) -> str:
    more = ("lease_id", "lease_expires_at", "finished_at", "charged", "position")
    return table_of(
        attempts,
        cell("ATTEMPT", "id"),
        cell("STATUS", "status"),
        cell("REASON", "reason"),
        words("WORKER", "worker"),
        cell("STARTED UTC", lambda view: clock(view["started_at"])),
        number("TOOK", _took),
        number("EXIT", "exit_code"),
        words("ERROR", "error"),
        *(cell(name.replace("_", " ").upper(), name) for name in (more if wide else ())),
    )


def _took(attempt: View) -> str | None:
    return None if attempt["duration_ms"] is None else span(attempt["duration_ms"])
