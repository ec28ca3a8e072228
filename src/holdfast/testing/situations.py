"""Tasks and their surroundings, as values: for tests of what is said about them."""

from typing import Any

from holdfast.core.ids import Instant, WorkerId
from holdfast.core.shape import Shape
from holdfast.core.spec import JobSpec
from holdfast.core.task import TaskState
from holdfast.scheduler.desks import Desk
from holdfast.scheduler.explain import Situation, explain
from holdfast.scheduler.reasons import Reason
from holdfast.scheduler.seats import Amounts, Slot, seat_of

NOW, WALL = Instant(1_000_000), Instant(9_000_000)


def a_shape(spec: JobSpec) -> Shape:
    return Shape(
        cpus_milli=spec.cpus_milli, memory_bytes=spec.memory_bytes, gpus=spec.gpus, code="true",
        queue=spec.queue, namespace=spec.namespace, resources=spec.placing.resources,
        constraints=spec.placing.constraints,
    )  # fmt: skip


def a_desk(
    name: str,
    *held: Shape,
    slots: int = 1,
    standing: str = "open",
    frees_ms: int | None = None,
    zone: str = "",
    **total: Any,
) -> Desk:
    """A worker of one cpu, unless told otherwise, with a slot for each of what it holds and
    `slots` in all."""
    has = Amounts(**{"cpus_milli": 1_000, **total})
    shapes = [*held, *[None] * (slots - len(held))]
    rows = [Slot(n, int(shape is not None), shape) for n, shape in enumerate(shapes)]
    attributes = {"zone": zone} if zone else {}
    return Desk(seat_of(WorkerId(name), 1, has, rows, attributes), standing, frees_ms)


def a_spec(**needs: Any) -> JobSpec:
    return JobSpec(name="j", kind="command", target="true", **needs)


def here(**rest: Any) -> Situation:
    spec = rest.pop("spec", a_spec())
    known = {"state": TaskState.WAITING, "desks": (ROOMY,), "shape": a_shape(spec), **rest}
    return Situation(job_id="5", task="5/3", spec=spec, now=NOW, wall=WALL, **known)


SMALL = a_shape(a_spec())
ROOMY = a_desk("w1")
FULL = a_desk("w2", SMALL)


def only(situation: Situation) -> Reason:
    (reason,) = explain(situation)
    return reason
