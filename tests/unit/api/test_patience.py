"""How long a connection is kept that says nothing."""

from collections.abc import Callable


class Hours:
    """An event loop of which only the time matters."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rings: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, do: Callable[[], None]) -> "Hours":
        self.rings.append((when, do))
        return self

    def cancel(self) -> None:
        self.rings.clear()


def test_who_asks_nothing_more_is_let_go_and_not_before(told):
    async def story(place):
        visitor = await place.visit()
        visitor.say(place.request("GET /api/v1/livez"))
        assert (await visitor.hear()).status == 200
        (talk,) = place.state.connections
        talk._timer.cancel()
        talk._timer, talk._loop = None, Hours()
        hours = talk._loop
        talk._set_timer(10.0)
        hours.now = 9.0
        talk._set_timer(10.0)
        # The timer that was set first stays, and looks when it rings.
        assert [when for when, _ in hours.rings] == [10.0]
        hours.rings.pop()[1]()
        assert not talk._transport.is_closing()
        # What must come sooner is not kept waiting by one that rings later.
        talk._set_timer(5.0)
        assert [when for when, _ in hours.rings] == [14.0]
        hours.rings.pop()[1]()
        assert talk._transport.is_closing()
        assert await visitor.is_let_go()

    told(story)
