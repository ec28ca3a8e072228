"""The shape of a task: everything that decides where it may run, and beside which others.

Tasks of one shape are one row to whoever places them, however many there are, and may follow each
other in a slot. What is not part of it (retries, labels, the payload) makes no difference there.
"""

from functools import lru_cache

from msgspec import Struct

from holdfast.core.circuit import circuit_of
from holdfast.core.job import Job
from holdfast.core.placing import Constraint, Placing
from holdfast.core.spec import JobSpec

REMEMBERED = 1_024


class Shape(Struct, frozen=True, gc=False, cache_hash=True, kw_only=True):
    """What a slot is held for. `code` is what its process has loaded; `own` names the job where it
    must have slots of its own, so that counting its slots counts its tasks. `gang`: its slots fall
    together. `circuit` is what stops all that run the same function."""

    cpus_milli: int
    memory_bytes: int
    gpus: int
    code: str
    queue: str
    namespace: str
    user: str = ""
    resources: tuple[tuple[str, int], ...] = ()
    constraints: tuple[Constraint, ...] = ()
    keys: tuple[tuple[str, int], ...] = ()
    spread: str = ""
    preempts: bool = False
    own: str = ""
    gang: bool = False
    circuit: str = ""


def shape_of(job: Job) -> Shape:
    """A job that bounds how many of its tasks run at once, that starts as a whole, or that is a
    service shares its slots with nobody."""
    return spec_shape(job.spec, job.job_id if has_own_slots(job) else "")


def has_own_slots(job: Job) -> bool:
    return bool(job.spec.max_parallel or job.spec.placing.gang or job.service is not None)


@lru_cache(maxsize=REMEMBERED)
def spec_shape(spec: JobSpec, own: str = "") -> Shape:
    """The shape that tasks of this spec have; `own` names the job where that is part of it."""
    wishes: Placing = spec.placing
    return Shape(
        cpus_milli=spec.cpus_milli,
        memory_bytes=spec.memory_bytes,
        gpus=spec.gpus,
        # A slot that ran code of one bundle starts anew for that of another.
        code=f"{spec.bundle}:{spec.target}" if spec.bundle else spec.target,
        queue=spec.queue,
        namespace=spec.namespace,
        user=spec.user,
        resources=wishes.resources,
        constraints=wishes.constraints,
        keys=wishes.keys,
        spread=wishes.spread,
        preempts=wishes.preempts,
        own=own,
        gang=wishes.gang,
        circuit=circuit_of(spec),
    )
