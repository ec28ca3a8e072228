"""What a well-formed spec may still get wrong, as a table of rules, first problem first."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.core.placing import constraint_of
from holdfast.runtimes.descriptor import NAME_JOINT, Problem, TemplateDescriptor
from holdfast.runtimes.spec import Analyzer, Check, Function, Health, Nfr, Odgm, Spec
from holdfast.runtimes.written import WHOLE, portion_of

NAME_MOST: Final = 63
"""So long may a name be that others must be able to look up."""
REPLICAS_MOST: Final = 10_000
PARTITIONS_MOST: Final = 10_000
REQUIRED_MOST: Final = 10**12
"""Above every honest rate and span, and far from what cannot be reckoned with."""
PARTITIONS_TOLD_MOST: Final = 1_000
"""So many each member may tell of, again and again."""
PARTITION_PERIOD_LEAST_MS: Final = 100
FUNCTIONS_MOST: Final = 200
"""So many leave room in a status for what is said of each."""

NAME_PATTERN: Final = r"[a-z0-9]+(-[a-z0-9]+)*"

_NAME: Final = re.compile(NAME_PATTERN)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME_RULE: Final = "is no name; write small letters, digits and single hyphens"

Problems = Iterator[Problem]


def first_problem(
    name: str, spec: Spec, templates: Mapping[str, TemplateDescriptor]
) -> Problem | None:
    """The first thing wrong with a spec; None where nothing is."""
    for problem in _all_problems(name, spec, templates):
        return problem
    return None


def _all_problems(name: str, spec: Spec, templates: Mapping[str, TemplateDescriptor]) -> Problems:
    yield from _named("metadata.name", name)
    descriptor = templates.get(spec.template)
    if descriptor is None:
        known = ", ".join(templates)
        yield Problem("spec.template", f"{spec.template!r} is not known; there are {known}")
        return
    yield from _functions(name, spec.functions)
    if spec.odgm is not None:
        if spec.odgm.enabled and not descriptor.supports_odgm:
            yield Problem("spec.odgm", f"template {spec.template} has no data grid")
        yield from _count("spec.odgm.partitions", spec.odgm.partitions, 1, PARTITIONS_MOST)
        yield from _component("spec.odgm", spec.odgm)
        yield from _partition_health("spec.odgm", spec.odgm)
    yield from _nfr("spec.nfr", spec)
    if not spec.timeouts.progress:
        yield Problem("spec.timeouts.progress", "it must be longer than nothing")
    problem = descriptor.problem_of(spec)
    if problem is not None:
        yield problem


def _functions(name: str, functions: tuple[Function, ...]) -> Problems:
    if not functions:
        yield Problem("spec.functions", "a class runtime has at least one function")
    if len(functions) > FUNCTIONS_MOST:
        yield Problem("spec.functions", f"{len(functions)} are more than {FUNCTIONS_MOST}")
    first_at: dict[str, int] = {}
    for index, function in enumerate(functions):
        path = f"spec.functions[{index}]"
        yield from _named(f"{path}.key", function.key)
        if len(name) + len(NAME_JOINT) + len(function.key) > NAME_MOST:
            told = f"{function.key!r} and the class's name are longer than {NAME_MOST} signs"
            yield Problem(f"{path}.key", told)
        earlier = first_at.setdefault(function.key, index)
        if earlier != index:
            told = f"{function.key!r} is the key of spec.functions[{earlier}] already"
            yield Problem(f"{path}.key", told)
        yield from _component(path, function)


def _component(path: str, component: Function | Odgm) -> Problems:
    yield from _count(f"{path}.replicas", component.replicas, 0, REPLICAS_MOST)
    yield from _count(f"{path}.resources.gpus", component.resources.gpus, 0, REPLICAS_MOST)
    for variable in component.env:
        if not _VARIABLE.fullmatch(variable):
            yield Problem(f"{path}.env", f"{variable!r} is no name of a variable")
    for index, port in enumerate(component.ports):
        yield from _named(f"{path}.ports[{index}]", port)
        if port in component.ports[:index]:
            yield Problem(f"{path}.ports[{index}]", f"{port!r} is there twice")
    for index, text in enumerate(component.placement.constraints):
        try:
            constraint_of(text)
        except ValueError as error:
            yield Problem(f"{path}.placement.constraints[{index}]", str(error))
    yield from _health(f"{path}.health", component)
    if component.metrics is not None:
        yield from _port(f"{path}.metrics.port", component.metrics.port, component)
        yield from _web_path(f"{path}.metrics.path", component.metrics.path)
    yield from _rollout(f"{path}.rollout", component)
    yield from _count(f"{path}.restarts.max", component.restarts.max, 1, REPLICAS_MOST)
    if not component.restarts.refill:
        yield Problem(f"{path}.restarts.refill", "it must be longer than nothing")


def _health(path: str, component: Function | Odgm) -> Problems:
    health = component.health
    if health is None:
        return
    yield from _check(path, health, component)
    for role, check in (("start", health.start), ("ready", health.ready), ("live", health.live)):
        if check is not None:
            yield from _check(f"{path}.{role}", check, component)


def _check(path: str, check: Health | Check, component: Function | Odgm) -> Problems:
    ways = [name for name in ("path", "exec") if getattr(check, name) is not None]
    if len(ways) > 1:
        yield Problem(path, "it asks either by path or by exec, not both")
    fitting = {"path": "http", "exec": "exec"}
    if ways and check.kind is not None and fitting[ways[0]] != check.kind:
        yield Problem(f"{path}.kind", f"{check.kind} does not go with {ways[0]}")
    if check.kind == "exec" and not check.exec:
        yield Problem(f"{path}.exec", "say which program to run")
    if check.exec is not None and not check.exec:
        yield Problem(f"{path}.exec", "say which program to run")
    if check.path is not None:
        yield from _web_path(f"{path}.path", check.path)
    # Whatever is not asked by a program is asked at a port.
    if check.exec is None and (isinstance(check, Health) or ways or check.kind or check.port):
        yield from _port(f"{path}.port", check.port or "", component)
    for name in ("failures", "successes"):
        told = getattr(check, name)
        if told is not None:
            yield from _count(f"{path}.{name}", told, 1, REPLICAS_MOST)
    for name in ("period", "timeout"):
        if getattr(check, name) == 0:
            yield Problem(f"{path}.{name}", "it must be longer than nothing")


def _partition_health(path: str, odgm: Odgm) -> Problems:
    asked = odgm.partition_health
    if asked is None:
        return
    if odgm.partitions > PARTITIONS_TOLD_MOST:
        told = f"{odgm.partitions} are more than the {PARTITIONS_TOLD_MOST} that can be told of"
        yield Problem(f"{path}.partitions", f"{told}; leave partitionHealth out")
    path = f"{path}.partitionHealth"
    yield from _port(f"{path}.port", asked.port, odgm)
    yield from _web_path(f"{path}.path", asked.path)
    if asked.period < PARTITION_PERIOD_LEAST_MS:
        yield Problem(f"{path}.period", f"it must be at least {PARTITION_PERIOD_LEAST_MS}ms")
    if not asked.timeout:
        yield Problem(f"{path}.timeout", "it must be longer than nothing")


def _port(path: str, port: str, component: Function | Odgm) -> Problems:
    if not component.ports:
        yield Problem(path, "there is no port to ask at: name one under ports")
    elif port and port not in component.ports:
        yield Problem(path, f"{port!r} is none of its ports: {', '.join(component.ports)}")


def _web_path(path: str, text: str) -> Problems:
    if not text.startswith("/"):
        yield Problem(path, f"{text!r} must begin with /")


def _rollout(path: str, component: Function | Odgm) -> Problems:
    rollout = component.rollout
    room = (rollout.surge, rollout.unavailable)
    if not any(portion_of(portion, WHOLE, upwards=True) for portion in room):
        yield Problem(path, "surge and unavailable cannot both be 0: nothing could be replaced")
    for index, step in enumerate(rollout.steps):
        if not step or (index and step <= rollout.steps[index - 1]):
            yield Problem(f"{path}.steps[{index}]", "each step must be larger than the one before")
    if rollout.steps and rollout.steps[-1] != WHOLE:
        yield Problem(f"{path}.steps[{len(rollout.steps) - 1}]", "the last step must be 100%")


def _nfr(path: str, spec: Spec) -> Problems:
    nfr = spec.nfr
    yield from _count(f"{path}.minReplicas", nfr.min_replicas, 1, REPLICAS_MOST)
    if nfr.max_replicas is not None:
        yield from _count(f"{path}.maxReplicas", nfr.max_replicas, 1, REPLICAS_MOST)
        if nfr.max_replicas < nfr.min_replicas:
            told = f"{nfr.max_replicas} is below minReplicas, {nfr.min_replicas}"
            yield Problem(f"{path}.maxReplicas", told)
    elif nfr.mode == "enforce" and "replicas" in nfr.dimensions:
        yield Problem(f"{path}.maxReplicas", "mode enforce needs a bound: say how many at most")
    yield from _count(f"{path}.maxStepDown", nfr.max_step_down, 1, REPLICAS_MOST)
    if not 0 <= nfr.min_confidence <= 1:
        yield Problem(f"{path}.minConfidence", f"{nfr.min_confidence} must lie between 0 and 1")
    yield from _positive(path, nfr)
    if not nfr.enforce_in:
        yield Problem(f"{path}.enforceIn", "name available, progressing or both")
    if "odgm_replicas" in nfr.dimensions and spec.odgm is None:
        yield Problem(f"{path}.dimensions", "odgm_replicas without an odgm")
    yield from _analyzer(f"{path}.analyzer", nfr.analyzer)


def _positive(path: str, nfr: Nfr) -> Problems:
    wanted = (
        ("minThroughputRps", nfr.min_throughput_rps),
        ("maxLatencyMs", nfr.max_latency_ms),
        ("staleAfter", nfr.stale_after),
    )
    for name, value in wanted:
        # Written so that "not a number" is refused too.
        if value is not None and not 0 < value <= REQUIRED_MOST:
            yield Problem(f"{path}.{name}", f"it must be above zero, and {REQUIRED_MOST} at most")


def _analyzer(path: str, analyzer: Analyzer) -> Problems:
    told = (analyzer.workers, analyzer.prometheus, analyzer.static)
    if sum(each is not None for each in told) != 1:
        yield Problem(path, "name exactly one of workers, prometheus and static")
    if analyzer.prometheus is not None:
        if not analyzer.prometheus.url.startswith(("http://", "https://")):
            yield Problem(f"{path}.prometheus.url", "write http://… or https://…")
        for dimension in analyzer.prometheus.queries:
            if dimension.partition("/")[0] not in ("replicas", "memory", "cpu", "odgm_replicas"):
                told_as = f"{dimension!r} is no dimension"
                yield Problem(f"{path}.prometheus.queries", told_as)
    if analyzer.static is not None:
        for name in ("replicas", "odgm_replicas"):
            value = getattr(analyzer.static, name)
            if value is not None:
                yield from _count(f"{path}.static.{name}", value, 0, REPLICAS_MOST)


def _named(path: str, name: str) -> Problems:
    if not _NAME.fullmatch(name):
        yield Problem(path, f"{name!r} {_NAME_RULE}")
    elif len(name) > NAME_MOST:
        yield Problem(path, f"{name!r} is longer than {NAME_MOST} signs")


def _count(path: str, value: int, least: int, most: int) -> Problems:
    if value < 0:
        yield Problem(path, f"{value} is below zero")
    elif value < least:
        yield Problem(path, f"{value} is below {least}")
    elif value > most:
        yield Problem(path, f"{value} is above {most}")


