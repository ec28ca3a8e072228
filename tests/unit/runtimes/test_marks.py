"""Labels and annotations: taken as clusters take them, refused with the path of the key."""

from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from holdfast.core.resource import MARKS_BYTES_MAX
from holdfast.runtimes.descriptor import Problem
from holdfast.runtimes.manifest import ClassRuntime, decode
from holdfast.runtimes.resource import OWNER_LABEL
from holdfast.runtimes.templates import TEMPLATES
from holdfast.testing.model_runtime import a_resource

GREETER = """
apiVersion: oaas.io/v1alpha1
kind: ClassRuntime
metadata: {name: greeter, %s}
spec: {template: dev, functions: [{key: hello, command: [serve]}]}
"""


def read(metadata: str) -> ClassRuntime | Problem:
    content: dict[str, Any] = yaml.safe_load(GREETER % metadata)
    return decode(content)


def test_labels_and_annotations_are_kept_as_they_were_written():
    found = read(
        "labels: {tier: web, app.kubernetes.io/part-of: Greetings_1.0, empty: ''}, "
        "annotations: {example.org/note: 'anything at all: {}', owner: ann}"
    )
    assert isinstance(found, ClassRuntime), found
    assert found.labels["app.kubernetes.io/part-of"] == "Greetings_1.0"
    assert found.labels["empty"] == ""
    assert found.annotations["example.org/note"] == "anything at all: {}"


WRONG = {
    "labels: {version: 1.0}": 'metadata.labels.version: 1.0 is no text; write it in quotes: "1.0"',
    "labels: {on: true}": 'metadata.labels: the key true is no text; write "true"',
    "labels: {canary: yes}": 'metadata.labels.canary: true is no text; write it in quotes: "true"',
    "labels: {tier: [a]}": "metadata.labels.tier: its value must be text",
    "labels: {tier: }": "metadata.labels.tier: its value must be text",
    "labels: {tier: a b}": "metadata.labels.tier: 'a b' is no label: it takes letters",
    "labels: {tier: -web}": "metadata.labels.tier: '-web' is no label",
    "labels: {'a b': x}": 'metadata.labels["a b"]: it is no key: its name takes letters',
    "labels: {Example/x: y}": 'metadata.labels["Example/x"]: it is no key: before the slash',
    "annotations: {'': x}": 'metadata.annotations[""]: it is no key',
    "annotations: {count: 3}": 'metadata.annotations.count: 3 is no text; write it in quotes: "3"',
    "labels: web": "metadata.labels: expected a mapping, got text",
    f"annotations: {{note: {'x' * (MARKS_BYTES_MAX + 1)}}}": "metadata.annotations: labels and",
}


@pytest.mark.parametrize("metadata", WRONG, ids=lambda text: text[:30])
def test_a_mistake_is_told_with_the_path_of_the_key(metadata):
    found = read(metadata)
    assert isinstance(found, Problem), found
    assert str(found).startswith(WRONG[metadata])


def test_labels_of_a_runtime_never_become_those_by_which_its_children_are_found():
    for descriptor in TEMPLATES.values():
        mine = replace(a_resource(), labels=((OWNER_LABEL, "somebody"), ("tier", "web")))
        for workload in descriptor.render(mine):
            assert workload.labels[OWNER_LABEL] == mine.name
