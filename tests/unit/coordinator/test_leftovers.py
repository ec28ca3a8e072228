"""Staged files of dead attempts go when nobody can be owed them any more, and not before."""

from holdfast.coordinator.leftovers import removable
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.owed import FILE, Entry
from holdfast.core.state import State
from holdfast.testing.world import World
from holdfast.wire.delivery import Origin
