"""Two workers and a coordinator that keeps runtimes."""

import pytest

from holdfast.testing.hosted import Hosted


@pytest.fixture
def hosted() -> Hosted:
    town = Hosted()
    town.settle()
    return town
