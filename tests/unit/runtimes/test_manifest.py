"""A manifest is read whole or refused with one line that names the field."""

from copy import deepcopy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.core.resource import STATUS_BYTES_MAX
from holdfast.runtimes.checks import FUNCTIONS_MOST
from holdfast.runtimes.descriptor import Problem
from holdfast.runtimes.documents import decode_status, encode_status, resource_document
from holdfast.runtimes.manifest import ClassRuntime, decode, decode_stored, encode, told
from holdfast.runtimes.status import NEW, Recommendation, Router
from holdfast.runtimes.written import Cpu, Portion, Share, Size, Span, portion_of, read, spell
from holdfast.testing.model_runtime import ModelRuntime, a_resource, declared, function

GREETER = """
apiVersion: oaas.io/v1alpha1
kind: ClassRuntime
metadata: {name: greeter}
spec:
  template: dev
  functions:
    - {key: hello, command: ["python3", "-m", "http.server", "$PORT"], replicas: 2,
       health: {path: /, period: 1s}}
  odgm: {enabled: true, command: ["python3", "-m", "http.server", "$PORT"], replicas: 1,
         partitions: 4}
  nfr: {mode: enforce, minThroughputRps: 50, maxLatencyMs: 100, maxReplicas: 5, stability: 180s,
        cooldown: 120s}
"""


PARSED: dict[str, Any] = yaml.safe_load(GREETER)


def greeter() -> dict[str, Any]:
    return deepcopy(PARSED)


def read_well(content: object) -> ClassRuntime:
    found = decode(content)
    assert isinstance(found, ClassRuntime), found
    return found


def test_a_manifest_is_read_with_every_default():
    spec = read_well(greeter()).spec
    hello = spec.functions[0]
    assert (hello.key, hello.replicas, hello.grace, hello.ports) == ("hello", 2, 10_000, ("http",))
    assert hello.health is not None
    assert (hello.health.path, hello.health.period, hello.health.failures) == ("/", 1_000, 3)
    assert spec.odgm is not None
    assert spec.odgm.partitions == 4
    assert (spec.nfr.stability, spec.nfr.cooldown, spec.nfr.max_step_down) == (180_000, 120_000, 1)
    assert (spec.nfr.enforce_in, spec.nfr.dimensions) == (("available",), ("replicas",))
    assert spec.timeouts.progress == 300_000


def test_what_is_stored_is_canonical_and_read_back():
    one = read_well(greeter()).spec
    turned = greeter()
    turned["spec"] = dict(reversed(turned["spec"].items()))
    turned["spec"]["nfr"]["stability"] = "3m"
    turned["spec"]["functions"][0]["env"] = {}
    assert encode(read_well(turned).spec) == encode(one)
    assert decode_stored(encode(one)) == one


def test_what_is_shown_can_be_applied_again():
    world = ModelRuntime(a_resource(read_well(greeter()).spec))
    world.look()
    shown = resource_document(world.resource, lambda at: f"at {at}")
    again = read_well(yaml.safe_load(yaml.safe_dump(shown)))
    assert again.spec == world.resource.spec
    assert again.expects == world.resource.version


def test_what_is_shown_has_the_names_that_users_know():
    world = ModelRuntime(a_resource(read_well(greeter()).spec))
    world.look()
    status = resource_document(world.resource, lambda at: f"at {at}")["status"]
    assert {
        "phase", "observedGeneration", "conditions", "functions", "routers", "resource_refs",
        "nfr_recommendations", "last_applied_recommendations", "last_applied_at",
    } <= set(status)  # fmt: skip
    assert set(status["conditions"][0]) == {
        "type", "status", "reason", "message", "lastTransitionTime", "observedGeneration",
    }  # fmt: skip
    assert status["conditions"][0]["lastTransitionTime"] == "at 10000"
    assert status["functions"][0]["function_key"] == "hello"
    assert status["last_applied_at"] is None


def test_a_status_is_stored_as_canonical_bytes():
    world = ModelRuntime(a_resource())
    world.look()
    status = world.resource.status
    assert decode_status(encode_status(status)) == status
    assert decode_status(b"") == NEW


