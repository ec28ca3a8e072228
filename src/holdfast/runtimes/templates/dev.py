"""`dev`: all of a class on one worker, and nothing asked of it beyond being there."""

from typing import Final

from holdfast.core.placing import PACK
from holdfast.runtimes.local import descriptor_of
from holdfast.runtimes.rendering import Style

DESCRIPTOR: Final = descriptor_of("dev", Style(asks_resources=False, spread=PACK, workers_most=1))
