"""A service as a worker is given it: what to run, which ports it needs, and how it is asked whether
it is well. Packed as msgpack it is the payload that every replica of a service job shares.

A plan names ports and never numbers: the worker gives numbers out, because only it knows which are
free where the replica runs. `$PORT` in an argument, or in a value of the environment, stands for
the first port, `$PORT_ADMIN` for the port called `admin`; so do `${PORT}` and `${PORT_ADMIN}`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.core.unreadable import UNREADABLE

SERVICE: Final = "service"
"""The kind of a job whose tasks are replicas."""

HTTP, TCP, EXEC = "http", "tcp", "exec"
PROBE_KINDS: Final = (HTTP, TCP, EXEC)
START, READY, LIVE = "start", "ready", "live"
PROBES: Final = (START, READY, LIVE)

PORTS_MAX: Final = 16
LONGEST_MS: Final = 24 * 3_600_000
COUNT_MAX: Final = 1_000
PORT_NAME: Final = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")
PORT_VARIABLE: Final = "PORT"

_PLACEHOLDER: Final = re.compile(
    r"\$(?:\{(PORT(?:_[A-Z0-9_]+)?)\}|(PORT(?:_[A-Z0-9_]+)?)(?![A-Za-z0-9_]))"
)
_PLAIN: Final = re.compile(r"[!-~]*")


class Probe(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way to ask a replica whether it is well.

    `http` asks for `path` and is content with an answer from 200 to 399; `tcp` is content when the
    port takes a connection; `exec` runs `argv` where the replica runs and is content with exit code
    zero. `port` is the name of the port that is asked; empty for the first. Asked every
    `period_ms`, an answer is waited for `timeout_ms`; after `failures` in a row it is not well, and
    well again after `successes`.
    """

    kind: str
    path: str = "/"
    port: str = ""
    argv: tuple[str, ...] = ()
    period_ms: int = 10_000
    timeout_ms: int = 1_000
    failures: int = 3
    successes: int = 1


class ServicePlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one replica is.

    `argv`, `env` and `cwd` as those of a command. `ports` are the names of the ports it is given;
    none for a service that nobody asks anything. `start` holds the others back until it was
    content, and ends the replica when it never is; `ready` says whether it may be asked; `live`
    ends it when it is past help. Without `ready` it is ready while its first port takes
    connections, and where it has no port, from its start. `metrics` is the path of its own
    counters, empty for none, on the port called `metrics_port`, or else the first. `grace_ms` is
    what it has to end by itself. `partitions` is how a member of a data grid is asked about its
    partitions, by `http` alone; its answer says nothing of whether the replica is well.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    cwd: str = ""
    ports: tuple[str, ...] = ("http",)
    start: Probe | None = None
    ready: Probe | None = None
    live: Probe | None = None
    metrics: str = ""
    metrics_port: str = ""
    grace_ms: int = 10_000
    partitions: Probe | None = None

    def probes(self) -> Iterator[tuple[str, Probe]]:
        """Those it has, each with its name."""
        for name, probe in zip(PROBES, (self.start, self.ready, self.live), strict=True):
            if probe is not None:
                yield name, probe


_DECODE: Final = msgspec.msgpack.Decoder(ServicePlan).decode


class BadPlan(ValueError):
    """A payload that is no plan, or a plan that cannot be carried out. One line."""


def encode_plan(plan: ServicePlan) -> bytes:
    """The payload of a replica. The same plan has the same bytes."""
    return msgspec.msgpack.encode(plan, order="sorted")


def decode_plan(payload: bytes) -> ServicePlan:
    try:
        plan = _DECODE(payload)
    except UNREADABLE as error:
        raise BadPlan(f"the payload is no plan of a service: {error}") from None
    problem = plan_problem(plan)
    if problem:
        raise BadPlan(problem)
    return plan


def plan_problem(plan: ServicePlan) -> str:
    """What is wrong with a plan, the field first; empty where nothing is."""
    return next(_problems(plan), "")


