"""The drawings say what the tables say, are well formed, and never lie on top of each other."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from holdfast.core import attempt, lease, task
from holdfast.core import commands as c
from holdfast.core.drawing import FORMATS, Machine, draw, draw_all, machines, states_document
from holdfast.core.ids import Index, JobId
from holdfast.core.job import job_state
from holdfast.core.spec import JobSpec
from holdfast.runtimes.drawing import RUNTIME_MACHINE
from holdfast.testing.world import World

SVG = "{http://www.w3.org/2000/svg}"
MACHINES = {machine.name: machine for machine in machines()}


def test_the_page_of_states_is_what_the_tables_say(blessing: bool) -> None:
    page = Path(__file__).parents[3] / "docs" / "states.md"
    if blessing:
        page.write_text(states_document(beside=(RUNTIME_MACHINE,)), encoding="utf-8")
    assert page.read_text(encoding="utf-8") == states_document(beside=(RUNTIME_MACHINE,))


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("task", task.TRANSITIONS),
        ("attempt", attempt.TRANSITIONS),
        ("lease", lease.TRANSITIONS),
    ],
)
def test_every_move_of_a_table_is_drawn_and_no_other(name: str, table: dict) -> None:
    expected = {
        (source.name, event.__name__, target.name)
        for source, row in table.items()
        for event, target in row.items()
    }
    arrows = MACHINES[name].arrows
    assert {(a.source, label, a.target) for a in arrows for label in a.labels} == expected
    assert MACHINES[name].states == tuple(state.name for state in table)
    assert set(MACHINES[name].final) <= set(MACHINES[name].states)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", MACHINES)
def test_every_form_names_every_state_and_every_move(name: str, form: str) -> None:
    machine, drawn = MACHINES[name], draw(name, form)
    assert drawn.endswith("\n")
    assert draw(name, form) == drawn
    for state in machine.states:
        assert state in drawn
    for arrow in machine.arrows:
        for label in arrow.labels:
            assert label in drawn
    assert drawn in draw_all(form) or form in ("json", "svg")


def test_the_picture_of_all_machines_is_one_document_with_each_below_the_other() -> None:
    root = ET.fromstring(draw_all("svg"))  # noqa: S314 - our own text.
    inner = list(root)
    assert len(inner) == len(MACHINES)
    tops = [float(part.attrib["y"]) for part in inner]
    heights = [float(part.attrib["height"]) for part in inner]
    assert tops == [sum(heights[:place]) for place in range(len(inner))]
    assert float(root.attrib["height"]) == sum(heights)
    assert float(root.attrib["width"]) == max(float(part.attrib["width"]) for part in inner)


def test_the_json_of_all_machines_is_one_document() -> None:
    document = json.loads(draw_all("json"))
    assert list(document) == ["task", "attempt", "lease", "circuit", "job"]
    assert document["lease"]["states"] == ["LIVE", "ENDED"]


def box_of(element: ET.Element, machine: Machine) -> tuple[float, float, float, float]:
    """The rectangle an element covers, a little generous for text."""
    get = {key: float(value) for key, value in element.attrib.items() if key in "x y width height"}
    if element.tag == f"{SVG}rect":
        return get["x"], get["y"], get["x"] + get["width"], get["y"] + get["height"]
    width = 6.2 * len(element.text or "")
    left = get["x"] - width if element.attrib["text-anchor"] == "end" else get["x"]
    return left, get["y"] - 10, left + width, get["y"] + 2


@pytest.mark.parametrize("name", MACHINES)
def test_nothing_overlaps_in_a_drawing_and_nothing_leaves_the_page(name: str) -> None:
    machine = MACHINES[name]
    root = ET.fromstring(draw(name, "svg"))  # noqa: S314 - our own text, made a line above.
    labels = [t for t in root.iter(f"{SVG}text") if t.attrib.get("class") == "label"]
    (heading,) = [t for t in root.iter(f"{SVG}text") if t.attrib.get("class") == "name"]
    assert heading.text == name
    drawn = [*root.iter(f"{SVG}rect"), *labels, heading]
    shapes = [box_of(shape, machine) for shape in drawn]
    assert len(labels) == sum(len(arrow.labels) for arrow in machine.arrows)
    for one, two in combinations(shapes, 2):
        apart = one[2] <= two[0] or two[2] <= one[0] or one[3] <= two[1] or two[3] <= one[1]
        assert apart, (one, two)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for left, top, right, bottom in shapes:
        assert left >= 0 <= top
        assert right <= width
        assert bottom <= height


@pytest.mark.parametrize("name", MACHINES)
def test_no_two_arrows_share_a_lane(name: str) -> None:
    root = ET.fromstring(draw(name, "svg"))  # noqa: S314 - our own text, made a line above.
    paths = [p.attrib["d"] for p in root.iter(f"{SVG}path") if "class" not in p.attrib]
    lanes = [path.partition("Q")[2].split()[0] for path in paths if "Q" in path]
    assert len(lanes) == len(set(lanes)) == len(MACHINES[name].arrows)


# One short story for each arrow of the job: what to do, and where it leads.
JOB = JobId("j")
LIMITED = JobSpec(name="n", kind="k", target="t", job_timeout_ms=100)
HURRIED = JobSpec(name="n", kind="k", target="t", job_timeout_ms=100, schedule_timeout_ms=50)
Story = Callable[[World], None]


def timed_out(world: World) -> None:
    world.sleep(100)
    world.tick()


def one_killed_one_timed_out(world: World, *, started: bool) -> None:
    world.submit("j", 2, spec=LIMITED)
    (lease_id,) = world.grant("j", 1)
    if started:
        world.start("j", 1, lease_id)
    world.did(c.KillTasks(job_id=JOB, indices=(Index(0),)))
    timed_out(world)


def one_unschedulable_one_timed_out(world: World, *, started: bool) -> None:
    world.submit("j", 2, spec=HURRIED)
    (lease_id,) = world.grant("j", 1)
    if started:
        world.start("j", 1, lease_id)
    world.sleep(50)
    world.tick()
    world.sleep(50)
    world.tick()


def step(*doings: Callable[[World], object]) -> Story:
    def story(world: World) -> None:
        for doing in doings:
            doing(world)

    return story


def submitted(**more: object) -> Callable[[World], object]:
    return lambda world: world.submit("j", **more)  # type: ignore[arg-type]


def granted(world: World) -> object:
    return world.grant("j")


def began(world: World) -> object:
    return world.start("j", 0, 1)


def retried(world: World) -> object:
    return world.did(c.RetryTasks(job_id=JOB))


def killed(world: World) -> object:
    return world.did(c.KillJob(job_id=JOB))


STORIES: dict[tuple[str, str], tuple[Story, Story]] = {
    ("PENDING", "RUNNING"): (step(submitted()), step(granted)),
    ("PENDING", "SUCCEEDED"): (
        step(submitted(count=0, sealed=False)),
        step(lambda world: world.did(c.SealJob(job_id=JOB, count=0))),
    ),
    ("PENDING", "FAILED"): (step(submitted(spec=LIMITED)), timed_out),
    ("PENDING", "KILLED"): (step(submitted()), step(killed)),
    ("PENDING", "UNSCHEDULABLE"): (
        step(submitted(spec=HURRIED)), step(lambda world: world.sleep(50), World.tick),
    ),
    ("RUNNING", "PENDING"): (
        step(submitted(), granted), step(lambda world: world.release("j", 0, 1)),
    ),
    ("RUNNING", "SUCCEEDED"): (
        step(submitted(), granted), step(lambda world: world.commit("j", 0, 1)),
    ),
    ("RUNNING", "FAILED"): (
        step(submitted(), granted, began), step(lambda world: world.fail("j", 0, 1)),
    ),
    ("RUNNING", "KILLED"): (step(submitted(), granted), step(killed)),
    ("RUNNING", "UNSCHEDULABLE"): (
        step(
            submitted(count=2, spec=HURRIED), granted, began, lambda world: world.sleep(50),
            World.tick,
        ),
        step(lambda world: world.commit("j", 0, 1)),
    ),
    ("FAILED", "PENDING"): (step(submitted(spec=LIMITED), timed_out), step(retried)),
    ("FAILED", "RUNNING"): (
        step(submitted(), granted, lambda world: world.fail("j", 0, 1)), step(retried),
    ),
    ("KILLED", "RUNNING"): (lambda w: one_killed_one_timed_out(w, started=True), step(retried)),
    ("KILLED", "PENDING"): (lambda w: one_killed_one_timed_out(w, started=False), step(retried)),
    ("UNSCHEDULABLE", "RUNNING"): (
        lambda w: one_unschedulable_one_timed_out(w, started=True), step(retried),
    ),
    ("UNSCHEDULABLE", "PENDING"): (
        lambda w: one_unschedulable_one_timed_out(w, started=False), step(retried),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "target"), STORIES)
def test_every_arrow_of_the_job_can_be_walked(source: str, target: str) -> None:
    world = World()
    before, after = STORIES[(source, target)]
    before(world)
    assert job_state(world.state.jobs[JOB]) == source
    after(world)
    assert job_state(world.state.jobs[JOB]) == target
    assert world.troubles() == ()


def test_every_arrow_of_the_job_has_a_story() -> None:
    assert {(arrow.source, arrow.target) for arrow in MACHINES["job"].arrows} == set(STORIES)
