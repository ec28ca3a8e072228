"""The manifest as a JSON schema: for editors, for generated clients, for whoever sends one.

It is made from the types that read a manifest, so that the two cannot disagree on names, and says
as much of the rules as a schema can. What it refuses is refused by the reader as well; the reader
knows more, such as that two functions have two keys.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import inspect

from holdfast.runtimes import checks, marks
from holdfast.runtimes.manifest import Manifest
from holdfast.runtimes.resource import API_VERSION, KIND
from holdfast.runtimes.spec import Written
from holdfast.runtimes.templates import TEMPLATES
from holdfast.runtimes.written import Cpu, Portion, Share, Size, Span, spell

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
HERE: Final = "#/$defs/{name}"

_NUMBER: Final[Schema] = {"type": "number", "minimum": 0}
_WHOLE: Final[Schema] = {"type": "integer", "minimum": 0}
_PERCENT: Final[Schema] = {"type": "string", "pattern": r"^\s*0*(\d{1,2}|100)\s*%\s*$"}
_DURATION: Final[Schema] = {
    "type": "string", "pattern": r"^\s*(\d+(\.\d+)?\s*([mM]?[sS]|[mMhHdD])\s*)+$",
}  # fmt: skip
_AMOUNT: Final[Schema] = {
    "type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*([kKmMgGtT][iI]?)?[bB]?\s*$",
}  # fmt: skip

SPELLED: Final[Mapping[type, Schema]] = {
    Span: {
        "anyOf": [_DURATION, _NUMBER],
        "description": "A duration: 90s, 5m, 1h30m, or a number of seconds.",
    },
    Size: {"anyOf": [_AMOUNT, _WHOLE], "description": "An amount of memory: 512Mi."},
    Cpu: {
        "anyOf": [{"type": "string"}, _NUMBER],
        "description": "Processors: 0.5, 2 or 500m.",
    },
    Share: {**_PERCENT, "description": "A share: 25%."},
    Portion: {"anyOf": [_WHOLE, _PERCENT], "description": "So many, or a share: 1 or 25%."},
}
"""What people write for values that have a spelling of their own."""

_NAME: Final[Schema] = {
    "pattern": f"^{checks.NAME_PATTERN}$", "maxLength": checks.NAME_MOST,
}  # fmt: skip
_KEY: Final[Schema] = {
    "propertyNames": {"pattern": f"^({marks.PREFIX_PATTERN}/)?{marks.WORD_PATTERN}$"},
}  # fmt: skip
_SOME: Final[Schema] = {"minimum": 1, "maximum": checks.REPLICAS_MOST}
_ANY: Final[Schema] = {"minimum": 0, "maximum": checks.REPLICAS_MOST}
_ASKED: Final[Schema] = {"pattern": "^/"}

RULES: Final[Mapping[str, Schema]] = {
    "Manifest.apiVersion": {"const": API_VERSION},
    "Manifest.kind": {"const": KIND},
    "Metadata.name": _NAME,
    "Metadata.labels": {
        **_KEY,
        "additionalProperties": {
            "type": "string", "pattern": f"^({marks.WORD_PATTERN})?$", "maxLength": marks.NAME_MOST,
        },
    },
    "Metadata.annotations": _KEY,
    "Spec.template": {"enum": list(TEMPLATES)},
    "Spec.functions": {"minItems": 1, "maxItems": checks.FUNCTIONS_MOST},
    "Function.key": _NAME,
    "Function.replicas": _ANY,
    "Odgm.replicas": _ANY,
    "Odgm.partitions": {"minimum": 1, "maximum": checks.PARTITIONS_MOST},
    "Resources.gpus": _ANY,
    "Restarts.max": _SOME,
    "Nfr.minReplicas": _SOME,
    "Nfr.maxReplicas": _SOME,
    "Nfr.maxStepDown": _SOME,
    "Nfr.minConfidence": {"minimum": 0, "maximum": 1},
    "Nfr.minThroughputRps": {"exclusiveMinimum": 0},
    "Nfr.maxLatencyMs": {"exclusiveMinimum": 0},
    "Health.failures": _SOME,
    "Health.successes": _SOME,
    "Health.path": _ASKED,
    "Check.path": _ASKED,
    "Metrics.path": _ASKED,
    "PartitionHealth.path": _ASKED,
}  # fmt: skip
"""What a type alone does not say of a field."""


def manifest_schema() -> Schema:
    """The whole of it, standing for itself."""
    parts = manifest_parts(HERE)
    whole = parts.pop(Manifest.__name__)
    return {"$schema": DIALECT, "title": f"{KIND} ({API_VERSION})", **whole, "$defs": parts}


def manifest_parts(reference: str) -> dict[str, Schema]:
    """Each part of it by its name; `reference` is how one names another."""
    writer = _Writer(reference)
    writer.reference(Manifest)
    return dict(sorted(writer.parts.items()))


class _Writer:
    def __init__(self, reference: str) -> None:
        self.parts: dict[str, Schema] = {}
        self._reference = reference

    def reference(self, kind: type[Written]) -> Schema:
        name = kind.__name__
        if name not in self.parts:
            self.parts[name] = {}
            self.parts[name] = self._struct(kind)
        return {"$ref": self._reference.format(name=name)}

    def _struct(self, kind: type[Written]) -> Schema:
        told = inspect.type_info(kind)
        if not isinstance(told, inspect.StructType):
            raise TypeError(f"{kind} has no fields")
        fields = {field.encode_name: field for field in told.fields}
        return {
            "type": "object",
            "description": " ".join((kind.__doc__ or "").split()).replace("`", ""),
            "properties": {
                name: self._field(f"{kind.__name__}.{name}", field)
                for name, field in fields.items()
            },
            "required": [name for name, field in fields.items() if field.required],
            "additionalProperties": False,
        }

    def _field(self, path: str, field: inspect.Field) -> Schema:
        schema = self._type(field.type)
        rule = RULES.get(path, {})
        if "anyOf" in schema and rule:
            # A rule is about what is there, and nothing may be there as well.
            schema = {"anyOf": [each if _is_nothing(each) else {**each, **rule}
                                for each in schema["anyOf"]]}  # fmt: skip
        else:
            schema = {**schema, **rule}
        default = field.default
        if default is msgspec.NODEFAULT or isinstance(default, Written):
            return schema
        return {**schema, "default": msgspec.to_builtins(default, enc_hook=spell)}

    def _type(self, told: inspect.Type) -> Schema:
        write = _WRITERS.get(type(told))
        if write is None:
            raise TypeError(f"{told} is nothing that people write")
        return write(self, told)

    def _either(self, told: Any) -> Schema:
        return {"anyOf": [self._type(each) for each in told.types]}

    def _list(self, told: Any) -> Schema:
        return {"type": "array", "items": self._type(told.item_type)}

    def _mapping(self, told: Any) -> Schema:
        return {"type": "object", "additionalProperties": self._type(told.value_type)}


def _is_nothing(schema: Schema) -> bool:
    return schema.get("type") == "null"


def _plain(name: str) -> Callable[[_Writer, Any], Schema]:
    return lambda writer, told: {"type": name}


_WRITERS: Final[Mapping[type, Callable[[_Writer, Any], Schema]]] = {
    inspect.StrType: _plain("string"),
    inspect.IntType: _plain("integer"),
    inspect.FloatType: _plain("number"),
    inspect.BoolType: _plain("boolean"),
    inspect.NoneType: _plain("null"),
    inspect.AnyType: lambda writer, told: {},
    inspect.LiteralType: lambda writer, told: {"enum": sorted(told.values)},
    inspect.CustomType: lambda writer, told: dict(SPELLED[told.cls]),
    inspect.StructType: lambda writer, told: writer.reference(told.cls),
    inspect.UnionType: _Writer._either,
    inspect.VarTupleType: _Writer._list,
    inspect.DictType: _Writer._mapping,
}
