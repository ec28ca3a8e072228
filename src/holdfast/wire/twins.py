"""The messages of workers with named fields, so that a person with curl can play a worker.

Between programs an exchange travels as arrays, which is small and fast. Its twin has the same
fields under their names, made from the very same types.
"""

from functools import reduce
from operator import or_
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import Struct

_known: dict[type[Struct], type[Struct]] = {}


def twin_of(kind: type[Struct]) -> type[Struct]:
    """The same struct as an object with names; structs inside it are twins too."""
    known = _known.get(kind)
    if known is None:
        fields: list[Any] = []
        for field in msgspec.structs.fields(kind):
            named = (field.name, _named(field.type))
            if field.default is not msgspec.NODEFAULT:
                fields.append((*named, field.default))
            else:
                fields.append(named)
        known = msgspec.defstruct(
            kind.__name__, fields, kw_only=True, frozen=True, namespace={"__doc__": kind.__doc__}
        )
        _known[kind] = known
    return known


def _named(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return twin_of(annotation)
    if get_origin(annotation) is tuple:
        return tuple[tuple(_named(inner) for inner in get_args(annotation))]  # type: ignore[misc]
    if get_origin(annotation) in (Union, UnionType):
        return reduce(or_, map(_named, get_args(annotation)))
    return annotation
