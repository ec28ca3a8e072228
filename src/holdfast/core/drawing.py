"""The state machines as pictures, drawn from the same tables that judge.

What a table says is what `holdfast states` shows and what docs/states.md holds; nobody keeps a
drawing up to date by hand. Pure and deterministic: equal tables give equal text. The job has no
table, since its state is computed; its moves are written here, tests reach each of them, and
random histories find no other.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.core import attempt, circuit, lease, task
from holdfast.core import events as e
from holdfast.core.job import JobState
from holdfast.core.pairs import PAIRS
from holdfast.core.svg import stacked, svg_of


class Arrow(Struct, frozen=True):
    """What leads from one state to another. `labels` are event types, or sentences for the job."""

    source: str
    target: str
    labels: tuple[str, ...]


class Machine(Struct, frozen=True):
    """One machine: its states in reading order, where it begins, where it may rest for good."""

    name: str
    promise: str
    states: tuple[str, ...]
    initial: str
    final: tuple[str, ...]
    arrows: tuple[Arrow, ...]


_JOB_MOVES: Final[tuple[tuple[JobState, JobState, str], ...]] = (
    (JobState.PENDING, JobState.RUNNING, "a task is leased"),
    (JobState.PENDING, JobState.SUCCEEDED, "sealed without a single task"),
    (JobState.PENDING, JobState.FAILED, "sealed as interrupted, or stopped by a limit"),
    (JobState.PENDING, JobState.KILLED, "cancelled by a person"),
    (JobState.PENDING, JobState.UNSCHEDULABLE, "the scheduling deadline passes"),
    (JobState.RUNNING, JobState.PENDING, "every lease comes back unstarted"),
    (JobState.RUNNING, JobState.SUCCEEDED, "sealed, and every task succeeded"),
    (JobState.RUNNING, JobState.FAILED, "all ended, one in quarantine or stopped by a limit"),
    (JobState.RUNNING, JobState.KILLED, "all ended, one killed by a person"),
    (JobState.RUNNING, JobState.UNSCHEDULABLE, "all ended, one unschedulable"),
    (JobState.FAILED, JobState.PENDING, "retried, and nothing had ever started"),
    (JobState.FAILED, JobState.RUNNING, "retried"),
    (JobState.KILLED, JobState.RUNNING, "retried, where a task may come back"),
    (JobState.KILLED, JobState.PENDING, "retried, and nothing had ever started"),
    (JobState.UNSCHEDULABLE, JobState.RUNNING, "retried, where a task may come back"),
    (JobState.UNSCHEDULABLE, JobState.PENDING, "retried, and nothing had ever started"),
)


def machines() -> tuple[Machine, ...]:
    """The task, the attempt, the lease, the circuit and the job."""
    return (
        _from_table(
            "task",
            "One unit of a job. It ends once, and what committed never runs again.",
            task.TRANSITIONS,
            tuple(state.name for state in sorted(task.FINISHED)),
        ),
        _from_table(
            "attempt",
            "One try of a task. COMMITTED is the line: behind it nothing is aborted.",
            attempt.TRANSITIONS,
            ("DONE", "ABORTED"),
        ),
        _from_table(
            "lease",
            "Sole tenure of one attempt. It lives and dies with it.",
            lease.TRANSITIONS,
            ("ENDED",),
        ),
        _from_table(
            "circuit",
            "Whether a function or a sink is given anything. One trial decides what follows.",
            circuit.TRANSITIONS,
            (),
        ),
        _job_machine(),
    )


def _from_table(
    name: str,
    promise: str,
    table: Mapping[Any, Mapping[type[e.Event], Any]],
    final: tuple[str, ...],
) -> Machine:
    grouped: dict[tuple[str, str], list[str]] = {}
    for source, row in table.items():
        for event, target in row.items():
            grouped.setdefault((_name(source), _name(target)), []).append(event.__name__)
    arrows = tuple(Arrow(a, b, tuple(labels)) for (a, b), labels in grouped.items())
    states = tuple(_name(state) for state in table)
    return Machine(name, promise, states, states[0], final, arrows)


def _job_machine() -> Machine:
    return Machine(
        name="job",
        promise="What a user asked for. Its state is computed from its tasks and never stored.",
        states=tuple(state.value for state in JobState),
        initial=JobState.PENDING.value,
        final=tuple(
            state.value for state in JobState if state not in (JobState.PENDING, JobState.RUNNING)
        ),
        arrows=tuple(Arrow(a.value, b.value, (why,)) for a, b, why in _JOB_MOVES),
    )


def _name(state: Enum) -> str:
    return state.name


def text_of(machine: Machine) -> str:
    """The machine as aligned lines, for a terminal."""
    lines = [f"{machine.name}: {machine.promise}", ""]
    width = max(map(len, machine.states))
    for state in machine.states:
        mark = "*" if state in machine.final else " "
        leaving = [arrow for arrow in machine.arrows if arrow.source == state]
        if not leaving:
            lines.append(f"{mark} {state}")
        for place, arrow in enumerate(leaving):
            left = f"{mark} {state:<{width}}" if place == 0 else " " * (width + 2)
            lines.append(f"{left} -> {arrow.target:<{width}}  {', '.join(arrow.labels)}")
    lines.append("")
    lines.append(f"It begins {machine.initial}; * marks where it may rest for good.")
    return "\n".join(lines) + "\n"


def mermaid_of(machine: Machine) -> str:
    lines = ["stateDiagram-v2", f"    [*] --> {machine.initial}"]
    for arrow in machine.arrows:
        label = ", ".join(arrow.labels)
        lines.append(f"    {arrow.source} --> {arrow.target}: {label}")
    lines.extend(f"    {state} --> [*]" for state in machine.final)
    return "\n".join(lines) + "\n"


def dot_of(machine: Machine) -> str:
    lines = [
        f"digraph {machine.name} {{",
        "    rankdir=TB;",
        '    node [shape=box, style=rounded, fontname="sans-serif"];',
        '    edge [fontname="sans-serif", fontsize=10];',
    ]
    for state in machine.states:
        shape = " [peripheries=2]" if state in machine.final else ""
        lines.append(f"    {state}{shape};")
    for arrow in machine.arrows:
        label = "\\n".join(arrow.labels)
        lines.append(f'    {arrow.source} -> {arrow.target} [label="{label}"];')
    return "\n".join([*lines, "}"]) + "\n"


def json_of(machine: Machine) -> str:
    return msgspec.json.format(msgspec.json.encode(machine), indent=2).decode() + "\n"


def svg_text_of(machine: Machine) -> str:
    arrows = [(arrow.source, arrow.target, arrow.labels) for arrow in machine.arrows]
    return svg_of(machine.name, machine.states, machine.initial, machine.final, arrows)


FORMATS: Final[dict[str, Callable[[Machine], str]]] = {
    "text": text_of,
    "mermaid": mermaid_of,
    "dot": dot_of,
    "svg": svg_text_of,
    "json": json_of,
}


def draw(name: str, form: str, *, beside: tuple[Machine, ...] = ()) -> str:
    """The machine called `name` in one of `FORMATS`. An unknown name or form raises KeyError.
    `beside` are machines of other rooms, drawn as if they were ours."""
    return FORMATS[form]({machine.name: machine for machine in (*machines(), *beside)}[name])


def draw_all(form: str, *, beside: tuple[Machine, ...] = ()) -> str:
    """Every machine in one text: one JSON document, one picture, or one text after another."""
    every = (*machines(), *beside)
    if form == "json":
        drawn = {machine.name: machine for machine in every}
        return msgspec.json.format(msgspec.json.encode(drawn), indent=2).decode() + "\n"
    drawn_each = [FORMATS[form](machine) for machine in every]
    return stacked(drawn_each) if form == "svg" else "\n".join(drawn_each)


def pairs_table() -> str:
    """All twenty-five pairs of the five-state view as a Markdown table."""
    lines = ["| from | to | answer | asked by | becomes true | |", "|---|---|---|---|---|---|"]
    for pair in PAIRS:
        event = f"`{pair.event.__name__}`" if pair.event else "nothing"
        lines.append(
            f"| {pair.source} | {pair.target} | {pair.verdict} | "
            f"`{pair.command.__name__}` | {event} | {pair.note} |"
        )
    return "\n".join(lines) + "\n"


_TOLD_IN_WORDS: Final = ("job", "runtime")
"""Machines whose moves are no events: they are computed."""


def moves_table(machine: Machine) -> str:
    """Every arrow of a machine as a Markdown table, with the states that have none."""
    is_told = machine.name in _TOLD_IN_WORDS
    by = "when" if is_told else "event"
    lines = [f"| from | {by} | to |", "|---|---|---|"]
    for state in machine.states:
        leaving = [arrow for arrow in machine.arrows if arrow.source == state]
        for arrow in leaving:
            labels = arrow.labels if is_told else [f"`{x}`" for x in arrow.labels]
            lines.append(f"| {state} | {', '.join(labels)} | {arrow.target} |")
        if not leaving:
            lines.append(f"| {state} | nothing | it stays |")
    return "\n".join(lines) + "\n"


_PREFACE: Final = """# States

This page is made from the tables in `src/holdfast` by `holdfast states --write`. Do not edit
it: `make check` compares it with the code. What a table does not hold cannot happen. An event that
meets a state without a row for it is proof of a bug or of a damaged log, and stops the program; a
command that would lead to one is refused and changes nothing.
"""

_PAIRS_PREFACE: Final = """## The five-state view

Seen from far away a task is PENDING (WAITING here), RUNNING (LEASED or RUNNING), SUCCEEDED, FAILED
or QUARANTINED. FAILED is the fate of an attempt: the task waits again, or is in quarantine, in the
record that tells of the failure. So two pairs that a strict five-state table forbids do happen
here, from RUNNING to PENDING and to QUARANTINED: they pass the end of an attempt on the way.
"""


def states_document(*, beside: tuple[Machine, ...] = ()) -> str:
    """The whole of docs/states.md."""
    parts = [_PREFACE]
    for machine in (*machines(), *beside):
        parts.append(f"## The {machine.name}\n\n{machine.promise}\n")
        parts.append(f"```mermaid\n{mermaid_of(machine)}```\n")
        parts.append(moves_table(machine))
    parts.append(_PAIRS_PREFACE)
    parts.append(pairs_table())
    return "\n".join(parts)
