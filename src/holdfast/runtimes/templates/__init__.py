"""The templates there are: one module each, found by being here.

A module of this package has a `DESCRIPTOR`. Nothing else lists templates, so that adding one
touches no other file.
"""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Final

from holdfast.runtimes.descriptor import TemplateDescriptor


def discover() -> Mapping[str, TemplateDescriptor]:
    """Every template in this package, by its id, in the order of the ids."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    found: dict[str, TemplateDescriptor] = {}
    for module in modules:
        descriptor: TemplateDescriptor = module.DESCRIPTOR
        found[descriptor.id] = descriptor
    return MappingProxyType(dict(sorted(found.items())))


TEMPLATES: Final = discover()
