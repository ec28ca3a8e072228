"""The processes that a server starts beside itself: what is not wanted any more is told so."""

import asyncio
import sys

import psutil
import pytest

from holdfast.api.crew import Crew

PATIENCE_S = 60
# Listens to whoever asks it to end, and never ends by itself.
STAYS = (sys.executable, "-c", "import signal; signal.pause()")


async def being_started(house):
    """A crew whose delivery process is there, though its parent does not have it in hand yet."""
    crew = Crew(
        house.served,
        0,
        url="http://127.0.0.1:1",
        token_file=house.served.log.path / "token",
        delivery=STAYS,
    )
    before = set(psutil.Process().children())
    crew.start()
    crew.deliver(is_wanted=True)
    await asyncio.sleep(0)
    (process,) = set(psutil.Process().children()) - before
    return crew, process


@pytest.mark.parametrize("leaves", [False, True], ids=["unwanted", "the server stops"])
def test_a_process_that_is_unwanted_while_it_is_started_ends(inside, leaves):
    async def story(house):
        crew, process = await being_started(house)
        if leaves:
            # So long that only a word to the process can end it in time.
            stopping = asyncio.ensure_future(crew.stop(10 * PATIENCE_S))
        else:
            crew.deliver(is_wanted=False)
            stopping = None
        async with asyncio.timeout(PATIENCE_S):
            while process.is_running():
                await asyncio.sleep(0.01)
        await (stopping or crew.stop(PATIENCE_S))

    inside(story)
