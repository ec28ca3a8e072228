"""Class runtimes as tables and in words, drawn from their documents alone."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from holdfast.cli.output import Column, View, clean, draw, draw_fields
from holdfast.cli.spans import age
from holdfast.cli.tables import cell, number, table_of, words
from holdfast.client.runtime_wishes import condition, is_seen

TELLING: Final = ("Stalled", "Degraded", "Progressing", "Available")
"""The conditions that say why a runtime is where it is, the most telling first."""

LISTED: Final = "`holdfast job list --label oaas.io/owner={name}{options}`"
LOGS: Final = f"`holdfast job logs JOB{{options}}`, with a JOB of {LISTED},"
NEXT: Final = {
    "CrashLoop": "mend the command and `holdfast apply -f FILE` again; {printed} has what it said",
    "Timeout": "{printed} has what it printed; `holdfast worker list{options}` says who is there",
    "Conflict": f"{LISTED} shows who is in the way",
    "ApplyInvalid": "mend the manifest and `holdfast apply -f FILE` again",
}
"""What to do about a reason, where one can be named."""
NEXT_IN: Final = {
    "pending": "`holdfast runtime wait {name}{options}` waits until it is up",
    "applying": "`holdfast runtime wait {name}{options}` waits until it is up",
    "progressing": "`holdfast runtime wait {name}{options}` waits; {printed} has what it prints",
    "degraded": "`holdfast runtime events {name}{options}` says how it came to this",
    "deleting": "`holdfast runtime wait {name} --for=deleted{options}` waits until it is gone",
}
"""The same for a phase."""
NO_ROOM: Final = "it waits for a worker"
MORE_ROOM: Final = (
    "declare `template: edge` and `holdfast apply -f FILE` again, or start its worker with more "
    "--slots; `holdfast worker list{options}` says who has room"
)
"""What to do about one worker that is too small for all of it."""
ROOM: Final = f"`holdfast job explain JOB{{options}}` says what it waits for; {LISTED} names JOB"
"""The same for a replica that has nowhere to run."""
PLACES: Final = (
    (NO_ROOM, ROOM),
    ("more --slots", MORE_ROOM),
    ("no worker is there", "`holdfast worker start` starts a worker"),
)
"""What is said of a part that has nowhere to run, and what follows; the last one counts."""
_CRASHED: Final = re.compile(r"Pod (\d+/\d+) restart count=")


def why(view: View) -> str:
    """Why a runtime is where it is, in one line; empty where nothing is to be said."""
    if not is_seen(view):
        return f"generation {view['metadata']['generation']} was not looked at yet"
    for kind in TELLING:
        found = condition(view, kind)
        if found is not None and found["status"] == "True":
            return str(found["message"] or found["reason"])
    return ""


def parts(view: View) -> list[tuple[str, View]]:
    """What it is made of: its functions, and the data grid."""
    status = view["status"]
    found = [(each["function_key"], each) for each in status["functions"]]
    return [*found, *([("(odgm)", status["odgm"])] if status["odgm"] else [])]


def runtimes_table(views: Iterable[View], now: int, *, wide: bool = False) -> str:
    more = (
        number("GENERATION", lambda view: view["metadata"]["generation"]),
        number("OBSERVED", lambda view: view["status"]["observedGeneration"]),
        cell("ENFORCES", lambda view: view["spec"]["nfr"]["mode"]),
        words("LABELS", lambda view: _pairs(view["metadata"]["labels"])),
        words("ADDRESSES", lambda view: " ".join(_addresses(view))),
    )
    return table_of(
        views,
        words("RUNTIME", lambda view: view["metadata"]["name"]),
        cell("TEMPLATE", lambda view: view["spec"]["template"]),
        cell("PHASE", lambda view: view["status"]["phase"]),
        number("READY", _ready),
        number("REPLICAS", _replicas),
        number("AGE", lambda view: age(now - _ms(view["metadata"]["creationTimestamp"]))),
        words("WHY", why),
        *(more if wide else ()),
    )


def runtime_text(view: View, now: int, options: str) -> str:
    """One runtime in words: where it is and why, its parts, its conditions, and what to do."""
    metadata, status = view["metadata"], view["status"]
    head = draw_fields(
        [
            ("runtime", metadata["name"]),
            ("phase", status["phase"]),
            ("why", why(view)),
            ("labels", _pairs(metadata["labels"])),
            ("annotations", _pairs(metadata["annotations"])),
            ("template", view["spec"]["template"]),
            ("generation", f"{metadata['generation']} (observed {status['observedGeneration']})"),
            ("nfr", view["spec"]["nfr"]["mode"]),
            ("created", metadata["creationTimestamp"]),
            ("deleting since", metadata["deletionTimestamp"]),
            ("last enforced", status["last_applied_at"]),
        ]
    )
    found = [head, _parts_table(view), _conditions_table(view, now)]
    if status["nfr_recommendations"]:
        found.append(_recommendations_table(status["nfr_recommendations"], now))
    follows = next_step(view, options)
    if follows:
        found.append(f"next: {follows}\n")
    return "\n".join(part for part in found if part)


def next_step(view: View, options: str) -> str:
    """What to type about it; empty where it is as it should be."""
    name = clean(view["metadata"]["name"])
    phase = view["status"]["phase"]
    degraded = condition(view, "Degraded")
    reason = degraded["reason"] if degraded is not None and degraded["status"] == "True" else ""
    told = NEXT.get(reason) or NEXT_IN.get(phase, "")
    for said, follows in PLACES if phase != "deleting" else ():
        if any(said in part["message"] for _, part in parts(view)):
            told = follows
    crashed = _CRASHED.match(degraded["message"]) if reason and degraded is not None else None
    printed = f"`holdfast task logs {crashed[1]}{{options}}`" if crashed else LOGS
    return told.replace("{printed}", printed).format(name=name, options=options)


def events_table(views: Sequence[View], now: int) -> str:
    return table_of(
        views,
        number("LAST", lambda view: age(now - _ms(view["last_at"]))),
        number("TIMES", "count"),
        cell("TYPE", "type"),
        cell("REASON", "reason"),
        words("MESSAGE", "message"),
    )


def progress_line(view: View) -> str:
    """`greeter is progressing: 1 of 2 ready; …`."""
    status = view["status"]
    told = why(view)
    return f"{clean(view['metadata']['name'])} is {status['phase']}{': ' + told if told else ''}"


def _parts_table(view: View) -> str:
    columns = [
        Column("FUNCTION", elastic=True), Column("READY"), Column("REPLICAS", right=True),
        Column("UPDATED", right=True), Column("REVISION"), Column("ADDRESSES", elastic=True),
        Column("WHY", elastic=True),
    ]  # fmt: skip
    reached = {each["service"]: each["addresses"] for each in view["status"]["routers"]}
    rows = [
        [
            name,
            "yes" if part["ready"] else "no",
            f"{part['ready_replicas']}/{part['desired']}",
            part.get("updated"),
            part.get("revision"),
            " ".join(reached.get(part["service"], [])),
            _said(part),
        ]
        for name, part in parts(view)
    ]
    return draw(columns, rows) if rows else ""


def _said(part: View) -> str:
    """What is said of a part, how its partitions stand, and where a rollout in steps does."""
    said = [part["message"] or part["reason"]]
    if part.get("healthy_partitions") is not None:
        said.append(f"{part['healthy_partitions']} of {part['partitions']} partitions healthy")
    rollout = part.get("rollout")
    if rollout and rollout["steps"] and rollout["updated"] < rollout["desired"]:
        pause = f" until {rollout['paused_until']}" if rollout["paused_until"] else ""
        said.append(f"step {rollout['step']} of {rollout['steps']}{pause}")
    if rollout and rollout["stopped"]:
        said.append(f"stopped: {rollout['message']}")
    return "; ".join(filter(None, said))


def _conditions_table(view: View, now: int) -> str:
    found, above = view["status"]["conditions"], why(view)
    if not found:
        return ""
    return table_of(
        found,
        cell("CONDITION", "type"),
        cell("STATUS", "status"),
        cell("REASON", "reason"),
        number("SINCE", lambda each: _since(each["lastTransitionTime"], now)),
        # What is said above already is not said eight times more.
        words("MESSAGE", lambda each: each["message"] if each["message"] != above else ""),
    )


def _recommendations_table(found: View, now: int) -> str:
    views = [{"key": key, **value} for key, value in found.items()]
    return table_of(
        views,
        cell("RECOMMENDED", "key"),
        number("VALUE", "value"),
        number("CONFIDENCE", "confidence"),
        number("AGE", lambda each: _since(each["observed_at"], now)),
        words("BASIS", "basis"),
    )


def _ready(view: View) -> str:
    every = parts(view)
    total = len(every) or len(view["spec"]["functions"])
    return f"{sum(bool(part['ready']) for _, part in every)}/{total}"


def _replicas(view: View) -> str:
    every = parts(view)
    ready = sum(part["ready_replicas"] for _, part in every)
    return f"{ready}/{sum(part['desired'] for _, part in every)}"


def _pairs(marks: View) -> str:
    return " ".join(f"{key}={value}" for key, value in marks.items())


def _addresses(view: View) -> list[str]:
    return [address for each in view["status"]["routers"] for address in each["addresses"]]


def _since(time: str | None, now: int) -> str | None:
    return None if time is None else age(now - _ms(time))


def _ms(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1_000)
