"""The functions that the demos run. Ordinary tasks: nothing here knows that it is a demo."""

import time
from pathlib import Path

from holdfast.client.task import task

WORDS = ("anchor", "bollard", "cleat", "fender", "halyard", "mooring", "shackle", "winch")


@task(retries=3, retry_delay="150ms", jitter=0)
def weigh(item: tuple[int, str]) -> int:
    """The weight of a word, after a little work. Every thirteenth item needs a third try.

    How often it was tried is counted in a file, as a flaky service would count its visitors.
    """
    number, folder = item
    time.sleep(0.02)
    if number % 13 == 5:
        with (Path(folder) / f"{number}.tries").open("a", encoding="utf-8") as tries:
            tries.write("x")
            if tries.tell() < 3:
                raise ConnectionError(f"the scales did not answer for item {number}")
    return sum(map(ord, WORDS[number % len(WORDS)])) + number


@task(max_losses=50)
def count_letters(number: int) -> tuple[int, int]:
    """The item and what it came to, after a few milliseconds of work."""
    time.sleep(0.004)
    return number, len(WORDS[number % len(WORDS)]) * number
