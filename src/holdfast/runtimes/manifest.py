"""A manifest: how a class runtime is written, read, and written down.

Reading gives the runtime or the first problem, with the path of its field. What is stored is
canonical: the same declaration is the same bytes, so that applying it twice changes nothing.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct

from holdfast.core.resource import SPEC_BYTES_MAX
from holdfast.runtimes.checks import first_problem
from holdfast.runtimes.descriptor import Problem, TemplateDescriptor
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
    """Who it is. All but the name is what a server told before, so that what was shown can be
    applied again; `resource_version` then says which version was read."""

    name: str
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
    large = _too_large("", content)
    if large is not None:
        return large
    try:
        manifest = msgspec.convert(content, Manifest, dec_hook=read)
    except msgspec.ValidationError as error:
        return explained(str(error))
    problem = first_problem(manifest.metadata.name, manifest.spec, templates)
    if problem is None and len(encode(manifest.spec)) > SPEC_BYTES_MAX:
        problem = Problem("spec", f"all of it together is more than {SPEC_BYTES_MAX // 1024} KiB")
    if problem is not None:
        return problem
    return ClassRuntime(
        name=manifest.metadata.name, spec=manifest.spec, expects=manifest.metadata.resource_version
    )


def _too_large(path: str, content: object) -> Problem | None:
    """The first number that could not be written down, wherever it stands."""
    inside: Iterable[tuple[str, object]] = ()
    if isinstance(content, Mapping):
        inside = ((f"{path}.{name}".removeprefix("."), value) for name, value in content.items())
    elif isinstance(content, list | tuple):
        inside = ((f"{path}[{place}]", value) for place, value in enumerate(content))
    elif isinstance(content, int) and not -LARGEST <= content <= LARGEST:
        return Problem(path, f"{str(content)[:20]}… is too large")
    return next(filter(None, (_too_large(*each) for each in inside)), None)


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


def told(spec: Spec) -> dict[str, Any]:
    """The spec as people write it, every default said."""
    document: dict[str, Any] = msgspec.json.decode(_ENCODER.encode(spec))
    return document
