"""What no worker could carry out is refused with its manifest, not found out later."""

from typing import Any

import pytest

from holdfast.coordinator.reconciling.deployment import workload_problem
from holdfast.core.ids import Instant
from holdfast.runtimes import runnable
from holdfast.runtimes.descriptor import Problem
from holdfast.runtimes.manifest import ClassRuntime, decode
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.status import NEW
from holdfast.runtimes.templates import TEMPLATES
from holdfast.wire import service


def manifest(more: dict[str, Any]) -> dict[str, Any]:
    function = {"key": "hello", "command": ["serve"], **more}
    return {
        "apiVersion": "oaas.io/v1alpha1",
        "kind": "ClassRuntime",
        "metadata": {"name": "greeter"},
        "spec": {"template": "edge", "functions": [function]},
    }


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"command": [""]}, ".command: template edge runs programs"),
        ({"command": ["a", "b\0c"]}, ".command[1]: no program can be told a zero byte"),
        ({"command": ["a", "$PORT_ADMIN"]}, ".command[1]: $PORT_ADMIN is none of its ports: http"),
        ({"command": ["a", "${PORT}"], "ports": []}, ".command[1]: $PORT, and there is no port"),
        ({"env": {"A": "\0"}}, ".env.A: no program can be told a zero byte"),
        ({"env": {"A": "$PORT_A"}}, ".env.A: $PORT_A is none of its ports"),
        ({"ports": ["1a"]}, ".ports[0]: '1a' must begin with a letter"),
        ({"ports": [f"a{n}" for n in range(17)]}, ".ports: 17 are more than 16"),
        ({"grace": "25h"}, ".grace: it is longer than a day"),
        ({"health": {"path": "/a b"}}, ".health.path: '/a b' has signs that no path has"),
        ({"health": {"path": "/ä"}}, ".health.path: '/ä' has signs that no path has"),
        ({"health": {"period": "25h"}}, ".health.period: it is longer than a day"),
        ({"health": {"failures": 1_001}}, ".health.failures: 1001 is above 1000"),
        ({"health": {"path": "/", "live": {"timeout": "25h"}}}, ".health.live.timeout: it is long"),
        ({"health": {"exec": ["x", "$PORT_A"]}}, ".health.exec[1]: $PORT_A is none of its ports"),
        ({"metrics": {"path": "/m\r\nx: y"}}, ".metrics.path: '/m\\r\\nx: y' has signs"),
    ],
)
def test_what_a_worker_would_refuse_is_refused_with_the_path_of_its_field(more, said):
    found = decode(manifest(more))
    assert isinstance(found, Problem)
    assert str(found).startswith(f"spec.functions[0]{said}")


def test_what_is_at_the_bounds_reaches_a_worker():
    largest = {
        "command": ["a", "$PORT", "${PORT_A0}", "$PORTAL"],
        "ports": [f"a{n}" for n in range(16)],
        "grace": "24h",
        "health": {"path": "/a%20b?c=d", "period": "24h", "timeout": "24h", "failures": 1_000},
        "metrics": {"path": "/metrics", "port": "a3"},
    }
    found = decode(manifest(largest))
    assert isinstance(found, ClassRuntime)
    resource = Resource(
        name=found.name, generation=1, version=1, created_at=Instant(1), deleted_at=None,
        finalizers=(), spec=found.spec, status=NEW,
    )  # fmt: skip
    (workload,) = TEMPLATES["edge"].render(resource)
    assert workload_problem(workload) == ""


def test_the_bounds_are_those_of_a_plan():
    assert runnable.PORTS_MOST == service.PORTS_MAX
    assert runnable.LONGEST_MS == service.LONGEST_MS
    assert runnable.COUNT_MOST == service.COUNT_MAX
    assert runnable._PLACEHOLDER.pattern == service._PLACEHOLDER.pattern
