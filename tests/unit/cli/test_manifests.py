"""Manifests in files: several in one, bounded, and every mistake with its file, line and field."""

import io
import json
import sys
from pathlib import Path

import pytest

from holdfast.cli.errors import NOT_FOUND, USAGE, Trouble
from holdfast.cli.manifests import manifests_in
from holdfast.runtimes.manifest import told

GREETER = """\
apiVersion: oaas.io/v1alpha1
kind: ClassRuntime
metadata: {name: greeter}
spec:
  template: dev
  functions:
    - key: hello
      command: [python3, -m, http.server, $PORT]
      replicas: 2
"""


@pytest.fixture
def write(tmp_path: Path):
    def written(text: str, name: str = "greeter.yaml") -> str:
        place = tmp_path / name
        place.write_text(text, encoding="utf-8")
        return str(place)

    return written


def refused(*files: str) -> Trouble:
    with pytest.raises(Trouble) as no:
        manifests_in(files)
    return no.value


def test_a_file_holds_several_documents_and_so_may_what_is_piped_in(write, monkeypatch):
    two = write(f"---\n{GREETER}---\n---\n{GREETER.replace('greeter', 'other')}")
    assert [each.runtime.name for each in manifests_in([two])] == ["greeter", "other"]
    piped = io.TextIOWrapper(io.BytesIO(GREETER.encode()))
    monkeypatch.setattr(sys, "stdin", piped)
    (one,) = manifests_in(["-"])
    assert one.runtime.spec.functions[0].replicas == 2


def test_json_is_a_manifest_too_also_with_tabs(write):
    (one,) = manifests_in([write(GREETER)])
    document = json.dumps(one.content, indent="\t")
    (same,) = manifests_in([write(document, "greeter.json")])
    assert told(same.runtime.spec) == told(one.runtime.spec)


@pytest.mark.parametrize(
    ("before", "after", "line", "said"),
    [
        ("replicas: 2", "replicas: -2", 9, "spec.functions[0].replicas: -2 is below zero"),
        ("replicas: 2", "replica: 2", 9, "spec.functions[0].replica: unknown field"),
        ("replicas: 2", "replicas: two", 9, "spec.functions[0].replicas: "),
        ("      command: [python3, -m, http.server, $PORT]\n", "", 7, "spec.functions[0].command"),
        ("template: dev", "template: moon", 5, "spec.template: "),
        ("template: dev", "template: dev\n  nfr: {cooldown: soon}", 6, "spec.nfr.cooldown: "),
        ("kind: ClassRuntime", "kind: Pod", 2, "kind: 'Pod' is not known"),
        ("replicas: 2", "replicas: 2\n      replicas: 3", 10, "replicas: it is said twice"),
        ("replicas: 2", "replicas: [2", 10, "expected"),
        ("replicas: 2", "replicas: &x [*x]", 9, "an alias stands inside of what it names"),
    ],
)
def test_a_mistake_is_one_line_with_file_line_field_and_the_next_command(
    write, before, after, line, said
):
    file = write(GREETER.replace(before, after))
    no = refused(file)
    assert no.code == USAGE
    assert "\n" not in str(no)
    assert str(no).startswith(f"{file}:{line}: "), str(no)
    assert said in str(no)
    assert f"`holdfast diff -f {file}`" in str(no)


def test_what_aliases_would_come_to_is_bounded_before_it_is_written_out(write):
    laughs = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 30):
        each = ", ".join([f"*a{level - 1}"] * 10)
        laughs.append(f"a{level}: &a{level} [{each}]")
    no = refused(write("\n".join(laughs)))
    assert "with its aliases written out" in str(no)
    assert "nested too deeply" in str(refused(write("[" * 200 + "]" * 200)))
    shared = GREETER.replace("command: [", "command: &argv [") + "    - {key: b, command: *argv}\n"
    (one,) = manifests_in([write(shared)])
    assert one.runtime.spec.functions[0].command == one.runtime.spec.functions[1].command


def test_nothing_of_python_is_made_by_a_tag(write, tmp_path: Path):
    tagged = GREETER + f"x: !!python/object/apply:pathlib.Path.touch [{tmp_path / 'made'}]\n"
    assert refused(write(tagged)).code == USAGE
    assert not (tmp_path / "made").exists()


def test_a_file_that_is_not_there_too_large_or_no_text_is_told_as_that(write, tmp_path: Path):
    assert refused(str(tmp_path / "none.yaml")).code == NOT_FOUND
    assert "more than" in str(refused(write(GREETER + "#" * 1024 * 1024)))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "holds no text" in str(refused(str(tmp_path / "binary")))
    assert "holds no manifest" in str(refused(write("---\n")))


def test_one_name_is_declared_once_however_many_files_there_are(write):
    first, second = write(GREETER), write(GREETER, "again.yaml")
    no = refused(first, second)
    assert f"{first}:1 declares 'greeter' too" in str(no)