def at(path: str, value: object) -> dict[str, Any]:
    """The manifest with one field set to something else, or taken away."""
    content = greeter()
    *way, last = path.replace("[", ".[").split(".")
    place: Any = content
    for step in way:
        place = place[int(step[1:-1])] if step.startswith("[") else place.setdefault(step, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return content


TWICE = [{"key": "a", "command": ["x"]}, {"key": "b", "command": ["x"]},
         {"key": "a", "command": ["x"]}]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("kind", "Pod", "kind: 'Pod' is not known; write ClassRuntime"),
        ("apiVersion", "v1", "apiVersion: 'v1' is not known; write oaas.io/v1alpha1"),
        ("metadata.name", "Big Name", "metadata.name: 'Big Name' is no name"),
        ("metadata.name", "a--b", "metadata.name: 'a--b' is no name"),
        ("spec.template", "cloud", "spec.template: 'cloud' is not known; there are dev, edge"),
        ("spec.functions", None, "spec.functions: it is missing"),
        ("spec.odgm.partitionHealth", {"path": "partitions"},
         "spec.odgm.partitionHealth.path: 'partitions' must begin with /"),
        ("spec.odgm.partitionHealth", {"port": "admin"},
         "spec.odgm.partitionHealth.port: 'admin' is none of its ports: http"),
        ("spec.odgm.partitionHealth", {"period": "50ms"},
         "spec.odgm.partitionHealth.period: it must be at least 100ms"),
        ("spec.odgm.partitionHealth", {"timeout": 0},
         "spec.odgm.partitionHealth.timeout: it must be longer than nothing"),
        ("spec.odgm.partitionHealth", {"path": "/a b"},
         "spec.odgm.partitionHealth.path: '/a b' has signs that no path has"),
        ("spec.odgm.partitionHealth", {"period": "25h"},
         "spec.odgm.partitionHealth.period: it is longer than a day"),
        ("spec.odgm.partitionHealth", {"interval": "5s"},
         "spec.odgm.partitionHealth.interval: unknown field"),
        ("spec.odgm.partitionHealth", {"leaderSteady": "soon"},
         "spec.odgm.partitionHealth.leaderSteady: 'soon' is not a duration"),
        ("spec.odgm", {"command": ["grid"], "partitions": 1_001, "partitionHealth": {}},
         "spec.odgm.partitions: 1001 are more than the 1000 that can be told of"),
        ("spec.functions", [], "spec.functions: a class runtime has at least one function"),
        ("spec.functions", TWICE, "spec.functions[2].key: 'a' is the key of spec.functions[0]"),
        ("spec.functions[0].replicas", -1, "spec.functions[0].replicas: -1 is below zero"),
        ("spec.functions[0].replicas", "two",
         "spec.functions[0].replicas: expected a whole number, got text"),
        ("spec.functions[0].relicas", 2, "spec.functions[0].relicas: unknown field"),
        ("spec.functions[0].command", None, "spec.functions[0].command: template dev runs"),
        ("spec.functions[0].image", "a", "spec.functions[0].image: template dev runs programs"),
        ("spec.functions[0].key", "a_b", "spec.functions[0].key: 'a_b' is no name"),
        ("spec.functions[0].key", "x" * 60, "spec.functions[0].key: "),
        ("spec.functions[0].env", {"A B": "1"}, "spec.functions[0].env: 'A B' is no name of"),
        ("spec.functions[0].grace", "soon", "spec.functions[0].grace: 'soon' is not a duration"),
        ("spec.functions[0].resources.memory", "much", "spec.functions[0].resources.memory: "),
        ("spec.functions[0].health.period", "0s", "spec.functions[0].health.period: it must be"),
        ("spec.functions[0].health.path", "x", "spec.functions[0].health.path: 'x' must begin"),
        ("spec.functions[0].health.port", "x", "spec.functions[0].health.port: 'x' is none of"),
        ("spec.functions[0].health.exec", ["x"], "spec.functions[0].health: it asks either by"),
        ("spec.functions[0].health.kind", "tcp", "spec.functions[0].health.kind: tcp does not go"),
        ("spec.functions[0].ports", [], "spec.functions[0].health.port: there is no port"),
        ("spec.functions[0].health.live", {"failures": 0},
         "spec.functions[0].health.live.failures: 0 is below 1"),
        ("spec.functions[0].rollout", {"surge": 0}, "spec.functions[0].rollout: surge and"),
        ("spec.functions[0].rollout", {"surge": "0%"}, "spec.functions[0].rollout: surge and"),
        ("spec.functions[0].rollout", {"steps": ["50%", "10%"]},
         "spec.functions[0].rollout.steps[1]: each step must be larger"),
        ("spec.functions[0].rollout", {"steps": ["50%"]},
         "spec.functions[0].rollout.steps[0]: the last step must be 100%"),
        ("spec.functions[0].placement", {"constraints": ["zone"]},
         "spec.functions[0].placement.constraints[0]: 'zone' is no constraint"),
        ("spec.odgm.partitions", 0, "spec.odgm.partitions: 0 is below 1"),
        ("spec.odgm.command", None, "spec.odgm.command: template dev runs programs"),
        ("spec.nfr.mode", "force", "spec.nfr.mode: 'force' is not known; there are off, observe"),
        ("spec.nfr.maxReplicas", None, "spec.nfr.maxReplicas: mode enforce needs a bound"),
        ("spec.nfr.minReplicas", 9, "spec.nfr.maxReplicas: 5 is below minReplicas, 9"),
        ("spec.nfr.stability", "180", "spec.nfr.stability: '180' is not a duration"),
        ("spec.nfr.minThroughputRps", 0, "spec.nfr.minThroughputRps: it must be above zero"),
        ("spec.nfr.minThroughputRps", float("inf"), "spec.nfr.minThroughputRps: it must be above"),
        ("spec.nfr.minThroughputRps", 1e306, "spec.nfr.minThroughputRps: it must be above"),
        ("spec.nfr.maxLatencyMs", 10**30, "spec.nfr.maxLatencyMs: 10000000000000000000… is too"),
        ("spec.functions", [{"key": 10**30}], "spec.functions[0].key: 10000000000000000000… is"),
        ("status", {"a": [-10**30]}, "status.a[0]: -1000000000000000000… is too large"),
        ("spec.nfr.dimensions", ["speed"], "spec.nfr.dimensions[0]: 'speed' is not known; there"),
        ("spec.nfr.analyzer", {"workers": {}, "static": {}}, "spec.nfr.analyzer: name exactly one"),
        ("spec.nfr.analyzer", {"prometheus": {"url": "x", "queries": {}}},
         "spec.nfr.analyzer.prometheus.url: write http"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_field(path, value, said):
    found = decode(at(path, value))
    assert isinstance(found, Problem)
    assert str(found).startswith(said)
    assert "\n" not in str(found)


def test_what_could_not_be_stored_is_refused_before():
    large = at("spec.functions[0].env", {"A": "x" * 300_000})
    assert str(decode(large)) == "spec: all of it together is more than 256 KiB"


def test_as_many_functions_as_may_be_have_room_in_a_status():
    names = [f"function-of-some-length-{number}" for number in range(FUNCTIONS_MOST)]
    functions = [function(name, "hang") for name in names]
    world = ModelRuntime(a_resource(declared(functions=functions)))
    world.look()
    said = "x" * 500
    status = world.resource.status
    status = replace(
        status,
        functions=tuple(replace(each, message=said) for each in status.functions),
        routers=tuple(Router(each.service, ("10.0.0.1:12345",) * 10) for each in status.functions),
        nfr_recommendations={
            f"replicas/{name}": Recommendation(
                value=10**9, observed_at=Instant(10**12), generation=99, basis="throughput"
            )
            for name in names
        },
    )
    assert len(encode_status(status)) < STATUS_BYTES_MAX


@pytest.mark.parametrize("content", [None, [], "text", 3])
def test_what_is_no_mapping_is_no_manifest(content):
    assert isinstance(decode(content), Problem)


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["key", "functions", "command", "mode", "a"]), inner),
        max_leaves=8,
    ),
    st.sampled_from(["spec", "spec.functions", "spec.nfr", "spec.odgm", "spec.functions[0].env"]),
)
def test_whatever_is_written_there_is_an_answer(content, path):
    assert isinstance(decode(at(path, content or 0)), ClassRuntime | Problem)


@given(
    st.builds(Span, st.integers(0, 10**9))
    | st.builds(Size, st.integers(0, 10**12))
    | st.builds(Cpu, st.integers(0, 10**6))
    | st.builds(Share, st.integers(0, 100))
    | st.builds(Portion, st.integers(-101, 1_000))
)
def test_what_is_spelled_is_read_back(value):
    assert read(type(value), spell(value)) == value


def test_a_portion_of_all_rounds_to_the_safe_side():
    quarter = read(Portion, "25%")
    assert portion_of(quarter, 10, upwards=True) == 3
    assert portion_of(quarter, 10, upwards=False) == 2
    assert portion_of(read(Portion, 2), 10, upwards=False) == 2


def test_the_spec_is_told_as_it_is_written():
    spec = told(read_well(greeter()).spec)
    assert spec["nfr"]["stability"] == "3m"
    assert spec["nfr"]["minThroughputRps"] == 50
    assert spec["functions"][0]["rollout"] == {
        "surge": 1, "unavailable": 0, "steps": [], "pause": "0s",
    }  # fmt: skip
