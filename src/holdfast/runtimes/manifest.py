"""A manifest: how a class runtime is written, read, and written down.

Reading gives the runtime or the first problem, with the path of its field. What is stored is
canonical: the same declaration is the same bytes, so that applying it twice changes nothing.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct

from holdfast.core.resource import SPEC_BYTES_MAX
from holdfast.runtimes.checks import first_problem
from holdfast.runtimes.descriptor import Problem, TemplateDescriptor
from holdfast.runtimes.marks import problem_of_marks
from holdfast.runtimes.resource import API_VERSION, KIND
from holdfast.runtimes.spec import (
    Dimension,
    EnforcePhase,
    Mode,
    ProbeKind,
    Spec,
    Spread,
    Written,
)
from holdfast.runtimes.templates import TEMPLATES
from holdfast.runtimes.written import read, spell

FORMAT: Final = 1
"""Raised when stored specs can no longer be read as they are; the old ones stay readable."""

LARGEST: Final = 2**63 - 1
"""The largest number that every way of writing it down knows."""

_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*?)`")
_MISSING: Final = re.compile(r"Object missing required field `(.*?)`")
_AT: Final = re.compile(r"^(.*) - at `(key in )?\$(.*)`$", re.DOTALL)
_CHOICE: Final = re.compile(r"Invalid enum value (.*)")
_PLACE: Final = re.compile(r"\[\d+\]$")
_NAMES: Final = (
    ("object", "a mapping"), ("array", "a list"), ("str", "text"), ("int", "a whole number"),
    ("float", "a number"), ("bool", "true or false"), ("null", "nothing"),
)  # fmt: skip

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "mode": get_args(Mode),
    "dimensions": get_args(Dimension),
    "enforceIn": get_args(EnforcePhase),
    "kind": get_args(ProbeKind),
    "spread": get_args(Spread),
}
"""The fields that take one of a few words, and which."""


class Metadata(Written, frozen=True, kw_only=True):
    """Who it is, and what it is chosen by. The rest is what a server told before, so that what was
    shown can be applied again; `resource_version` then says which version was read."""

    name: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    generation: int = 0
    resource_version: int | None = None
    created_at: str = msgspec.field(default="", name="creationTimestamp")
    deleted_at: str | None = msgspec.field(default=None, name="deletionTimestamp")
    finalizers: tuple[str, ...] = ()


class Manifest(Written, frozen=True, kw_only=True):
    """The whole of a file. A `status` or `schema` in it was told, not declared: nobody reads
    them."""

    api_version: str
    kind: str
    metadata: Metadata
    spec: Spec
    status: Any = None
    schema: int = 1


class ClassRuntime(Struct, frozen=True, kw_only=True):
    """What somebody asks for. `expects` is the version they last read, None if they named none."""

    name: str
    spec: Spec
    expects: int | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class Stored(Struct, frozen=True, kw_only=True):
    """A spec with the format it was written in."""

    format: int
    spec: Spec


def decode(
    content: object, templates: Mapping[str, TemplateDescriptor] = TEMPLATES
) -> ClassRuntime | Problem:
    """The runtime that a manifest declares, or the first thing that is wrong with it."""
    if not isinstance(content, Mapping):
        return Problem("", "a manifest is a mapping with apiVersion, kind, metadata and spec")
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if content.get(field) != expected:
            return Problem(field, f"{content.get(field)!r} is not known; write {expected}")
    early = _too_large(content) or problem_of_marks(content.get("metadata"))
    if early is not None:
        return early
    try:
        manifest = msgspec.convert(content, Manifest, dec_hook=read)
    except msgspec.ValidationError as error:
        return explained(str(error))
    problem = first_problem(manifest.metadata.name, manifest.spec, templates)
    if problem is None and len(encode(manifest.spec)) > SPEC_BYTES_MAX:
        problem = Problem("spec", f"all of it together is more than {SPEC_BYTES_MAX // 1024} KiB")
    if problem is not None:
        return problem
    metadata = manifest.metadata
    return ClassRuntime(
        name=metadata.name, spec=manifest.spec, expects=metadata.resource_version,
        labels=metadata.labels, annotations=metadata.annotations,
    )  # fmt: skip


def _too_large(content: object) -> Problem | None:
    """A number that could not be written down, wherever it stands and however deep."""
    left: list[tuple[str, object]] = [("", content)]
    while left:
        path, value = left.pop()
        if isinstance(value, Mapping):
            left += ((f"{path}.{name}".removeprefix("."), each) for name, each in value.items())
        elif isinstance(value, list | tuple):
            left += ((f"{path}[{place}]", each) for place, each in enumerate(value))
        elif isinstance(value, int) and not -LARGEST <= value <= LARGEST:
            return Problem(path, f"{str(value)[:20]}… is too large")
    return None


def explained(told: str) -> Problem:
    """A field and what is wrong with it, from what the reader of types said."""
    found = _AT.match(told)
    message, place = (found[1], found[3]) if found else (told, "")
    path = place.removeprefix(".")
    for pattern, says in ((_UNKNOWN, "unknown field"), (_MISSING, "it is missing")):
        named = pattern.match(message)
        if named is not None:
            return Problem(f"{path}.{named[1]}".removeprefix("."), says)
    chosen = _CHOICE.match(message)
    if chosen is not None:
        allowed = CHOICES.get(_PLACE.sub("", path).rpartition(".")[2], ())
        return Problem(path, f"{chosen[1]} is not known; there are {', '.join(allowed)}")
    if message.startswith("Expected"):
        message = message[0].lower() + message[1:]
        for name, plain in _NAMES:
            message = message.replace(f"`{name}`", plain)
    return Problem(path, message.replace("`", ""))


_ENCODER: Final = msgspec.json.Encoder(enc_hook=spell, order="deterministic")
_DECODER: Final = msgspec.json.Decoder(Stored, dec_hook=read)


def encode(spec: Spec) -> bytes:
    """The spec as it is stored: every default said, in one order."""
    return _ENCODER.encode(Stored(format=FORMAT, spec=spec))


def decode_stored(content: bytes) -> Spec:
    """The spec that was stored. Whatever else is in there is a mistake of ours, and raises."""
    return _DECODER.decode(content).spec


def declared(
    spec: Spec, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    """All that people declare of a runtime, as they write it: what two versions are compared by."""
    marks = {
        name: dict(sorted(pairs.items()))
        for name, pairs in (("labels", labels), ("annotations", annotations))
    }
    return {"metadata": marks, "spec": told(spec)}


def told(spec: Spec) -> dict[str, Any]:
    """The spec as people write it, every default said."""
    document: dict[str, Any] = msgspec.json.decode(_ENCODER.encode(spec))
    return document
