"""A line of jobs by age, into which one may step anywhere.

Who comes back belongs before those that came later, and many may come back in any order: a hundred
thousand delayed jobs wake as chance has it. So the line is kept in short pieces. A newcomer looks
for its piece and steps in there; nobody else moves.
"""

from bisect import bisect, bisect_left
from collections.abc import Iterator

from holdfast.core.ids import JobId, Position

PIECE_MOST = 1_024


class Piece:
    """Neighbours in the line, oldest first, with the positions they are ordered by."""

    __slots__ = ("ids", "positions")

    def __init__(self, positions: list[Position], ids: list[JobId]) -> None:
        self.positions = positions
        self.ids = ids

    def split(self) -> "Piece":
        """Cut the younger half off."""
        half = len(self.ids) // 2
        younger = Piece(self.positions[half:], self.ids[half:])
        del self.positions[half:], self.ids[half:]
        return younger


class Line:
    """Falsy when nobody stands in it. Whoever walks along it must not let anybody in meanwhile."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []

    def add(self, position: Position, job_id: JobId) -> None:
        """Behind those that are as old or older."""
        pieces = self._pieces
        last = pieces[-1] if pieces else None
        if last is None or last.positions[-1] <= position:
            # The usual case: the youngest of all.
            if last is None or len(last.ids) >= PIECE_MOST:
                last = Piece([], [])
                pieces.append(last)
            last.positions.append(position)
            last.ids.append(job_id)
            return
        place = bisect(pieces, position, key=_youngest)
        piece = pieces[place]
        inside = bisect(piece.positions, position)
        piece.positions.insert(inside, position)
        piece.ids.insert(inside, job_id)
        if len(piece.ids) > PIECE_MOST:
            pieces.insert(place + 1, piece.split())

    def extend(self, positions: list[Position], ids: list[JobId]) -> None:
        """The same as `add` for each of them: a million come back at a restart."""
        if not ids:
            return
        here = [position for piece in self._pieces for position in piece.positions]
        if sorted(positions) != positions or (here and here[-1] > positions[0]):
            ages, names = [*here, *positions], [*self, *ids]
            # Equals stay as they came.
            order = sorted(range(len(ages)), key=ages.__getitem__)
            positions, ids = [ages[place] for place in order], [names[place] for place in order]
            self._pieces = []
        for start in range(0, len(ids), PIECE_MOST):
            stop = start + PIECE_MOST
            self._pieces.append(Piece(positions[start:stop], ids[start:stop]))

    def first(self) -> JobId:
        return self._pieces[0].ids[0]

    def drop_first(self) -> None:
        piece = self._pieces[0]
        del piece.positions[0], piece.ids[0]
        if not piece.ids:
            del self._pieces[0]

    def remove(self, position: Position, job_id: JobId) -> None:
        """Take one out who may stand anywhere; several may be of one age."""
        place = bisect_left(self._pieces, position, key=_youngest)
        while True:
            piece = self._pieces[place]
            if job_id in piece.ids:
                inside = piece.ids.index(job_id)
                del piece.positions[inside], piece.ids[inside]
                if not piece.ids:
                    del self._pieces[place]
                return
            place += 1

    def __iter__(self) -> Iterator[JobId]:
        for piece in self._pieces:
            yield from piece.ids

    def __len__(self) -> int:
        return sum(len(piece.ids) for piece in self._pieces)

    def __bool__(self) -> bool:
        return bool(self._pieces)


def _youngest(piece: Piece) -> Position:
    return piece.positions[-1]
