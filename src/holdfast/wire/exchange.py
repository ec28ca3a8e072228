"""The exchange: what a worker says happened, and what it is told to do next.

A worker pulls. It numbers its exchanges within an incarnation and names the last reply it
received, so that a grant in a lost reply is repeated and one that was received but is not held
ends at once. Local workers speak these very messages in memory; a transport adds bytes, nothing
else. Times are spans ending now (`ran_ms`), never instants: two machines share no clock.
"""

from msgspec import Struct

from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.core.reports import Done, Failed, Released, Started
from holdfast.wire.delivery import Bounced, DebtName, Origin, Parcel
from holdfast.wire.servicing import PartitionNews, Sample, ServiceNews

COMMITTED, LEASE_LOST, REFUSED = "COMMITTED", "LEASE_LOST", "REFUSED"
"""What a verdict says. Final, each of them."""

ANOTHER_LOG = "another log"
"""Why a lease is lost that was granted by the log from which this one was forked, or by any other
that the worker has worked for."""

NOT_STORED = "not_stored"
"""The code of the no to an exchange with a large result that has to be brought first, or again:
nothing of it was taken, and the very same may be sent after that."""

__all__ = [
    "ANOTHER_LOG",
    "COMMITTED",
    "LEASE_LOST",
    "NOT_STORED",
    "REFUSED",
    "Capacity",
    "Done",
    "Exchange",
    "Failed",
    "Hello",
    "Item",
    "Lingering",
    "PartitionNews",
    "Progress",
    "Released",
    "Reply",
    "Run",
    "Sample",
    "ServiceNews",
    "Started",
    "Verdict",
    "is_empty",
]


class Item(Struct, frozen=True, array_like=True, gc=False):
    """One leased task of a run. `payload` is opaque: only the worker's runner reads it."""

    index: Index
    lease_id: LeaseId
    attempt: int
    payload: bytes


class Run(Struct, frozen=True, array_like=True, gc=False):
    """Leased tasks of one job for one slot, to be run one after another in this order.

    `alone` marks a task whose last attempt ended in a death: its start must be durable (reported
    and answered) before it runs, so that a task which kills its host is found by name.
    `on_disconnect` says what becomes of an attempt whose lease can no longer be renewed, and
    `memory_bytes` how much memory it may use; zero for no bound. `bundle` is the digest of the code
    it needs, which the worker fetches; empty for none. `cpus_milli`, `memory_bytes` and `gpus` are
    what an attempt takes of the worker for as long as it really runs. `sinks` are the names that an
    effect may be given. `stall_ms`: an attempt that tells no progress for so long has failed.
    `log_id` names the log that the leases are of. Of a `gang` all commit together.
    """

    job_id: JobId
    slot: int
    kind: str
    target: str
    timeout_ms: int
    term_ms: int
    alone: bool
    task_count: int
    items: tuple[Item, ...]
    on_disconnect: str = ""
    memory_bytes: int = 0
    bundle: str = ""
    cpus_milli: int = 0
    gpus: int = 0
    resources: tuple[tuple[str, int], ...] = ()
    sinks: tuple[str, ...] = ()
    stall_ms: int = 0
    log_id: str = ""
    gang: bool = False


class Lingering(Struct, frozen=True, array_like=True, gc=False):
    """An attempt that is over for everybody else and still runs: where, and what it takes.

    It is told with the attempt, because a coordinator that was started since does not know it.
    """

    lease_id: LeaseId
    slot: int
    cpus_milli: int
    memory_bytes: int
    gpus: int
    resources: tuple[tuple[str, int], ...] = ()
    job_id: JobId = JobId("")


class Capacity(Struct, frozen=True, array_like=True, gc=False):
    """What a worker offers. `slots` bounds how many attempts run at once; `resources` are named
    amounts beyond the usual, in thousandths."""

    slots: int
    cpus_milli: int
    memory_bytes: int
    gpus: int
    resources: tuple[tuple[str, int], ...] = ()


class Hello(Struct, frozen=True, array_like=True):
    """Who a worker is: told with its first exchange, and again when it is asked to.

    `lock` names a lock on the worker's machine that only one process can hold: another process
    that holds the same one proves that its former holder is dead. `memory_caps` is how it holds
    commands to the memory they asked for: by `cgroup`, by `rlimit`, or by nothing (`none`).
    `delivers` says from where it delivers effects: as a worker, as the server's own process, or
    not at all. `places` are the file systems that are surely its own.
    """

    host: str
    pid: int
    version: str
    address: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    lock: str = ""
    memory_caps: str = ""
    delivers: tuple[str, ...] = ()
    places: tuple[str, ...] = ()


