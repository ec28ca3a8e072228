"""Tasks in quarantine as people look at them: one by one, by fingerprint, in numbers."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.coordinator.quarantine import Case, Patient, patients_of
from holdfast.coordinator.views import View, rfc3339
from holdfast.core import commands as c
from holdfast.core.fingerprints import UNTOLD
from holdfast.core.ids import Index, JobId, parse_task_name, task_name
from holdfast.core.state import State
from holdfast.wire.bodies import ChosenCases
from holdfast.wire.quarantine import REASONS, WantedCases, plain_mark

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
NAMES: Final = 5
"""So many names of jobs are told of a group."""
ORDER_MOST: Final = 10_000
"""So many tasks are sent back or given up by one record."""

Pair = tuple[Patient, Case]


class Unclear(ValueError):
    """An order that does not say what it is about."""


def wanted_pairs(pairs: Iterable[Pair], wanted: WantedCases, now: int) -> Iterator[Pair]:
    """Those that are wanted. `now` is of the wall clock."""
    for patient, case in pairs:
        if wanted.takes(case.mark.why.value, case.mark.mark, case.since, now):
            yield patient, case


def case_view(patient: Patient, case: Case) -> View:
    """One task in quarantine at a glance."""
    mark = case.mark
    return {
        "id": task_name(patient.job_id, patient.index),
        "job_id": patient.job_id,
        "index": int(patient.index),
        "name": patient.name,
        "function": patient.function,
        "reason": mark.why.value,
        "fingerprint": mark.mark,
        "error": case.error or mark.title,
        "attempts": patient.attempts,
        "worker": case.worker or None,
        "since": _time(case.since),
        "position": int(patient.end),
    }


def _time(since: int) -> str | None:
    """None where the record that would say it is no longer kept."""
    return rfc3339(since) if since else None


def groups_of(pairs: Iterable[Pair]) -> list[View]:
    """Failures that are the same, counted together, the largest group first."""
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair[1].mark.mark, []).append(pair)
    groups = [_group(members) for members in found.values()]
    return sorted(groups, key=lambda group: (-group["count"], group["fingerprint"]))


def _group(members: list[Pair]) -> View:
    patient, case = max(members, key=lambda pair: pair[1].since)
    names = dict.fromkeys(patient.name for patient, _ in members)
    mark = case.mark
    return {
        "fingerprint": mark.mark,
        "reason": mark.why.value,
        "error": mark.title,
        "count": len(members),
        "jobs": len({patient.job_id for patient, _ in members}),
        "names": list(names)[:NAMES],
        "first_at": _time(min(case.since for _, case in members)),
        "last_at": _time(case.since),
        "sample": task_name(patient.job_id, patient.index),
        "command": f"holdfast quarantine retry --fingerprint {mark.mark} --canary",
    }


def counts_of(pairs: Iterable[Pair], now: int) -> View:
    """How many there are by everything people ask for, and how many came of late."""
    total, last_hour, last_day = 0, 0, 0
    times: list[int] = []
    reasons, functions, names = Counter[str](), Counter[str](), Counter[str]()
    workers, marks = Counter[str](), Counter[str]()
    for patient, case in pairs:
        total += 1
        reasons[case.mark.why.value] += 1
        functions[patient.function] += 1
        names[patient.name] += 1
        workers[case.worker or "none"] += 1
        marks[case.mark.mark] += 1
        if case.mark is not UNTOLD:
            times.append(case.since)
            last_hour += now - case.since < HOUR_MS
            last_day += now - case.since < DAY_MS
    return {
        "total": total,
        "last_hour": last_hour,
        "last_day": last_day,
        "oldest_at": rfc3339(min(times)) if times else None,
        "newest_at": rfc3339(max(times)) if times else None,
        "by_reason": dict(reasons.most_common()),
        "by_function": dict(functions.most_common()),
        "by_name": dict(names.most_common()),
        "by_worker": dict(workers.most_common()),
        "by_fingerprint": dict(marks.most_common()),
    }


def wanted_by(order: ChosenCases, older_than_ms: int) -> WantedCases | None:
    """What an order is about; None where it names tasks."""
    for reason in order.reasons:
        if reason not in REASONS:
            raise Unclear(f"reason={reason[:40]!r} is none of {', '.join(REASONS)}")
    wanted = WantedCases(
        reasons=frozenset(order.reasons),
        job=order.job,
        fingerprint=plain_mark(order.fingerprint),
        older_than_ms=older_than_ms,
        name=order.name,
    )
    narrowed = wanted != WantedCases()
    if order.ids:
        if narrowed or order.every or order.canary:
            raise Unclear("name tasks, or choose them by what they have in common: not both")
        return None
    if not narrowed and not order.every:
        raise Unclear(
            "name tasks, choose them by reason, job, fingerprint, age or name, or ask for every one"
        )
    return wanted


def named_tasks(ids: Iterable[str]) -> list[tuple[JobId, Index]]:
    found: list[tuple[JobId, Index]] = []
    for text in ids:
        parsed = parse_task_name(text)
        if parsed is None:
            raise Unclear(f"{text[:80]!r} is no task; write JOB/INDEX, such as 12/3")
        found.append(parsed)
    return found


def named_patients(state: State, names: Iterable[tuple[JobId, Index]]) -> list[Patient]:
    """Those of the named tasks that are in quarantine, each once."""
    found: list[Patient] = []
    for job_id, index in dict.fromkeys(names):
        job = state.jobs.get(job_id)
        first = None if job is None else next(patients_of(job, index), None)
        if first is not None and first.index == index:
            found.append(first)
    return found


def one_of_each(pairs: Iterable[Pair]) -> list[Pair]:
    """One task of each fingerprint: the one that came there last."""
    found: dict[str, Pair] = {}
    for pair in pairs:
        known = found.get(pair[1].mark.mark)
        if known is None or pair[1].since >= known[1].since:
            found[pair[1].mark.mark] = pair
    return list(found.values())


def spans_picked(chosen: Iterable[c.Picked]) -> Iterator[tuple[JobId, int, int]]:
    """The same tasks as runs of neighbours, job by job."""
    last: tuple[JobId, int, int] | None = None
    for job_id, index in sorted((one.job_id, int(one.index)) for one in chosen):
        if last is not None and last[0] == job_id and last[2] + 1 == index:
            last = (job_id, last[1], index)
            continue
        if last is not None:
            yield last
        last = (job_id, index, index)
    if last is not None:
        yield last


def picked(patients: Iterable[Patient]) -> tuple[c.Picked, ...]:
    return tuple(c.Picked(one.job_id, one.index, one.end) for one in patients)
