"""What can be asked, told to programs and to people; both made from the table of routes."""

import re
from collections.abc import Iterable
from html import escape
from typing import Any, Final

import msgspec

from holdfast.api.identity import PUBLIC
from holdfast.api.problems import CODES
from holdfast.api.route import PREFIX, Route
from holdfast.runtimes.manifest import Manifest
from holdfast.runtimes.schema import manifest_parts
from holdfast.version import VERSION
from holdfast.wire.bodies import Problem
from holdfast.wire.twins import twin_of

_NAMED: Final = re.compile(r"\{(\w+)\}")
_SCHEMA: Final = "#/components/schemas/{name}"
_RUNTIME: Final = "Runtime{name}"

MANIFEST: Final = _RUNTIME.format(name=Manifest.__name__)
"""What a runtime is declared by, as the document calls it."""


def openapi(table: Iterable[Route]) -> dict[str, Any]:
    """The whole interface as OpenAPI 3.1."""
    routes = list(table)
    kinds = {route.body: _spoken(route.body) for route in routes if route.body is not None}
    _, schemas = msgspec.json.schema_components([*kinds.values(), Problem], ref_template=_SCHEMA)
    schemas |= {_RUNTIME.format(name=name): part for name, part in _manifest().items()}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": VERSION,
            "description": "Jobs that survive the machines they run on. Bodies and answers are "
            "JSON, or msgpack by Content-Type and Accept.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _manifest() -> dict[str, Any]:
    """The parts of a manifest, under names that nothing else has."""
    return manifest_parts(_SCHEMA.format(name=_RUNTIME))


def _spoken(kind: Any) -> Any:
    """What travels as an array between programs has named fields in JSON."""
    return twin_of(kind) if kind.__struct_config__.array_like else kind


def _operation(route: Route) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": f"{route.method.lower()}{re.sub(r'[^a-zA-Z]+', '_', route.path)}",
        "summary": route.summary,
        "tags": [route.path.split("/")[1]],
        "parameters": _parameters(route),
        "responses": _responses(route),
        "x-scope": _scope(route),
    }
    if route.scope == PUBLIC:
        told["security"] = []
    if route.takes:
        told["requestBody"] = {"required": False, "content": {route.takes: {}}}
    if route.schema:
        schema = {"$ref": _SCHEMA.format(name=route.schema)}
        content = {route.takes: {"schema": schema}, "application/msgpack": {}}
        told["requestBody"] = {"required": True, "content": content}
    if route.body is not None:
        schema = {"$ref": _SCHEMA.format(name=route.body.__name__)}
        told["requestBody"] = {
            "required": _needs_fields(route.body),
            "content": {"application/json": {"schema": schema}, "application/msgpack": {}},
        }
    if route.raw:
        told["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    return told


def _scope(route: Route) -> str:
    return f"{route.scope} or {route.also}" if route.also else route.scope or "public"


def _parameters(route: Route) -> list[dict[str, Any]]:
    text = {"type": "string"}
    found = [
        {"name": name, "in": "path", "required": True, "schema": text}
        for name in _NAMED.findall(route.path)
    ]
    found += [
        {"name": name, "in": "query", "required": False, "schema": text} for name in route.known
    ]
    if route.method == "POST" and route.keyed:
        found.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": text})
    if route.method == "PUT":
        for name in ("If-Match", "If-None-Match"):
            found.append({"name": name, "in": "header", "required": False, "schema": text})
    return found


def _responses(route: Route) -> dict[str, Any]:
    problem = {"application/problem+json": {"schema": {"$ref": _SCHEMA.format(name="Problem")}}}
    told: dict[str, Any] = {
        str(route.status): {"description": route.summary, "content": {route.answers: {}}}
    }
    if route.status != 200 and route.method in ("POST", "PUT"):
        told["200"] = {"description": "It was there already", "content": {route.answers: {}}}
    for status in sorted({status for status, _ in CODES.values() if status < 500} | {503}):
        titles = [title for known, title in CODES.values() if known == status]
        told[str(status)] = {"description": "; ".join(titles), "content": problem}
    return told


def _needs_fields(kind: Any) -> bool:
    return any(field.required for field in msgspec.structs.fields(kind))


def page(table: Iterable[Route]) -> str:
    """The routes and the codes on one page, with nothing fetched from elsewhere."""
    rows = "".join(
        f"<tr><td><code>{route.method}</code></td><td><code>{escape(PREFIX + route.path)}</code>"
        f"</td><td>{_scope(route)}</td><td>{_body(route)}</td>"
        f"<td>{escape(route.summary)}</td></tr>\n"
        for route in table
    )
    codes = "".join(
        f'<tr id="{code}"><td><code>{code}</code></td><td>{status}</td><td>{title}</td></tr>\n'
        for code, (status, title) in CODES.items()
    )
    return _PAGE.format(version=VERSION, rows=rows, codes=codes)


def _body(route: Route) -> str:
    if route.raw:
        return "bytes"
    name = route.schema if route.body is None else route.body.__name__
    return f"<code>{name}</code>" if name else ""


_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Holdfast {version}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 70rem; padding: 0 1rem }}
table {{ border-collapse: collapse; width: 100% }}
td, th {{ text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884 }}
:root {{ color-scheme: light dark }}
</style></head><body>
<h1>Holdfast {version}</h1>
<p>Send <code>Authorization: Bearer TOKEN</code>. Bodies and answers are JSON, or msgpack by
<code>Content-Type</code> and <code>Accept</code>. A POST with an <code>Idempotency-Key</code> can
be repeated. The same as a document: <a href="openapi.json">openapi.json</a>.</p>
<h2>Routes</h2>
<table><tr><th>Method</th><th>Path</th><th>Scope</th><th>Body</th><th></th></tr>
{rows}</table>
<h2>Problems</h2>
<table><tr><th>Code</th><th>Status</th><th></th></tr>
{codes}</table>
</body></html>
"""
