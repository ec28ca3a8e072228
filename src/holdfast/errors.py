"""What may be raised, under the name users write: `from holdfast.errors import Refused`."""

from holdfast.client import errors
from holdfast.client.errors import *  # noqa: F403 - the same names, all of them

__all__ = errors.__all__
