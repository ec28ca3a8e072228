"""What the tests with real faults share: the tools they need, and programs to break."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.scribes import Scribes
from holdfast.testing.tools import lacking


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test whose tools are missing is left out, and says which they are."""
    wanted = [name for mark in item.iter_markers("needs") for name in mark.args]
    missing = lacking(*wanted)
    if missing:
        pytest.skip(f"this needs {', '.join(missing)}")


@pytest.fixture
def scribes(tmp_path: Path) -> Iterator[Scribes]:
    with Scribes(tmp_path / "said.txt") as hired:
        yield hired
