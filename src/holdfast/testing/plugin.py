"""A plugin for pytest: the fixture `holdfast`, a cluster in virtual time for tests of your tasks.

Nothing else of Holdfast is loaded before a test asks for the fixture. See docs/testing.md.
"""

import importlib
from collections.abc import Iterator
from typing import Any, Final

import pytest

MARK: Final = "holdfast"
DESCRIPTION: Final = (
    "holdfast(workers=2, slots=1, lease_term='15s', seed=0, resources=None): "
    "the cluster that the fixture `holdfast` gives to this test"
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", DESCRIPTION)


@pytest.fixture(name="holdfast")
def rehearsal(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A cluster in this process whose time stands still until it is told to pass: submit your own
    functions, kill what you like, and see what came of it."""
    mark = request.node.get_closest_marker(MARK)
    options = {} if mark is None else mark.kwargs
    found = importlib.import_module("holdfast.testing.rehearsal").Rehearsal(**options)
    try:
        yield found
    except BaseException:
        found.abort()
        raise
    found.close()