class Progress(Struct, frozen=True, array_like=True, gc=False):
    """How far an attempt says it has come. `total` zero: it did not say of how much."""

    lease_id: LeaseId
    done: int
    total: int
    note: str


class Exchange(Struct, frozen=True, array_like=True):
    """One message of a worker. Reports are repeated until a reply names this number.

    `held` are the leases it has a right to, as far as it knows. `lingering` are attempts that have
    none any more and still run, and `occupied` is how many slots they keep: nothing else fits there
    until a later exchange names them no more. `leaving`: these are its last words. Nothing runs
    there, nothing will, and its name is free. `delivered` and `bounced` say what became of
    deliveries, and of blocks that tasks ran after their commits; `carrying` are those it still has
    in hand. `progress` is where attempts stand that said so. `leftovers` are attempts whose staged
    files lie about on the worker's machine: the reply says which of them nobody is owed. `log_id`
    names the log of the replies so far, and so of all that is held and carried; empty before the
    first one, and from workers that do not know of it. `epoch` is that of the last reply: only who
    has heard from this coordinator can say what of a former one's never came. `services` tells how
    services stand that it runs, where that changed, `samples` what they take, and `partitions` what
    members of data grids tell.
    """

    worker: WorkerId
    incarnation: int
    number: int
    seen: int
    capacity: Capacity
    started: tuple[Started, ...]
    done: tuple[Done, ...]
    failed: tuple[Failed, ...]
    released: tuple[Released, ...]
    held: tuple[LeaseId, ...]
    occupied: int
    draining: bool
    hello: Hello | None = None
    lingering: tuple[Lingering, ...] = ()
    leaving: bool = False
    delivered: tuple[DebtName, ...] = ()
    bounced: tuple[Bounced, ...] = ()
    carrying: tuple[DebtName, ...] = ()
    progress: tuple[Progress, ...] = ()
    leftovers: tuple[Origin, ...] = ()
    log_id: str = ""
    epoch: int = 0
    services: tuple[ServiceNews, ...] = ()
    samples: tuple[Sample, ...] = ()
    partitions: tuple[PartitionNews, ...] = ()


def is_empty(exchange: Exchange) -> bool:
    """Whether it reports nothing: the coordinator may park it, and a newer one overtake it."""
    return not (
        exchange.started or exchange.done or exchange.failed or exchange.released
        or exchange.delivered or exchange.bounced or exchange.progress or exchange.leftovers
        or exchange.services or exchange.samples or exchange.partitions
    )  # fmt: skip


class Verdict(Struct, frozen=True, array_like=True, gc=False):
    """A report that was not simply accepted. Final: the worker drops the attempt. Where another
    attempt has committed, this one is a duplicate: `why` says so, and `result` is what the other
    committed, unless that lies in the store."""

    lease_id: LeaseId
    verdict: str
    why: str
    result: bytes = b""


class Reply(Struct, frozen=True, array_like=True):
    """The answer to exchange `number`: every report in it not named in `verdicts` was accepted.

    `stops` end attempts that lost their right to run; `recalls` ask back leases that have not
    started, and the worker answers with `released` for those it could still take out. `refused`
    says why this worker may not work at all; `who` asks it to introduce itself again. `good_ms` is
    how long, counted from when the exchange came, every lease the worker holds is good at least,
    those of `runs` included. The worker counts it from when it sent the exchange, so that it never
    believes in a lease longer than the coordinator does. Zero where leases do not end by time.
    `drain`: an operator wants this worker to take nothing more and to give back what it has not
    started, for as long as replies say so. `kept`: results in this exchange that belong to gangs
    and are neither accepted nor lost before the last of the gang has come. The worker goes on
    holding them, tells them again when it is asked who it is, and hears of each as of a stop.
    `parcels` are entries to deliver. `removable` answers `leftovers`. `log_id` names the log that
    answers: where it is another than before, whatever the worker holds or carries is lost. `epoch`
    tells one coordinator on that log from the next. `scrapes` are replicas whose own metrics are to
    be read from now on, for as long as they run; what is not named is left as it is.
    """

    number: int
    verdicts: tuple[Verdict, ...]
    stops: tuple[Verdict, ...]
    recalls: tuple[LeaseId, ...]
    runs: tuple[Run, ...]
    refused: str = ""
    who: bool = False
    good_ms: int = 0
    drain: bool = False
    kept: tuple[LeaseId, ...] = ()
    parcels: tuple[Parcel, ...] = ()
    removable: tuple[LeaseId, ...] = ()
    log_id: str = ""
    epoch: int = 0
    scrapes: tuple[LeaseId, ...] = ()
