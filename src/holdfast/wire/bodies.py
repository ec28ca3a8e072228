"""What is asked over HTTP, as JSON for people and as msgpack for programs.

Durations are written `90s`, sizes `512Mi`, instants as RFC 3339. Bytes are base64 in JSON. A field
nobody knows is a mistake, and is told.
"""

from typing import Any

from msgspec import UNSET, Struct, UnsetType, field


class Body(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every request has in common: nothing is guessed."""


class Retry(Body):
    """How long a failed task waits: `none`, `fixed`, `linear` or `exponential`."""

    backoff: str = "exponential"
    delay: str = "1s"
    factor: float = 2.0
    max_delay: str = "1m"
    jitter: float = 0.5


class Command(Body):
    """A program to run: an argument list, never a line for a shell.

    `env` is added to the little that a worker passes on; a value `secret:NAME` is looked up by the
    worker and is never stored. `cwd` is relative to the task's own folder, or absolute. Packed as
    msgpack it is the payload that every task of a job of commands shares.
    """

    argv: list[str]
    env: dict[str, str] = {}
    cwd: str = ""


class Constraint(Body):
    """What an attribute of a worker should be: `eq`, `ne`, `in`, `exists`, `gt`, `ge`, `lt` or
    `le`. Weight 0 must hold; 1 to 100 is a preference."""

    attribute: str
    operator: str
    values: list[str] = []
    weight: int = 0


class After(Body):
    """A job, or one task of it, that must have come to an end: `success`, `finish` or
    `failure`."""

    job: str
    task: int | None = None
    condition: str = "success"


class Submit(Body):
    """A job. Either `command`, or a Python function by `target` (`module:qualname`) with `items`,
    one encoded call a task, or with `count` and `shared` for an array. Of a command `count` tasks
    run, one where it is not given.

    `kind` is `command`, `function`, `array` or `pickle`. An open job (`sealed` false) is fed
    further. `key` makes a repeat find the first job, for `unique_for` or as long as it is kept;
    `existing` is `keep`, `replace` or `refuse`. `watch` names a stream that is to be told.

    `resources` are named amounts, `constraints` objects or texts such as `zone == eu`, `keys` names
    that so many tasks may hold at once, `spread` is `pack` or `spread`. A `gang` starts whole.
    It comes after what `after` names; `on_failed_parent` says what becomes of it where that cannot
    be: `fail` or `wait`. With its `parent` it ends, unless `detached`. `must_fit`: refused where no
    worker that is there could ever run it. Who asks is told by the token. An attempt that tells no
    progress for `stall_timeout`, or as a command prints nothing, has failed.
    """

    kind: str = "command"
    name: str = ""
    command: Command | None = None
    target: str = ""
    items: list[bytes] = []
    count: int | None = None
    shared: bytes = b""
    sealed: bool = True
    key: str = ""
    digest: bytes = b""
    retries: int = 0
    max_losses: int = 10
    retry: Retry = field(default_factory=Retry)
    timeout: str = ""
    job_timeout: str = ""
    schedule_timeout: str = ""
    stall_timeout: str = ""
    cpus: float = 1.0
    memory: str = ""
    gpus: int = 0
    max_parallel: int = 0
    max_failed_tasks: int | None = None
    retry_budget: str = ""
    circuit: str = ""
    priority: int = 0
    namespace: str = "default"
    queue: str = "default"
    labels: dict[str, str] = {}
    bundle: str = ""
    on_disconnect: str = ""
    delay: str = ""
    not_before: str = ""
    deadline: str = ""
    watch: str = ""
    resources: dict[str, float] = {}
    constraints: list[Constraint | str] = []
    keys: dict[str, int] = {}
    spread: str = ""
    gang: bool = False
    gang_by: str = ""
    preempt: bool = False
    after: list[After] = []
    on_failed_parent: str = "fail"
    parent: str = ""
    detached: bool = False
    unique_for: str = ""
    existing: str = "keep"
    must_fit: bool = False


class Items(Body):
    """More items for an open job. `first` is how many the feeder believes the job has, so that a
    repeat is known; `digest` covers all items so far."""

    first: int
    items: list[bytes]
    digest: bytes = b""


class Seal(Body):
    """No more items will come."""

    count: int
    interrupted: bool = False


class Reason(Body):
    """Why somebody asks for this."""

    reason: str = ""


class Repairs(Body):
    """Have what is wrong mended, or only said what would be done."""

    dry_run: bool = False
    reason: str = ""


class Edits(Body):
    """Other terms for a job that has ended, under the names it was submitted with. What is left
    out stays as it was."""

    retries: int | UnsetType = UNSET
    max_losses: int | UnsetType = UNSET
    retry: Retry | UnsetType = UNSET
    timeout: str | UnsetType = UNSET
    job_timeout: str | UnsetType = UNSET
    schedule_timeout: str | UnsetType = UNSET
    stall_timeout: str | UnsetType = UNSET
    cpus: float | UnsetType = UNSET
    memory: str | UnsetType = UNSET
    gpus: int | UnsetType = UNSET
    max_parallel: int | UnsetType = UNSET
    max_failed_tasks: int | UnsetType | None = UNSET
    retry_budget: str | UnsetType = UNSET
    circuit: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    resources: dict[str, float] | UnsetType = UNSET
    constraints: list[Constraint | str] | UnsetType = UNSET
    keys: dict[str, int] | UnsetType = UNSET
    spread: str | UnsetType = UNSET
    gang_by: str | UnsetType = UNSET
    preempt: bool | UnsetType = UNSET


class Retries(Body):
    """Which tasks to send back with fresh budgets; none named: all that may come back. `set` names
    what is to be different this time."""

    indices: list[int] = []
    reason: str = ""
    set: Edits | None = None


class ChosenEffects(Body):
    """Which of what commits owe an order is about: those named by `ids` (`12/3.0`), or else the
    parked ones of a `sink`, a `job` or a `kind`; `every` for all that are parked."""

    ids: list[str] = []
    sink: str = ""
    job: str = ""
    kind: str = ""
    every: bool = False
    reason: str = ""


class ChosenStalls(Body):
    """Which attempts that hang are to be ended: those named by `ids` (`12/3:2`), or with `every`
    all that can be."""

    ids: list[str] = []
    every: bool = False
    reason: str = ""


class ChosenCases(Body):
    """Which tasks in quarantine an order is about: those named by `ids` (`12/3`), or those that fit
    all the rest; `every` for all there are. `canary`: one of each fingerprint. `older_than` is a
    duration. `dry_run`: say which, and leave them."""

    ids: list[str] = []
    reasons: list[str] = []
    job: str = ""
    fingerprint: str = ""
    older_than: str = ""
    name: str = ""
    every: bool = False
    canary: bool = False
    dry_run: bool = False
    reason: str = ""


class Force(Body):
    """To which state a task is moved by hand, and why."""

    to: str
    reason: str


class NewLimit(Body):
    """How much a namespace, a user or a key may have running at once, how much its tasks may take
    together, and how many may start in a while: `rate` is written `10/1m`. A namespace may have a
    weight in fair shares. null is no bound. PUT bounds what is named and nothing else; PATCH
    leaves the rest as it was."""

    running: int | UnsetType | None = UNSET
    rate: str | UnsetType | None = UNSET
    weight: int | UnsetType | None = UNSET
    cpus: float | UnsetType | None = UNSET
    memory: str | UnsetType | None = UNSET
    gpus: int | UnsetType | None = UNSET
    resources: dict[str, float | None] = {}


class Reschedule(Body):
    """When a waiting task may begin: after a delay, at an instant, or now."""

    delay: str = ""
    not_before: str = ""


class NewToken(Body):
    """Who may ask for what. `ttl` empty: until it is revoked. `worker` binds a worker's token to
    one worker's name."""

    name: str
    scopes: list[str]
    ttl: str = ""
    worker: str = ""


class NewEndpoint(Body):
    """Where an attempt can be reached, under the lease it is held by."""

    job_id: str
    index: int
    lease_id: int
    worker: str
    incarnation: int
    address: str
    metadata: dict[str, str] = {}


class Watch(Body):
    """Jobs to be told of on a stream, and jobs that nobody there wants to hear of any more. What
    is dropped is dropped first."""

    jobs: list[str]
    drop: list[str] = []


class Outcome(Struct, kw_only=True):
    """How a task ended: its result, or what it ended with. A large result is told by its digest
    and its size; `GET /tasks/JOB/INDEX/result` has its bytes."""

    index: int
    state: str
    result: bytes | None = None
    result_digest: str = ""
    result_bytes: int = 0
    error: str = ""
    traceback: str = ""
    exit_code: int | None = None


class Problem(Struct, kw_only=True, omit_defaults=True):
    """Why a request got no other answer (RFC 9457). `code` is stable; `detail` is for people."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    instance: str = ""
    reasons: list[str] = []
    trace_id: str = ""
    extra: dict[str, Any] = {}


class Query(Body):
    """A question in SQL. `at` is a position or a time, empty for now; `limit` 0 gives all rows."""

    sql: str
    limit: int = 10_000
    timeout: str = "30s"
    at: str = ""
