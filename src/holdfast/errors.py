"""What may be raised, under the name users write: `from holdfast.errors import Refused`."""

from holdfast.client.errors import *  # noqa: F403 - the same names, all of them
from holdfast.client.errors import __all__ as __all__
