"""Pages that cost more than one turn, and the line they are cut from."""

from holdfast.api import lines as lines_module
from holdfast.api import paging as paging_module
from holdfast.api.lines import JobLine
from holdfast.core import commands as c
from holdfast.core.ids import JobId
from holdfast.testing.world import PLAIN, World


def submitted(world: World, count: int) -> list[JobId]:
    command = c.SubmitJob(spec=PLAIN, items=(b"item",))
    return [world.do(command).answer for _ in range(count)]


def test_a_page_is_whole_although_it_takes_many_turns(inside, monkeypatch):
    monkeypatch.setattr(paging_module, "SLICE_JOBS", 3)
    monkeypatch.setattr(paging_module, "SLICE_VIEWS", 2)
    monkeypatch.setattr(paging_module, "SLICE_TASKS", 3)

    async def story(house):
        for number in range(10):
            await house.submit(name=f"n{number}")
        told = (await house.get("/jobs?limit=8")).value
        assert [job["name"] for job in told["jobs"]] == [f"n{n}" for n in range(9, 1, -1)]
        rest = (await house.get(f"/jobs?cursor={told['next']}")).value
        assert ([job["name"] for job in rest["jobs"]], rest["next"]) == (["n1", "n0"], None)
        assert [job["name"] for job in (await house.get("/jobs?name=n0")).value["jobs"]] == ["n0"]
        job_id = await house.submit(20)
        await house.post(f"/tasks/{job_id}/19/cancel")
        told = (await house.get(f"/jobs/{job_id}/tasks?state=killed")).value
        assert [task["index"] for task in told["tasks"]] == [19]
        told = (await house.get(f"/jobs/{job_id}/tasks")).value
        assert [task["index"] for task in told["tasks"]] == list(range(20))

    inside(story)


def test_a_search_that_takes_too_long_says_where_to_go_on(inside, monkeypatch):
    monkeypatch.setattr(paging_module, "SLICE_JOBS", 2)
    monkeypatch.setattr(paging_module, "SLICES", 2)

    async def story(house):
        for number in range(10):
            await house.submit(name=f"n{number}")
        told = (await house.get("/jobs?name=n0")).value
        assert told["jobs"] == []
        seen = []
        while told["next"] is not None:
            told = (await house.get(f"/jobs?name=n0&cursor={told['next']}")).value
            seen += told["jobs"]
        assert [job["name"] for job in seen] == ["n0"]

    inside(story)


def ids(line: JobLine, world: World, position: int | None = None) -> list[JobId]:
    return [job.job_id for _, job in line.before(world.state, position)]


def test_the_line_follows_what_comes_and_what_is_forgotten(monkeypatch):
    monkeypatch.setattr(lines_module, "SPARE", 2)
    world, line = World(), JobLine()
    first = submitted(world, 3)
    assert ids(line, world) == first[::-1]
    second = submitted(world, 2)
    assert ids(line, world) == [*second[::-1], *first[::-1]]
    middle = world.state.jobs[second[0]].position
    assert ids(line, world, middle) == first[::-1]
    for job_id in first:
        del world.state.jobs[job_id]
    assert ids(line, world) == second[::-1]
    for job_id in second:
        del world.state.jobs[job_id]
    # It is not kept for ever what nobody can see.
    third = submitted(world, 1)
    assert ids(line, world) == third
    assert len(line._ids) == 1
