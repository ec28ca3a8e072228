"""How much of what has ended is told in one exchange."""

from holdfast.wire.exchange import Done, Failed


def within_bounds(done: list[Done], most_bytes: int) -> list[Done]:
    """As many results, from the first on, as fit; at least one, and all where nothing bounds."""
    if not most_bytes:
        return done
    total = 0
    for count, report in enumerate(done):
        total += len(report.result) + sum(len(entry.body) for entry in report.owed)
        if total > most_bytes and count:
            return done[:count]
    return done


def too_large(report: Done, size: int) -> Failed:
    """The end of an attempt whose result no server takes."""
    told = f"its result of {size} bytes is larger than the server takes"
    return Failed(
        report.job_id, report.index, report.lease_id, report.ran_ms, "failed", told, "", None
    )
