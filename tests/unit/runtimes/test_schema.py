"""The schema of a manifest takes what the reader takes, and refuses nothing that it takes."""

import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import jsonschema_rs
import pytest
import yaml

from holdfast.runtimes.descriptor import Problem
from holdfast.runtimes.manifest import ClassRuntime, Manifest, decode
from holdfast.runtimes.resource import KIND
from holdfast.runtimes.schema import RULES, SPELLED, manifest_parts, manifest_schema
from holdfast.runtimes.written import read

DOCS = Path(__file__).parents[3] / "docs"
VALIDATOR = jsonschema_rs.validator_for(manifest_schema())

FULL: dict[str, Any] = yaml.safe_load("""
apiVersion: oaas.io/v1alpha1
kind: ClassRuntime
metadata: {name: greeter, labels: {tier: web, example.org/team: blue}, annotations: {note: any}}
spec:
  template: edge
  functions:
    - key: hello
      command: [serve, $PORT]
      env: {MODE: fast}
      replicas: 3
      ports: [http, admin]
      resources: {cpu: 500m, memory: 512Mi, gpus: 1}
      health: {path: /, period: 1s, start: {failures: 30}, live: {exec: [check], timeout: 2}}
      metrics: {path: /numbers, port: admin}
      rollout: {surge: 25%, unavailable: 1, steps: [10%, 100%], pause: 1h30m}
      placement: {constraints: [zone == eu], spread: spread}
      grace: 20s
      restarts: {max: 3, refill: 2m, delay: 500ms, maxDelay: 10s, steady: 1m}
  odgm: {command: [grid], partitions: 4, replicas: 2}
  nfr: {mode: enforce, minThroughputRps: 50, maxLatencyMs: 100, minReplicas: 1, maxReplicas: 5,
        analyzer: {static: {replicas: 2, memory: 1Gi, cpu: 0.5}}, maxLoad: 70%,
        enforceIn: [available, progressing], dimensions: [replicas]}
  timeouts: {progress: 10m, delete: 30}
""")


def examples() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every manifest on our pages."""
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)):
            for document in yaml.safe_load_all(block):
                if isinstance(document, dict) and document.get("kind") == KIND:
                    yield f"{page.name} {number}", document


EXAMPLES = dict(examples())


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_on_our_pages_validates_and_decodes(name: str) -> None:
    VALIDATOR.validate(EXAMPLES[name])
    assert isinstance(decode(EXAMPLES[name]), ClassRuntime)


def test_the_page_about_runtimes_has_an_example() -> None:
    assert any(name.startswith("runtimes.md") for name in EXAMPLES)


def test_all_that_can_be_written_is_in_the_schema() -> None:
    VALIDATOR.validate(FULL)
    assert isinstance(decode(FULL), ClassRuntime)
    parts = manifest_parts("#/{name}")
    for path in RULES:
        part, _, field = path.partition(".")
        assert field in parts[part]["properties"], path
    assert parts[Manifest.__name__]["properties"]["spec"] == {"$ref": "#/Spec"}


WRONG: dict[str, Any] = {
    "spec.functions.0.replicas": -1,
    "spec.functions.0.health.period": "soon",
    "spec.functions.0.key": "No Name",
    "spec.template": "moon",
    "spec.nodes": 3,
    "metadata.labels.version": 1.0,
    "metadata.name": "",
    "kind": "Deployment",
    "spec.functions.0.rollout.surge": "much",
    "spec.odgm.partitions": 0,
}


@pytest.mark.parametrize("path", WRONG)
def test_what_a_schema_can_know_to_be_wrong_it_refuses(path: str) -> None:
    wrong = deepcopy(FULL)
    put(wrong, path.split("."), WRONG[path])
    assert not VALIDATOR.is_valid(wrong)
    assert isinstance(decode(wrong), Problem)


def test_what_the_schema_refuses_the_reader_refuses() -> None:
    dice = Random(7)
    values = [None, True, -1, 0, 1.5, "", "x", "5m", "25%", "512Mi", [], ["x"], {}, {"a": "b"}]
    refused = 0
    for _ in range(400):
        other = deepcopy(FULL)
        put(other, dice.choice(list(paths(FULL))), dice.choice(values))
        if not VALIDATOR.is_valid(other):
            refused += 1
            assert isinstance(decode(other), Problem), other
    assert refused > 100


@pytest.mark.parametrize("kind", SPELLED, ids=lambda kind: kind.__name__)
def test_what_is_spelled_is_taken_in_every_spelling_that_is_read(kind: type) -> None:
    taken = jsonschema_rs.validator_for(SPELLED[kind])
    spellings = [
        0, 1, 7, 0.5, -1, "90s", "1h30m", "1h 30m", "1.5 H", "500MS", "5", "512Mi", "1.5 GB", "4k",
        "500m", "2", "25%", " 25 %", "100%", "101%", "-5%", "", "m", "%",
    ]  # fmt: skip
    for written in spellings:
        try:
            read(kind, written)
        except ValueError:
            continue
        assert taken.is_valid(written), written


def paths(value: Any, here: tuple[str, ...] = ()) -> Iterator[list[str]]:
    if here:
        yield list(here)
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inside in pairs:
        if isinstance(inside, dict | list):
            yield from paths(inside, (*here, str(key)))
        else:
            yield [*here, str(key)]


def put(document: Any, path: list[str], value: Any) -> None:
    for step in path[:-1]:
        document = document[int(step) if isinstance(document, list) else step]
    document[int(path[-1]) if isinstance(document, list) else path[-1]] = value


FAR: dict[str, Any] = {
    "spec.timeouts.progress": 1e308,
    "spec.timeouts.delete": "9" * 400 + "s",
    "spec.functions.0.grace": 10**400,
    "spec.functions.0.resources.cpu": 10**400,
    "spec.functions.0.resources.memory": "9" * 400,
}


@pytest.mark.parametrize("path", FAR)
def test_a_number_that_is_far_too_large_is_a_mistake_like_any_other(path: str) -> None:
    wrong = deepcopy(FULL)
    put(wrong, path.split("."), FAR[path])
    found = decode(wrong)
    assert isinstance(found, Problem)
    assert found.path == path.replace(".0.", "[0].")
