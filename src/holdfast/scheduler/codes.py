"""Every reason there is, by the code that stays: what it means, and what would change it."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct


class Code(Struct, frozen=True):
    """`means` in one sentence, `cure` what would make the task run, or that nothing need be
    done."""

    means: str
    cure: str


CODES: Final[Mapping[str, Code]] = {
    "next": Code(
        "A worker has room for it: the next round gives it out.",
        "Nothing: it is about to start.",
    ),
    "in_line": Code(
        "There is room, and tasks of its own job or of others that came before it are given out "
        "first.",
        "It moves up as they start; a higher --priority goes before them.",
    ),
    "kept_for_others": Code(
        "There is room, and it is kept for something more urgent that waits for more of it.",
        "It runs when those have started, or beside them where there is more room; a higher "
        "--priority goes before them.",
    ),
    "making_room": Code(
        "Attempts of lower priority are being ended so that it fits.",
        "Nothing: it starts when they have ended.",
    ),
    "dependency": Code(
        "Its job comes after another job or task that has not ended yet.",
        "It runs when what it comes after has ended as it should.",
    ),
    "dependency_failed": Code(
        "What its job comes after ended in another way, and can no longer come true by itself.",
        "Retry what it comes after, or cancel it.",
    ),
    "not_begun": Code(
        "It was asked not to begin before a time that has not come.",
        "Wait, or reschedule it to now.",
    ),
    "backing_off": Code(
        "An attempt failed or was lost, and the pause before the next one is not over.",
        "Wait, or reschedule it to now.",
    ),
    "unready": Code(
        "A replica of a service runs and cannot be asked: it is starting, stopping, or its probe "
        "says no.",
        "Wait, or look at what it prints: `holdfast task logs`.",
    ),
    "restarting": Code(
        "A replica of a service ended by itself, and the pause before it is begun again is not "
        "over.",
        "Wait, or reschedule it to now; `holdfast task logs` tells why it ended.",
    ),
    "retry_budget": Code(
        "An attempt failed, and its job has used up the retries that it may make in a span of "
        "time.",
        "It is retried when the budget has room; reschedule it to now, or retry the job with a "
        "larger --retry-budget.",
    ),
    "circuit_open": Code(
        "The function it runs failed so often in a row that it is given out no more for a while, "
        "or one at a time to find out whether it works again; or somebody opened its circuit.",
        "It runs when a trial has succeeded; close the circuit once the trouble is over.",
    ),
    "queue_paused": Code(
        "Somebody paused its queue.",
        "Resume the queue.",
    ),
    "max_parallel": Code(
        "Its job runs as many tasks at once as it was told to.",
        "It runs when another task of its job ends.",
    ),
    "limit_namespace": Code(
        "Its namespace has as much running at once as a limit allows: tasks, or what they take.",
        "It runs when one of those that hold the limit ends, or when the limit is raised.",
    ),
    "limit_user": Code(
        "Its user has as much running at once as a limit allows: tasks, or what they take.",
        "It runs when one of those that hold the limit ends, or when the limit is raised.",
    ),
    "limit_key": Code(
        "As much holds one of its keys at once as may: tasks, or what they take.",
        "It runs when one of those that hold the key ends, or when the limit is raised.",
    ),
    "rate_namespace": Code(
        "As many tasks of its namespace have started as may in a span of time.",
        "It runs when the span has passed, or when the limit is raised.",
    ),
    "rate_user": Code(
        "As many tasks of its user have started as may in a span of time.",
        "It runs when the span has passed, or when the limit is raised.",
    ),
    "rate_key": Code(
        "As many tasks with one of its keys have started as may in a span of time.",
        "It runs when the span has passed, or when the limit is raised.",
    ),
    "log_suspended": Code(
        "The log was forked or salvaged, and gives nothing out before somebody has looked at it.",
        "It runs when the log is resumed.",
    ),
    "disk_full": Code(
        "The disk that holds the log is full, so nothing is given out that would have to be "
        "written down.",
        "Free some space on it.",
    ),
    "disk_slow": Code(
        "The disk that holds the log takes so long that a lease could be over before it is "
        "written down.",
        "It runs when the disk is quick again.",
    ),
    "server_leaving": Code(
        "The server is being stopped and gives nothing out.",
        "It runs when a server is started again.",
    ),
    "no_worker": Code(
        "No worker is connected.",
        "Start a worker.",
    ),
    "constraint_unmet": Code(
        "What it requires of a worker's attributes holds on none of those that are connected.",
        "Start a worker with such attributes, or cancel it and submit it with other constraints.",
    ),
    "too_large": Code(
        "No worker has all that it needs, even when nothing else runs there.",
        "Start a worker that has as much, or cancel it and submit it with less.",
    ),
    "workers_busy": Code(
        "Workers that it fits on have something else to do.",
        "It runs when what runs there ends; more workers make that sooner.",
    ),
    "workers_cordoned": Code(
        "Workers that it fits on are cordoned: they are given nothing new.",
        "Uncordon a worker.",
    ),
    "workers_draining": Code(
        "Workers that it fits on are draining: they finish what they have and take nothing new.",
        "Uncordon a worker, or start another.",
    ),
    "workers_silent": Code(
        "Workers that it fits on have not been heard of for a while.",
        "Look at their machines and their network, or start another.",
    ),
    "workers_avoided": Code(
        "It failed on this worker a moment ago, and another one would do.",
        "It runs when the other one has room.",
    ),
    "workers_unknown": Code(
        "Nobody can say which workers there were: the notes of the fleet do not reach back so "
        "far, or there are none.",
        "Ask a running server, or look at a later moment.",
    ),
    "gang_not_ready": Code(
        "The tasks of its gang start together, and some of them cannot start yet.",
        "It runs when the last of them can.",
    ),
    "gang_room": Code(
        "The tasks of its gang start together, and there is not room for all of them at once.",
        "It runs when there is room for all; more workers, or fewer tasks, make that sooner.",
    ),
    "held": Code(
        "A worker has it.",
        "Nothing: it runs, or is about to.",
    ),
    "stalled": Code(
        "It hangs: for too long nothing happened that should have.",
        "`holdfast stall list` tells of it; an attempt that hangs can be ended, within its budget.",
    ),
    "delivering": Code(
        "It has a result, and what that owes others is being delivered.",
        "Nothing: it ends when that is done.",
    ),
    "in_block": Code(
        "It has committed, and goes on with what it does after that.",
        "Nothing: it ends when it leaves the block.",
    ),
    "effect_backing_off": Code(
        "It has a result; a delivery that this owes failed, and the pause before the next try is "
        "not over.",
        "Wait, or retry the effect.",
    ),
    "effect_behind": Code(
        "It has a result; a delivery that this owes comes after another one with the same key.",
        "Look at the one before it.",
    ),
    "effect_parked": Code(
        "It has a result; something that this owes was tried as often as it may be, or cannot be "
        "done.",
        "Retry the effect, or discard it.",
    ),
    "no_sink": Code(
        "It has a result; something that this owes is for a sink that is not in the settings.",
        "Put the sink into the settings, or discard the effect.",
    ),
    "no_carrier": Code(
        "It has a result; nobody is there who could deliver what this owes.",
        "Start a worker that can.",
    ),
    "finished": Code(
        "It has ended.",
        "Where it failed, or nobody took it in time: retry the job, under other terms if need be.",
    ),
    "service": Code(
        "Its job is a service, which has no end of its own.",
        "End the service when it is not needed any more.",
    ),
    "open": Code(
        "The job is still being fed, so that it cannot end yet.",
        "It ends when its feeder says that there is no more.",
    ),
}  # fmt: skip
