"""Results cut into records: what one exchange brings may be more than one record should hold."""

from typing import Final

from holdfast.wire.exchange import Done

COMMIT_BYTES: Final = 8 * 1024 * 1024
"""How much of results goes into one record; a larger single one has a record to itself."""


def portions(done: tuple[Done, ...]) -> list[tuple[Done, ...]]:
    """The same reports in order, cut where their results grow too large for one record."""
    if sum([len(report.result) for report in done]) <= COMMIT_BYTES:
        return [done]
    portions: list[list[Done]] = [[]]
    room = COMMIT_BYTES
    for report in done:
        room -= len(report.result)
        if room < 0 and portions[-1]:
            portions.append([])
            room = COMMIT_BYTES - len(report.result)
        portions[-1].append(report)
    return [tuple(portion) for portion in portions]
