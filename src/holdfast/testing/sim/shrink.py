"""A failing run made smaller: which of its faults does it take?"""

from collections.abc import Callable, Sequence


def smallest(
    faults: Sequence[int], fails: Callable[[tuple[int, ...]], bool], most_runs: int = 200
) -> tuple[int, ...]:
    """A part of these faults with which the run still fails, and from which no single one can be
    left out; or the best that was found in so many runs."""
    kept, parts, runs = tuple(faults), 2, 0
    while len(kept) > 1 and runs < most_runs:
        size = -(-len(kept) // parts)
        pieces = [kept[start : start + size] for start in range(0, len(kept), size)]
        for piece in pieces:
            rest = tuple(fault for fault in kept if fault not in piece)
            runs += 1
            if fails(rest):
                kept, parts = rest, max(2, parts - 1)
                break
            if runs >= most_runs:
                break
        else:
            if parts >= len(kept):
                break
            parts = min(len(kept), 2 * parts)
    if len(kept) == 1 and fails(()):
        return ()
    return kept
