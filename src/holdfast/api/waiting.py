"""Waiting for whichever comes first."""

import asyncio
from collections.abc import Awaitable
from typing import Any


async def until_any(*what: Awaitable[Any], timeout_s: float | None = None) -> None:
    """Return when one of these has happened or the time is up; the others are let go."""
    tasks = [asyncio.ensure_future(each) for each in what]
    try:
        await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        # What was let go ends here, or its error would be told to nobody.
        await asyncio.gather(*tasks, return_exceptions=True)
