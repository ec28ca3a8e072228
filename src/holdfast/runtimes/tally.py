"""What is counted about runtimes, for whoever draws curves of it. Never by the name of one."""

from collections import Counter

from holdfast.core.histogram import SECONDS, Histogram
from holdfast.runtimes.actions import EnforcementOutcome
from holdfast.runtimes.status import ConditionType, Phase, Status, condition_of, parse_target_key


class Tally:
    """`transitions` counts moves from phase to phase. `applied` and `failed` are enforcements that
    went well, by dimension, and that did not, by reason; `latency` is how long they took."""

    def __init__(self) -> None:
        self.transitions: Counter[tuple[Phase, Phase]] = Counter()
        self.applied: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.latency = Histogram(SECONDS)
        # How each runtime stands, as far as it was looked at.
        self._statuses: dict[str, Status] = {}

    def moved(self, name: str, before: Phase, status: Status) -> None:
        """A status was written."""
        if status.phase is not before:
            self.transitions[before, status.phase] += 1
        self._statuses[name] = status

    def seen(self, name: str, status: Status) -> None:
        self._statuses[name] = status

    def forget(self, name: str) -> None:
        self._statuses.pop(name, None)

    def enforced(self, outcome: EnforcementOutcome, took_ms: int) -> None:
        self.latency.observe(took_ms / 1_000)
        if outcome.reason:
            self.failed[outcome.reason] += 1
        else:
            self.applied[outcome.dimension] += 1

    def phases(self) -> Counter[Phase]:
        """How many runtimes are in each phase."""
        return Counter(status.phase for status in self._statuses.values())

    def conditions(self) -> Counter[tuple[str, bool]]:
        """How many runtimes have each condition true, and how many false."""
        return Counter(
            (str(condition.type), condition.is_true)
            for status in self._statuses.values()
            for condition in status.conditions
        )

    def degraded(self) -> Counter[str]:
        """How many runtimes are degraded, by reason: a hint for whoever places more of them."""
        found = (condition_of(each, ConditionType.DEGRADED) for each in self._statuses.values())
        return Counter(each.reason for each in found if each is not None and each.is_true)

    def recommendations(self) -> dict[str, int]:
        """What was recommended last for each dimension, whichever runtime it was for."""
        latest: dict[str, tuple[int, int]] = {}
        for status in self._statuses.values():
            for key, told in status.nfr_recommendations.items():
                dimension, _ = parse_target_key(key)
                latest[dimension] = max(
                    latest.get(dimension, (0, 0)), (told.observed_at, told.value)
                )
        return {dimension: value for dimension, (_, value) in sorted(latest.items())}
