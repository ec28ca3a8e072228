"""`holdfast states`: the tables as pictures, and the check that the document is not stale."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from holdfast.core.drawing import FORMATS, machines, states_document
from holdfast.runtimes.drawing import RUNTIME_MACHINE

EVERY = (*machines(), RUNTIME_MACHINE)


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_form_draws_every_state_of_every_machine(run, form: str) -> None:
    done = run("states", "--format", form)
    assert done.code == 0
    for machine in EVERY:
        assert all(state in done.out for state in machine.states)


def test_an_svg_is_one_picture(run) -> None:
    choices = [("--machine", machine.name) for machine in EVERY]
    for choice in ((), *choices):
        drawn = run("states", "--format", "svg", *choice).out
        # What we have just drawn ourselves is no stranger's text.
        assert ElementTree.fromstring(drawn).tag.endswith("svg")  # noqa: S314


def test_json_names_its_schema_and_its_machines(run) -> None:
    every = json.loads(run("states", "--format", "json").out)
    assert every["schema"] == 1
    assert list(every["machines"]) == [machine.name for machine in EVERY]
    one = json.loads(run("states", "--format", "json", "--machine", "lease").out)
    assert list(one["machines"]) == ["lease"]


def test_a_written_document_passes_its_check(run, tmp_path: Path) -> None:
    page = tmp_path / "states.md"
    assert run("states", "--write", page) == (0, "", "")
    assert page.read_text(encoding="utf-8") == states_document(beside=(RUNTIME_MACHINE,))
    assert run("states", "--check", page) == (0, "", "")


@pytest.mark.parametrize("content", [None, "", "# States\n"])
def test_a_stale_document_fails_and_names_the_command_that_renews_it(
    run, tmp_path: Path, content: str | None
) -> None:
    page = tmp_path / "states.md"
    if content is not None:
        page.write_text(content, encoding="utf-8")
    done = run("states", "--check", page)
    assert (done.code, done.out) == (1, "")
    assert f"holdfast states --write {page}" in done.err
