"""`edge`: replicas ask for what they need and stand on different workers where they can."""

from typing import Final

from holdfast.core.placing import SPREAD
from holdfast.runtimes.local import descriptor_of
from holdfast.runtimes.rendering import Style

DESCRIPTOR: Final = descriptor_of("edge", Style(asks_resources=True, spread=SPREAD, workers_most=0))
