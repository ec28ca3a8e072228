"""An answer that comes later: told once, at once, and to whoever awaits it too."""

import asyncio

import pytest

from holdfast.coordinator.promise import Promise


def test_a_listener_is_told_in_the_moment_the_promise_is_kept() -> None:
    promise: Promise[int] = Promise()
    heard: list[int | Exception] = []
    promise.then(heard.append)
    assert heard == []
    promise.keep(1)
    promise.keep(2)
    assert heard == [1]


def test_who_listens_late_is_told_at_once() -> None:
    promise: Promise[int] = Promise()
    promise.keep(1)
    heard: list[int | Exception] = []
    promise.then(heard.append)
    assert heard == [1]


def test_a_promise_can_be_awaited_before_and_after_it_is_kept() -> None:
    async def story() -> None:
        promise: Promise[int] = Promise()
        asyncio.get_running_loop().call_soon(promise.keep, 3)
        assert await promise == 3
        assert await promise == 3

    asyncio.run(story())


def test_the_trouble_that_stands_for_an_answer_is_raised_where_it_is_awaited() -> None:
    async def story() -> None:
        promise: Promise[int] = Promise()
        promise.keep(ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            await promise

    asyncio.run(story())


def test_who_stops_awaiting_harms_nobody() -> None:
    async def story() -> None:
        promise: Promise[int] = Promise()

        async def wait() -> int:
            return await promise

        waiting = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        promise.keep(1)
        assert waiting.cancelled()

    asyncio.run(story())
