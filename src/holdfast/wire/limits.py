"""Limits as people write them, and as they are recorded. A `ValueError` says what is wrong."""

from typing import Any, Final

from msgspec import UNSET

from holdfast.wire.amounts import size_bytes
from holdfast.wire.bodies import NewLimit
from holdfast.wire.rates import rate_of
from holdfast.wire.wishes import MILLI, milli

CPUS: Final = "cpus"
MEMORY: Final = "memory"
GPUS: Final = "gpus"
WHOLE: Final = (MEMORY, GPUS)
"""What is not counted in thousandths."""


def changes_of(body: NewLimit) -> dict[str, Any]:
    """What a body names, as fields of the command that sets it."""
    found: dict[str, Any] = {}
    if body.running is not UNSET:
        found["running"] = _counted(body.running, "running")
    if body.rate is not UNSET:
        found["starts"], found["per_ms"] = rate_of(body.rate or "")
    if body.weight is not UNSET:
        found["weight"] = 1 if body.weight is None else body.weight
    found["amounts"] = _amounts(body)
    return found


def _amounts(body: NewLimit) -> tuple[tuple[str, int], ...]:
    strange = [name for name in body.resources if name in (CPUS, *WHOLE)]
    if strange:
        raise ValueError(f"{strange[0]} has a field of its own and is no named resource")
    told: dict[str, int] = {}
    if body.cpus is not UNSET:
        told[CPUS] = milli(_counted(body.cpus, CPUS), CPUS)
    if body.memory is not UNSET:
        told[MEMORY] = _counted(
            None if body.memory is None else size_bytes(body.memory, MEMORY), MEMORY
        )
    if body.gpus is not UNSET:
        told[GPUS] = _counted(body.gpus, GPUS)
    for name, amount in body.resources.items():
        told[name] = milli(_counted(amount, name), name)
    return tuple(sorted(told.items()))


def _counted(value: Any, name: str) -> Any:
    """Nothing is no bound; a bound of nothing would let nothing run, and that is not said so."""
    if value is None:
        return 0
    if value <= 0:
        raise ValueError(
            f"{name}={value} would let nothing run; pause a queue instead, or take the bound away "
            "with none"
        )
    return value


def amount_told(name: str, amount: int) -> float:
    """A bound of a resource as it is written."""
    return amount if name in WHOLE else amount / MILLI
