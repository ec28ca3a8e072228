"""What a program asks about tasks that wait for an operator, and what it decides about them."""

from collections.abc import Sequence

from holdfast.client.backend import Backend
from holdfast.client.errors import Refused
from holdfast.client.quarantine import QuarantinedTask, QuarantineGroup
from holdfast.client.ties import JobNamed, job_id_of
from holdfast.core.ids import parse_task_name
from holdfast.wire.amounts import Duration, duration_ms, text
from holdfast.wire.bodies import ChosenCases
from holdfast.wire.quarantine import REASONS, WantedCases, plain_mark


class Quarantining:
    """Part of `Holdfast`: what is in quarantine, and moving single tasks by hand."""

    _backend: Backend

    def quarantine(
        self,
        *,
        reason: str | Sequence[str] = (),
        job: JobNamed | None = None,
        fingerprint: str = "",
        older_than: Duration | None = None,
        name: str = "",
    ) -> list[QuarantinedTask]:
        """The tasks in quarantine, those of the newest jobs first. `name` is a pattern of * and ?;
        of a fingerprint its beginning is enough."""
        wanted = _wanted(reason, job, fingerprint, older_than, name)
        return self._backend.quarantine.all(wanted)

    def quarantine_groups(
        self,
        *,
        reason: str | Sequence[str] = (),
        job: JobNamed | None = None,
        fingerprint: str = "",
        older_than: Duration | None = None,
        name: str = "",
    ) -> list[QuarantineGroup]:
        """The same failures together, the largest group first."""
        wanted = _wanted(reason, job, fingerprint, older_than, name)
        return self._backend.quarantine.groups(wanted)

    def retry_quarantined(
        self,
        *ids: str,
        reason: str | Sequence[str] = (),
        job: JobNamed | None = None,
        fingerprint: str = "",
        older_than: Duration | None = None,
        name: str = "",
        every: bool = False,
        canary: bool = False,
        note: str = "",
    ) -> int:
        """Send tasks (`"12/3"`) back with fresh budgets: those that are named, those that fit, or
        every one; with `canary` one of each fingerprint. How many went; their attempts go on
        counting."""
        wanted = _wanted(reason, job, fingerprint, older_than, name)
        chosen = _chosen(ids, wanted, every=every, canary=canary, note=note)
        return self._backend.quarantine.retry(chosen)

    def purge_quarantined(
        self,
        *ids: str,
        reason: str | Sequence[str] = (),
        job: JobNamed | None = None,
        fingerprint: str = "",
        older_than: Duration | None = None,
        name: str = "",
        every: bool = False,
        note: str,
    ) -> int:
        """Give tasks up, with a note that is recorded: they never run again. Chosen as for
        `retry_quarantined`; how many there were."""
        if not text(note, "note").strip():
            raise Refused("invalid", "tasks are given up for a reason: say it in `note`")
        wanted = _wanted(reason, job, fingerprint, older_than, name)
        return self._backend.quarantine.purge(_chosen(ids, wanted, every=every, note=note))

    def force(self, task_id: str, *, to: str, reason: str) -> bool:
        """Move one task by hand to WAITING, QUARANTINED, KILLED or UNSCHEDULABLE, as far as the
        invariants allow; it is recorded as what it is. False where it was there already."""
        parsed = parse_task_name(text(task_id, "task_id"))
        if parsed is None:
            raise Refused("not_found", f"{task_id!r} is no task; write JOB/INDEX")
        target, why = text(to, "to").upper(), text(reason, "reason")
        return self._backend.quarantine.force(*parsed, target, why)


def _wanted(
    reason: str | Sequence[str],
    job: JobNamed | None,
    fingerprint: str,
    older_than: Duration | None,
    name: str,
) -> WantedCases:
    reasons = [reason] if isinstance(reason, str) else reason
    unknown = [one for one in reasons if one not in REASONS]
    if unknown:
        raise ValueError(f"reason={unknown[0]!r} is none of {', '.join(REASONS)}")
    return WantedCases(
        reasons=frozenset(reasons),
        job="" if job is None else job_id_of(job),
        fingerprint=plain_mark(text(fingerprint, "fingerprint")),
        older_than_ms=duration_ms(older_than, "older_than"),
        name=text(name, "name"),
    )


def _chosen(
    ids: Sequence[str],
    wanted: WantedCases,
    *,
    every: bool = False,
    canary: bool = False,
    note: str = "",
) -> ChosenCases:
    return ChosenCases(
        ids=[text(one, "id") for one in ids],
        reasons=sorted(wanted.reasons),
        job=wanted.job,
        fingerprint=wanted.fingerprint,
        older_than=f"{wanted.older_than_ms}ms" if wanted.older_than_ms else "",
        name=wanted.name,
        every=every,
        canary=canary,
        reason=text(note, "note"),
    )
