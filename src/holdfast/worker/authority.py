"""How long a worker may act for leases that it cannot be sure to hold.

A lease ends by the coordinator's clock, and the worker has only its own. What it knows for certain
is when it sent an exchange; the answer says how long after its arrival the leases are good. So
counting from the sending never believes in a lease longer than the coordinator does, whatever the
network did to either message. A margin is kept for clocks that run differently and for the time it
takes to end a process.
"""

from typing import Final

SIGNS_A_TERM: Final = 3
"""How often in a term a worker with nothing to report shows that it is alive."""

LEAST_MARGIN_MS: Final = 500


def margin_ms(term_ms: int) -> int:
    """A tenth of the term, at least half a second, but of a short term never more than a
    quarter, or nothing could ever be started under it."""
    return min(max(term_ms // 10, LEAST_MARGIN_MS), term_ms // 4)


class Authority:
    """What the answers so far allow. `term_ms` zero: leases here do not end by time."""

    def __init__(self) -> None:
        self.term_ms = 0
        self._sent_ms: dict[int, int] = {}
        self._last_ms = 0
        self._good_until = 0

    def sent(self, number: int, now_ms: int) -> None:
        """An exchange goes out for the first time. Sending it again proves nothing new."""
        self._sent_ms[number] = now_ms
        self._last_ms = now_ms

    def answered(self, number: int, good_ms: int, term_ms: int) -> None:
        """The answer to that exchange has come. One that says nothing about leases, but brings
        some (`term_ms`), was given at the time of the exchange or later."""
        self.term_ms = term_ms or self.term_ms
        sent_ms = self._sent_ms.get(number, 0)
        for past in [known for known in self._sent_ms if known <= number]:
            del self._sent_ms[past]
        if good_ms or term_ms:
            self._good_until = sent_ms + (good_ms or term_ms)

    @property
    def margin_ms(self) -> int:
        return margin_ms(self.term_ms)

    @property
    def ends_at(self) -> int:
        """From then on nothing may begin; zero for never."""
        return self._good_until - self.margin_ms if self.term_ms else 0

    def has_ended(self, now_ms: int) -> bool:
        return bool(self.term_ms) and now_ms >= self.ends_at

    def sign_due(self) -> int:
        """When to show a sign of life; zero for never. The coordinator renews in the second half
        of a term, so the sign that matters most comes early in that half."""
        if not self.term_ms:
            return 0
        regular = self._last_ms + self.term_ms // SIGNS_A_TERM
        renewing = self._good_until - self.term_ms // 2 + self.term_ms // 20
        return min(regular, renewing) if renewing > self._last_ms else regular
