"""The functions that the demos run. Ordinary tasks: nothing here knows that it is a demo."""

import time
from pathlib import Path

from holdfast.client.task import task

WORDS = ("anchor", "bollard", "cleat", "fender", "halyard", "mooring", "shackle", "winch")


@task(retries=3, retry_delay="150ms", jitter=0)
def weigh(item: tuple[int, str]) -> int:
    """The weight of a word, after a little work. Every thirteenth needs a third try.

    How often a word was tried is counted in a file beside the log, as a flaky service would
    remember its visitors.
    """
    number, folder = item
    time.sleep(0.02)
    if number % 13 == 5:
        tries = Path(folder) / f"{number}.tries"
        tries.touch()
        with tries.open("a", encoding="utf-8") as file:
            file.write("x")
        if tries.stat().st_size < 3:
            raise ConnectionError(f"the scales did not answer for item {number}")
    return sum(map(ord, WORDS[number % len(WORDS)])) + number


@task(max_losses=50)
def count_letters(number: int) -> int:
    """A few milliseconds of honest work."""
    time.sleep(0.004)
    return len(WORDS[number % len(WORDS)]) * number
