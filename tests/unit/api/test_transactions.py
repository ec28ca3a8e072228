"""The list of transactions: page by page from the newest back, nothing twice and nothing missed."""

import pytest

from holdfast.core.ids import Instant
from holdfast.core.transactions import Action


async def pages(house, limit: int) -> list[list[dict]]:
    found, cursor = [], ""
    while cursor is not None:
        told = (await house.get(f"/transactions?limit={limit}&cursor={cursor}")).value
        found.append(told["transactions"])
        cursor = told["next"]
        assert len(found) < 100
    return found


def test_pages_of_any_size_have_everything_once_and_in_order(inside):
    async def story(house):
        coordinator = house.served.coordinator
        for number in range(6):
            await house.submit()
            for again in range(number % 3):
                # What needs no record, several at one instant.
                notice = Action("worker_registered", f"w{number}-{again}", {})
                coordinator.notices.append((coordinator.now(), notice))
        (whole,) = await pages(house, 1_000)
        assert [each["position"] for each in whole if each["position"]] == list(
            range(1, coordinator.state.position + 1)
        )
        assert sum(each["position"] is None for each in whole) == 6
        for limit in range(1, len(whole) + 1):
            parts = await pages(house, limit)
            assert [each for part in reversed(parts) for each in part] == whole

    inside(story)


def test_what_came_meanwhile_moves_nobodys_pages(inside):
    async def story(house):
        for _ in range(3):
            await house.submit()
        first = (await house.get("/transactions?limit=2")).value
        await house.submit()
        rest = (await house.get(f"/transactions?cursor={first['next']}")).value
        positions = [each["position"] for each in rest["transactions"] + first["transactions"]]
        assert positions == sorted(set(positions))
        assert positions[0] == 1
        assert rest["next"] is None

    inside(story)


def test_notices_alone_can_fill_a_page(inside):
    async def story(house):
        coordinator = house.served.coordinator
        for number in range(5):
            at = Instant(coordinator.now() + number)
            coordinator.notices.append((at, Action("worker_registered", f"w{number}", {})))
        parts = await pages(house, 2)
        names = [each["actor"] for part in reversed(parts) for each in part]
        assert names[-5:] == ["w0", "w1", "w2", "w3", "w4"]

    inside(story)


@pytest.mark.parametrize("cursor", ["x", "1", "1.", ".1", "1.x", "-1.1", "1.1.1", "9" * 30 + ".1"])
def test_a_cursor_that_was_not_given_out_is_refused(inside, cursor: str):
    async def story(house):
        assert (await house.get(f"/transactions?cursor={cursor}")).code == "invalid"

    inside(story)
