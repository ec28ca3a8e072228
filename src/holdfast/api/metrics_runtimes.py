"""Numbers about class runtimes: where they stand, and what enforcement did.

Those of enforcement have the names that tools for class runtimes know, without our prefix.
"""

from collections.abc import Iterable

from holdfast.api.prometheus import Sample, told, told_histogram
from holdfast.runtimes.tally import Tally

BARE = ""
"""No prefix."""


def runtimes_told(tally: Tally) -> Iterable[str]:
    phases: list[Sample] = [
        ({"phase": str(phase)}, count) for phase, count in sorted(tally.phases().items())
    ]
    moves: list[Sample] = [
        ({"source": str(source), "target": str(target)}, count)
        for (source, target), count in sorted(tally.transitions.items())
    ]
    conditions: list[Sample] = [
        ({"type": kind, "status": "True" if is_true else "False"}, count)
        for (kind, is_true), count in sorted(tally.conditions().items())
    ]
    yield told("runtimes", "gauge", "Class runtimes by phase.", phases)
    yield told("runtime_transitions_total", "counter", "Moves of runtimes by phase.", moves)
    yield told("runtime_conditions", "gauge", "Runtimes by condition and status.", conditions)
    degraded: list[Sample] = [
        ({"reason": why}, count) for why, count in sorted(tally.degraded().items())
    ]
    yield told("runtimes_degraded", "gauge", "Degraded runtimes by reason.", degraded)
    recommended: list[Sample] = [
        ({"dimension": dimension}, value)
        for dimension, value in tally.recommendations().items()
    ]
    applied: list[Sample] = [
        ({"dimension": dimension}, n) for dimension, n in sorted(tally.applied.items())
    ]
    failed: list[Sample] = [({"reason": why}, n) for why, n in sorted(tally.failed.items())]
    yield told(
        "crm_nfr_recommendation", "gauge", "What was recommended last.", recommended, prefix=BARE
    )
    yield told(
        "crm_nfr_enforcement_apply_total", "counter", "Enforcements that went well.", applied,
        prefix=BARE,
    )  # fmt: skip
    yield told(
        "crm_nfr_enforcement_fail_total", "counter", "Enforcements that failed.", failed,
        prefix=BARE,
    )  # fmt: skip
    yield told_histogram(
        "crm_nfr_enforcement_latency_seconds", "How long an enforcement took.",
        [({}, tally.latency)], prefix=BARE,
    )  # fmt: skip
