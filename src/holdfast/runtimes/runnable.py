"""What a worker could not carry out of an otherwise sound spec, each with the path of its field.

A worker is given a plan, and refuses one that it cannot follow. By then the declaration has been
taken, so that everything a plan could be refused for is looked for here first.
"""

import re
from collections.abc import Iterator
from typing import Final

from holdfast.runtimes.descriptor import Problem
from holdfast.runtimes.spec import Check, Function, Health, Odgm, Spec

PORTS_MOST: Final = 16
LONGEST_MS: Final = 24 * 3_600_000
COUNT_MOST: Final = 1_000

_PORT: Final = "PORT"
_PLACEHOLDER: Final = re.compile(
    r"\$(?:\{(PORT(?:_[A-Z0-9_]+)?)\}|(PORT(?:_[A-Z0-9_]+)?)(?![A-Za-z0-9_]))"
)
_PLAIN: Final = re.compile(r"[!-~]*")

Problems = Iterator[Problem]
Component = Function | Odgm


def problem_of(spec: Spec) -> Problem | None:
    """The first thing no worker could do; None where there is nothing."""
    for path, component in _components(spec):
        for problem in _problems(path, component, spec.template):
            return problem
    return None


def _components(spec: Spec) -> Iterator[tuple[str, Component]]:
    for index, function in enumerate(spec.functions):
        yield f"spec.functions[{index}]", function
    if spec.odgm is not None and spec.odgm.enabled:
        yield "spec.odgm", spec.odgm


def _problems(path: str, component: Component, template: str) -> Problems:
    if not component.command or not component.command[0]:
        told = f'template {template} runs programs: say which, as ["python3", …]'
        yield Problem(f"{path}.command", told)
    if component.image:
        yield Problem(f"{path}.image", f"template {template} runs programs, not images")
    yield from _ports(f"{path}.ports", component)
    yield from _texts(path, component)
    yield from _long(f"{path}.grace", int(component.grace))
    if component.health is not None:
        yield from _health(f"{path}.health", component.health)
    if component.metrics is not None:
        yield from _web_path(f"{path}.metrics.path", component.metrics.path)
    if isinstance(component, Odgm) and component.partition_health is not None:
        where, asked = f"{path}.partitionHealth", component.partition_health
        yield from _web_path(f"{where}.path", asked.path)
        yield from _long(f"{where}.period", int(asked.period))
        yield from _long(f"{where}.timeout", int(asked.timeout))


def _ports(path: str, component: Component) -> Problems:
    if len(component.ports) > PORTS_MOST:
        yield Problem(path, f"{len(component.ports)} are more than {PORTS_MOST}")
    for index, port in enumerate(component.ports):
        if port[:1].isdigit():
            yield Problem(f"{path}[{index}]", f"{port!r} must begin with a letter")


def _texts(path: str, component: Component) -> Problems:
    """Whatever reaches a process: it can hold every sign but one, and name every port there is."""
    known = {_PORT, *(f"{_PORT}_{port.upper().replace('-', '_')}" for port in component.ports)}
    texts = [(f"{path}.command[{place}]", word) for place, word in enumerate(component.command)]
    texts += [(f"{path}.env.{name}", value) for name, value in component.env.items()]
    for where, check in _checks(f"{path}.health", component.health):
        texts += [(f"{where}.exec[{place}]", word) for place, word in enumerate(check.exec or ())]
    for where, text in texts:
        if "\0" in text:
            yield Problem(where, "no program can be told a zero byte")
        for match in _PLACEHOLDER.finditer(text):
            variable = match[1] or match[2]
            if not component.ports:
                yield Problem(where, f"${variable}, and there is no port: name one under ports")
            elif variable not in known:
                told = f"${variable} is none of its ports: {', '.join(component.ports)}"
                yield Problem(where, told)


def _checks(path: str, health: Health | None) -> Iterator[tuple[str, Health | Check]]:
    if health is not None:
        yield path, health
        for role in ("start", "ready", "live"):
            check: Check | None = getattr(health, role)
            if check is not None:
                yield f"{path}.{role}", check


def _health(path: str, health: Health) -> Problems:
    for where, check in _checks(path, health):
        if check.path is not None:
            yield from _web_path(f"{where}.path", check.path)
        for name in ("period", "timeout"):
            yield from _long(f"{where}.{name}", int(getattr(check, name) or 0))
        for name in ("failures", "successes"):
            count = getattr(check, name) or 0
            if count > COUNT_MOST:
                yield Problem(f"{where}.{name}", f"{count} is above {COUNT_MOST}")


def _long(path: str, span_ms: int) -> Problems:
    if span_ms > LONGEST_MS:
        yield Problem(path, "it is longer than a day")


def _web_path(path: str, text: str) -> Problems:
    if not _PLAIN.fullmatch(text):
        told = f"{text!r} has signs that no path has: write them as %20 and the like"
        yield Problem(path, told)
