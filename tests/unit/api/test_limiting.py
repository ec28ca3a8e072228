"""Limits over HTTP: set, changed, shown and cleared, and what they hold back."""

import pytest


def test_a_limit_is_set_shown_listed_and_cleared(inside):
    async def story(house):
        told = await house.ask(
            "PUT", "/limits/key/customer-42", {"running": 2, "rate": "10/1m"}
        )
        assert told.status == 200, told.content
        expected = {
            "id": "key/customer-42", "scope": "key", "name": "customer-42", "running": 2,
            "rate": "10/1m", "starts": 10, "per_ms": 60_000, "weight": None, "in_use": 0,
            "cpus": None, "memory_bytes": None, "gpus": None, "resources": {}, "taken": {},
        }  # fmt: skip
        assert told.value == expected
        await house.ask("PUT", "/limits/namespace/team", {"weight": 3})
        listed = (await house.get("/limits")).value
        assert [limit["id"] for limit in listed["limits"]] == ["key/customer-42", "namespace/team"]
        assert listed["limits"][1]["weight"] == 3
        assert (await house.get("/limits/key/customer-42")).value == expected
        cleared = await house.ask("DELETE", "/limits/key/customer-42")
        assert cleared.value == {"cleared": True}
        assert (await house.ask("DELETE", "/limits/key/customer-42")).value == {"cleared": False}
        assert (await house.get("/limits/key/customer-42")).code == "not_found"

    inside(story)


def test_a_patch_of_a_limit_leaves_the_rest_as_it_was_and_a_put_does_not(inside):
    async def story(house):
        here = "/limits/namespace/team"
        await house.ask("PUT", here, {"running": 2, "cpus": 4, "resources": {"licence": 1.5}})
        told = await house.ask("PATCH", here, {"memory": "1Gi", "running": None, "gpus": 1})
        wanted = {
            "running": None, "cpus": 4.0, "memory_bytes": 1 << 30, "gpus": 1,
            "resources": {"licence": 1.5}, "weight": 1,
        }  # fmt: skip
        assert {name: told.value[name] for name in wanted} == wanted
        told = await house.ask("PATCH", here, {"resources": {"licence": None}, "weight": 7})
        assert (told.value["resources"], told.value["weight"]) == ({}, 7)
        told = await house.ask("PUT", here, {"running": 1})
        assert (told.value["running"], told.value["cpus"], told.value["weight"]) == (1, None, 1)
        # It may be the first that is said of it.
        assert (await house.ask("PATCH", "/limits/key/k", {"running": 1})).status == 200

    inside(story)


THREE = {"slots": 3, "cpus_milli": 3_000, "memory_bytes": 0, "gpus": 0}


def test_what_tasks_take_together_is_bounded_and_told(inside):
    async def story(house):
        await house.ask("PUT", "/limits/namespace/default", {"cpus": 1, "gpus": 8})
        await house.submit(3, cpus=0.5)
        runs = (await house.exchange(1, capacity=THREE)).value["runs"]
        assert sum(len(run["items"]) for run in runs) == 2
        shown = (await house.get("/limits/namespace/default")).value
        assert (shown["in_use"], shown["taken"]) == (2, {"cpus": 1.0, "gpus": 0})
        (reason, _) = (await house.get("/jobs/1/explain")).value["reasons"]
        assert (reason["code"], reason["resource"]) == ("limit_namespace", "cpus")
        assert reason["sentence"] == (
            "It needs 0.5 cpus, and namespace default has 0 cpus left of the 1 cpu it may have; "
            "it is held by 2 of job 1."
        )

    inside(story)


def test_a_limit_holds_back_what_exceeds_it_and_says_how_much_is_in_use(inside):
    async def story(house):
        await house.ask("PUT", "/limits/key/k", {"running": 1})
        await house.submit(2, keys={"k": 0})
        runs = (await house.exchange(1)).value["runs"]
        assert sum(len(run["items"]) for run in runs) == 1
        assert (await house.get("/limits/key/k")).value["in_use"] == 1

    inside(story)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("queue/q", {"running": 1}),
        ("key/k", {}),
        ("key/k", {"running": -1}),
        ("key/k", {"running": 0}),
        ("key/k", {"cpus": -1}),
        ("key/k", {"memory": "much"}),
        ("key/k", {"resources": {"cpus": 1}}),
        ("key/k", {"resources": {"licence": 0}}),
        ("key/k", {"rate": "often"}),
        ("key/k", {"rate": "0/1m"}),
        ("key/k", {"running": 1, "weight": 2}),
        ("namespace/n", {"weight": 0}),
        ("namespace/n", {"weight": 101}),
        ("key/k", {"most": 1}),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(inside, path, body):
    async def story(house):
        told = await house.ask("PUT", f"/limits/{path}", body or b"{}")
        assert (told.status, told.code) == (422, "invalid"), told.content
        assert (await house.get("/limits")).value["limits"] == []

    inside(story)