def _problems(plan: ServicePlan) -> Iterator[str]:
    if not plan.argv or not plan.argv[0]:
        yield "argv: it names no program"
    yield from _port_problems(plan.ports)
    for field, text in _texts(plan):
        for variable in placeholders_in(text):
            if variable not in variables_of(plan.ports):
                yield f"{field}: ${variable} is no port of this service"
    for name, probe in plan.probes():
        for told in _probe_problems(probe, plan.ports):
            yield f"{name}.{told}"
    if plan.partitions is not None:
        if plan.partitions.kind != HTTP:
            yield f"partitions.kind: {plan.partitions.kind!r} is not {HTTP}"
        for told in _probe_problems(plan.partitions, plan.ports):
            yield f"partitions.{told}"
    if plan.metrics and not plan.ports:
        yield "metrics: a service without a port cannot be scraped"
    if plan.metrics and not _is_path(plan.metrics):
        yield f"metrics: {plan.metrics!r} is no path; it begins with a slash"
    if plan.metrics_port and plan.metrics_port not in plan.ports:
        yield f"metrics_port: the service has no port called {plan.metrics_port!r}"
    if not 0 <= plan.grace_ms <= LONGEST_MS:
        yield f"grace_ms: {plan.grace_ms} is not from 0 to {LONGEST_MS}"


def _port_problems(ports: tuple[str, ...]) -> Iterator[str]:
    if len(ports) > PORTS_MAX:
        yield f"ports: {len(ports)} are more than the {PORTS_MAX} a replica may have"
    for name in ports:
        if PORT_NAME.fullmatch(name) is None:
            yield f"ports: {name!r} is no name; use small letters, digits and dashes"
    if len(variables_of(ports)) < len(ports) + bool(ports):
        yield "ports: two have the same name"


def _probe_problems(probe: Probe, ports: tuple[str, ...]) -> Iterator[str]:
    if probe.kind not in PROBE_KINDS:
        yield f"kind: {probe.kind!r} is none of {', '.join(PROBE_KINDS)}"
    elif probe.kind == EXEC:
        if not probe.argv:
            yield "argv: it names no program"
    elif not ports:
        yield "kind: a service without a port can be asked by exec alone"
    if probe.port and probe.port not in ports:
        yield f"port: the service has no port called {probe.port!r}"
    if probe.kind == HTTP and not _is_path(probe.path):
        yield f"path: {probe.path!r} is no path; it begins with a slash"
    for name, value in (("period_ms", probe.period_ms), ("timeout_ms", probe.timeout_ms)):
        if not 1 <= value <= LONGEST_MS:
            yield f"{name}: {value} is not from 1 to {LONGEST_MS}"
    for name, value in (("failures", probe.failures), ("successes", probe.successes)):
        if not 1 <= value <= COUNT_MAX:
            yield f"{name}: {value} is not from 1 to {COUNT_MAX}"


def _is_path(path: str) -> bool:
    return path.startswith("/") and _PLAIN.fullmatch(path) is not None


def _texts(plan: ServicePlan) -> Iterator[tuple[str, str]]:
    """Everything in which ports are put."""
    yield from (("argv", word) for word in plan.argv)
    yield from ((f"env.{name}", value) for name, value in plan.env.items())
    for name, probe in plan.probes():
        yield from ((f"{name}.argv", word) for word in probe.argv)


def variables_of(ports: Iterable[str]) -> dict[str, str]:
    """The names under which a program finds its ports, and which port each is."""
    found: dict[str, str] = {}
    for name in ports:
        found.setdefault(PORT_VARIABLE, name)
        found[f"{PORT_VARIABLE}_{name.upper().replace('-', '_')}"] = name
    return found


def placeholders_in(text: str) -> Iterator[str]:
    for match in _PLACEHOLDER.finditer(text):
        yield match[1] or match[2]


def filled_in(text: str, values: Mapping[str, str]) -> str:
    """The same text with its ports. What stands for no port of the service stays as it is."""

    def value(match: re.Match[str]) -> str:
        return values.get(match[1] or match[2], match[0])

    return _PLACEHOLDER.sub(value, text)
