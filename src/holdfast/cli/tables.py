"""Jobs and tasks as tables and in words, drawn from the views alone: it is all one whether a
folder or a server told them."""

from collections.abc import Sequence
from datetime import datetime

from holdfast.cli.output import Column, View, clean_text, draw, draw_fields
from holdfast.cli.placing import named, placed, tied
from holdfast.cli.spans import age, clock, size, span


def jobs_table(views: Sequence[View], now: int, *, wide: bool = False) -> str:
    """The jobs as rows: how far each is, and why it is as it is. Ages end at `now`."""
    columns = [
        Column("JOB"),
        Column("NAME", elastic=True),
        Column("STATE"),
        Column("DONE", right=True),
        Column("RUN", right=True),
        Column("FAIL", right=True),
        Column("WAIT", right=True),
        Column("AGE", right=True),
        Column("WHY", elastic=True),
    ]
    if wide:
        columns += [Column("CREATED"), Column("UPDATED"), Column("KEY", elastic=True)]
    return draw(columns, [_row(view, now, wide=wide) for view in views])


def _row(view: View, now: int, *, wide: bool) -> list[object]:
    counts = view["counts"]
    running = counts["LEASED"] + counts["RUNNING"] + counts["COMMITTED"]
    failed = counts["QUARANTINED"] + counts["KILLED"] + counts["UNSCHEDULABLE"]
    total = f"{view['tasks']}" if view["sealed"] else f"{view['tasks']}+"
    row: list[object] = [
        view["id"],
        view["name"],
        view["state"],
        f"{counts['SUCCEEDED']}/{total}",
        running or None,
        failed or None,
        counts["WAITING"] or None,
        age(now - wall_of(view["created_at"])),
        view["reason"],
    ]
    return [*row, view["created_at"], view["updated_at"], view["key"]] if wide else row


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
        ("sealed", None if view["sealed"] else "no: more items may come"),
        ("created", view["created_at"]),
        ("updated", view["updated_at"]),
        ("not before", view["not_before"]),
        ("times out", view["times_out_at"]),
        ("deadline", view["deadline"]),
        ("schedule by", view["schedule_by"]),
        ("runs", f"{spec['target']} ({spec['kind']})"),
        ("budgets", f"{spec['retries']} failures, {spec['max_losses']} losses a task"),
        ("timeout", span(spec["timeout_ms"]) if spec["timeout_ms"] else None),
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
    return draw_fields(fields) + f"\nIts tasks: {listed}\n"


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
    columns = [
        Column("TASK"),
        Column("STATE"),
        Column("ATTEMPT", right=True),
        Column("LEASE", right=True),
        Column("WORKER", elastic=True),
        Column("STARTED UTC"),
        Column("NOT BEFORE UTC"),
    ]
    names = ("id", "state", "attempt", "lease_id", "worker")
    times = ("started_at", "not_before")
    rows = [[*(view[n] for n in names), *(clock(view[t]) for t in times)] for view in views]
    return draw(columns, rows)


def task_text(view: View, *, wide: bool = False) -> str:
    """One task in words: how it stands, what it has used, and each attempt."""
    failures, losses = view["failures"], view["losses"]
    state = view["state"] + (f" ({view['reason']})" if view["reason"] else "")
    fields: list[tuple[str, object]] = [
        ("task", view["id"]),
        ("state", state),
        ("failures", f"{failures['used']} of {failures['allowed']} allowed"),
        ("losses", f"{losses['used']} of {losses['allowed']} allowed"),
        ("not before", view["not_before"]),
        ("finished", view["finished_at"]),
        ("exit code", view["exit_code"]),
        ("result", None if view["result_bytes"] is None else f"{view['result_bytes']} bytes"),
        ("error", view["error"]),
    ]
    text = draw_fields(fields)
    if view["attempts"]:
        text += "\n" + attempts_table(view["attempts"], wide=wide)
    if view["traceback"]:
        text += "\n" + clean_text(view["traceback"]).rstrip() + "\n"
    return text


def attempts_table(attempts: list[View], *, wide: bool = False) -> str:
    columns = [
        Column("ATTEMPT"),
        Column("STATUS"),
        Column("REASON"),
        Column("WORKER", elastic=True),
        Column("STARTED UTC"),
        Column("TOOK", right=True),
        Column("EXIT", right=True),
        Column("ERROR", elastic=True),
    ]
    rows = []
    for view in attempts:
        took = None if view["duration_ms"] is None else span(view["duration_ms"])
        rows.append(
            [
                *(view[name] for name in ("id", "status", "reason", "worker")),
                *(clock(view["started_at"]), took, view["exit_code"], view["error"]),
            ]
        )
    if wide:
        more = ("lease_id", "lease_expires_at", "finished_at", "charged", "position")
        columns += [Column(name.replace("_", " ").upper()) for name in more]
        rows = [
            [*row, *(view[name] for name in more)] for row, view in zip(rows, attempts, strict=True)
        ]
    return draw(columns, rows)
