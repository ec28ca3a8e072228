"""What is still taken while the disk is short of room or of speed.

Work that is there must be able to end, so whatever ends it, renews it or cleans up is taken as long
as there is a byte for it. What makes more of it is the first to be refused.
"""

from typing import Final

from holdfast.core import commands as c
from holdfast.core import commands_operations as operations
from holdfast.core import commands_owed as owed
from holdfast.core import commands_resources as resources
from holdfast.core import commands_schedules as schedules
from holdfast.core import commands_stalls as stalls
from holdfast.core.decision import Reason, Refused

GROWS: Final[frozenset[type[c.Command]]] = frozenset(
    {
        c.SubmitJob,
        c.AddTasks,
        c.RetryTasks,
        schedules.SetSchedule,
        schedules.FireSchedule,
        schedules.BackfillSchedule,
        operations.BeginOperation,
        resources.PutResource,
    }
)
"""What makes more work: refused below the first mark, and while the disk is slow."""

NEEDED: Final[frozenset[type[c.Command]]] = frozenset(
    {
        c.OpenLog,
        c.StartAttempts,
        c.CommitTasks,
        c.CommitGang,
        c.FailAttempt,
        c.ReleaseAttempts,
        c.GrantLeases,
        c.GrantGang,
        c.PreemptAttempts,
        c.ExtendLeases,
        c.ExpireLeases,
        c.RearmLeases,
        c.LoseWorker,
        c.SealJob,
        c.RemoveEndpoint,
        c.InstallSnapshot,
        c.Tick,
        c.SettleTies,
        owed.ConfirmDeliveries,
        owed.FailDelivery,
        owed.ParkEffects,
        schedules.SkipInstants,
        stalls.RecoverStalled,
        operations.EndOperation,
        c.RecordRepair,
    }
)
"""What workers report and what the coordinator does by itself: taken below both marks. Everything
else is what people ask for, and is refused below the second. A grant is here because whoever gives
does not ask for one then."""

MESSAGES: Final[dict[Reason, str]] = {
    Reason.DISK_LOW: (
        "the disk that holds the log has little room left, so no more work is taken; what is there "
        "goes on. Free some space: `holdfast log stats` shows what the log takes"
    ),
    Reason.DISK_FULL: (
        "the disk that holds the log is full, so nothing is changed; only what runs may end. "
        "Free some space: `holdfast log stats` shows what the log takes"
    ),
    Reason.DISK_SLOW: (
        "the disk that holds the log is slow, and too much waits for it already. "
        "Try again in a moment"
    ),
}


def refusal(kind: type[c.Command], short: Reason | None) -> Refused | None:
    """Why a command of this kind is not taken while the disk is short of something."""
    if short is None or kind in NEEDED:
        return None
    if short is Reason.DISK_FULL or kind in GROWS:
        return Refused(short, MESSAGES[short])
    return None
