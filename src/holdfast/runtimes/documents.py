"""A runtime as it is stored and as it is shown.

The status is stored as canonical bytes with the number of its format. It is shown under the names
that users and tools know: `observedGeneration` and what is inside `conditions` as every tool for
such resources reads them, the rest in small letters.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes.manifest import told
from holdfast.runtimes.resource import API_VERSION, KIND, Resource
from holdfast.runtimes.status import (
    NEW,
    AppliedRecommendation,
    Condition,
    FunctionStatus,
    Recommendation,
    RolloutProgress,
    Status,
)

STATUS_FORMAT: Final = 1

Spell = Callable[[Instant], str]
"""How an instant is written: whoever shows it knows the calendar."""


class StoredStatus(Struct, frozen=True, kw_only=True):
    """A status with the format it was written in."""

    format: int
    status: Status


_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_DECODER: Final = msgspec.json.Decoder(StoredStatus)


def encode_status(status: Status) -> bytes:
    """Equal statuses are equal bytes."""
    return _ENCODER.encode(StoredStatus(format=STATUS_FORMAT, status=status))


def decode_status(content: bytes) -> Status:
    """What was stored; a new one where nothing was yet."""
    return _DECODER.decode(content).status if content else NEW


def resource_document(resource: Resource, spell: Spell) -> dict[str, Any]:
    """The resource as it is shown, and as it can be applied again."""
    metadata: dict[str, Any] = {
        "name": resource.name,
        "labels": dict(resource.labels),
        "annotations": dict(resource.annotations),
        "generation": resource.generation,
        "resourceVersion": resource.version,
        "creationTimestamp": spell(resource.created_at),
        "deletionTimestamp": None if resource.deleted_at is None else spell(resource.deleted_at),
        "finalizers": list(resource.finalizers),
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": told(resource.spec),
        "status": status_document(resource.status, spell),
    }


def status_document(status: Status, spell: Spell) -> dict[str, Any]:
    """The status as it is shown."""
    return {
        "phase": status.phase.value,
        "observedGeneration": status.observed_generation,
        "conditions": [_condition(each, spell) for each in status.conditions],
        "functions": [_function(each, spell) for each in status.functions],
        "odgm": None if status.odgm is None else _plain(status.odgm),
        "routers": [_plain(each) for each in status.routers],
        "resource_refs": [_plain(each) for each in status.resource_refs],
        "nfr_recommendations": {
            key: _recommendation(value, spell)
            for key, value in sorted(status.nfr_recommendations.items())
        },
        "last_applied_recommendations": [
            _applied(each, spell) for each in status.last_applied_recommendations
        ],
        "last_applied_at": _moment(status.last_applied_at, spell),
        "enforced": {
            key: {"target": value.target, "failures": value.failures, "reason": value.reason}
            for key, value in sorted(status.enforced.items())
        },
        "apply": {
            "generation": status.apply.generation,
            "result": status.apply.code.value,
            "message": status.apply.message,
        },
        "last_updated": _moment(status.last_updated_at, spell),
    }


_SHOWN: Final = {"is_ready": "ready", "ready": "ready_replicas", "is_stopped": "stopped"}


def _plain(value: Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.json.decode(_ENCODER.encode(value))
    return {_SHOWN.get(key, key): shown for key, shown in plain.items()}


def _moment(at: Instant, spell: Spell) -> str | None:
    return None if at == NEVER else spell(at)


def _condition(condition: Condition, spell: Spell) -> dict[str, Any]:
    return {
        "type": condition.type.value,
        "status": "True" if condition.is_true else "False",
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": condition.observed_generation,
        "lastTransitionTime": _moment(condition.last_transition_at, spell),
    }


def _function(function: FunctionStatus, spell: Spell) -> dict[str, Any]:
    plain = _plain(function)
    plain["rollout"] = None if function.rollout is None else _rollout(function.rollout, spell)
    return plain


def _rollout(rollout: RolloutProgress, spell: Spell) -> dict[str, Any]:
    return {**_plain(rollout), "paused_until": _moment(rollout.paused_until, spell)}


def _recommendation(recommendation: Recommendation, spell: Spell) -> dict[str, Any]:
    observed_at = _moment(recommendation.observed_at, spell)
    return {**_plain(recommendation), "observed_at": observed_at}


def _applied(applied: AppliedRecommendation, spell: Spell) -> dict[str, Any]:
    return {**_plain(applied), "applied_at": _moment(applied.applied_at, spell)}
