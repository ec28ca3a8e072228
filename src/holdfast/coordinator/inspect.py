"""Reading a data folder without owning it: what commands that look at a log stand on.

Nothing here takes the lock or writes. A live folder is read up to its last complete frame.
"""

from holdfast.wal import DiskFull, HistoryGone, LogDamaged, LogInUse, NewerFormat

__all__ = ["DiskFull", "HistoryGone", "LogDamaged", "LogInUse", "NewerFormat"]
