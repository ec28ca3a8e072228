"""Which tasks in quarantine a list or an order is about, and how they are told over the wire."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Final

from msgspec import Struct

from holdfast.core.job import Job
from holdfast.core.quarantine import Why

REASONS: Final = tuple(why.value for why in Why)
MARK: Final = "fp:"
"""May stand before a fingerprint, so that it is not taken for a job."""

View = dict[str, Any]


class WantedCases(Struct, frozen=True, kw_only=True):
    """What is empty is not looked at. `name` is a pattern of * and ?; a `fingerprint` may be the
    beginning of one; `older_than_ms` is how long a task has been there at least."""

    reasons: frozenset[str] = frozenset()
    job: str = ""
    fingerprint: str = ""
    older_than_ms: int = 0
    name: str = ""

    def takes_job(self, job: Job) -> bool:
        if self.job and job.job_id != self.job:
            return False
        return not self.name or fnmatchcase(job.spec.name, self.name)

    def takes(self, why: str, mark: str, since: int, now: int) -> bool:
        """Both instants are of the wall clock. What nobody knows the age of is never old."""
        if self.reasons and why not in self.reasons:
            return False
        if self.fingerprint and not mark.startswith(self.fingerprint):
            return False
        return not self.older_than_ms or (since > 0 and now - since >= self.older_than_ms)


def plain_mark(text: str) -> str:
    """A fingerprint as it was typed: `fp:4c1…` or `4c1…`."""
    return text.removeprefix(MARK).lower()


def query_of(wanted: WantedCases) -> dict[str, str]:
    """What is wanted, as a request says it."""
    return {
        "reason": ",".join(sorted(wanted.reasons)),
        "job": wanted.job,
        "fingerprint": wanted.fingerprint,
        "older_than": f"{wanted.older_than_ms}ms" if wanted.older_than_ms else "",
        "name": wanted.name,
    }


def joined_groups(pages: Iterable[list[View]]) -> list[View]:
    """Groups that came in several parts, the largest first."""
    found: dict[str, View] = {}
    for group in (group for page in pages for group in page):
        known = found.setdefault(group["fingerprint"], group)
        if known is group:
            continue
        known["count"] += group["count"]
        known["jobs"] += group["jobs"]
        known["names"] = list(dict.fromkeys([*known["names"], *group["names"]]))[:5]
        firsts = filter(None, (known["first_at"], group["first_at"]))
        known["first_at"] = min(firsts, default=None)
        if (group["last_at"] or "") >= (known["last_at"] or ""):
            known["last_at"], known["sample"] = group["last_at"], group["sample"]
            known["error"] = group["error"]
    return sorted(found.values(), key=lambda group: (-group["count"], group["fingerprint"]))


def joined_counts(parts: Iterable[View]) -> View:
    """Statistics that came in several parts."""
    whole: View = {}
    for part in parts:
        for name, value in part.items():
            if isinstance(value, dict):
                counts = whole.setdefault(name, {})
                for key, count in value.items():
                    counts[key] = counts.get(key, 0) + count
            elif isinstance(value, int):
                whole[name] = whole.get(name, 0) + value
            elif value is not None:
                pick = min if name == "oldest_at" else max
                whole[name] = value if whole.get(name) is None else pick(whole[name], value)
            else:
                whole.setdefault(name, None)
    for name, counts in whole.items():
        if isinstance(counts, dict):
            ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            whole[name] = dict(ordered)
    return whole
