"""Who may ask what: every route with every kind of token, generated from the table."""

import re

import pytest

from holdfast.api.identity import INCLUDED, PUBLIC
from holdfast.api.routes import TABLE, Route
from holdfast.core.decide.fleet import SCOPES

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")
PATHS = sorted({route.path for route in TABLE})


def spelled(path: str) -> str:
    return re.sub(r"\{\w+\}", "1", path)


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


def test_the_table_declares_known_scopes_and_says_what_each_route_is_for():
    assert {route.scope for route in TABLE} <= {*SCOPES, PUBLIC}
    assert {route.also for route in TABLE} <= {*SCOPES, ""}
    assert [named(route) for route in TABLE if not route.summary] == []
    assert len({named(route) for route in TABLE}) == len(TABLE)


def test_only_health_is_public():
    public = {route.path for route in TABLE if route.scope == PUBLIC}
    assert public == {"/livez", "/readyz", "/healthz"}


def test_every_route_is_closed_to_those_without_a_good_token(inside):
    async def story(house):
        expired = await house.token("admin", expires_wall=1)
        bad = ["", "nonsense", "hf_a_b", house.admin[:-1] + "x", house.admin + "0", expired]
        for route in TABLE:
            for token in bad:
                told = await house.ask(route.method, spelled(route.path), token=token, leave=True)
                if route.scope == PUBLIC:
                    assert told.status == 200
                else:
                    assert (told.status, told.code) == (401, "unauthenticated"), named(route)
                    assert "bearer" in told.headers["www-authenticate"].lower()

    inside(story)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_token_opens_the_routes_of_its_scope_and_no_others(inside, scope):
    async def story(house):
        token = await house.token(scope)
        may = INCLUDED.get(scope, {scope}) | {PUBLIC}
        for route in TABLE:
            told = await house.ask(route.method, spelled(route.path), token=token, leave=True)
            if not may & ({route.scope, route.also} - {""} or {PUBLIC}):
                assert (told.status, told.code) == (403, "forbidden"), named(route)
            else:
                assert told.status not in (401, 403, 405), named(route)
                assert told.status < 500, (named(route), told.content)

    inside(story)


def test_what_is_not_in_the_table_is_told_only_to_those_who_may_ask(inside):
    async def story(house):
        reader = await house.token("read")
        for path in ("/", "/nothing", "/jobs/1/nothing", "/jobs/", "//jobs", "/jobs/1/tasks/"):
            assert (await house.get(path, token="")).status == 401
            assert (await house.get(path, token=reader)).code == "not_found"
        assert (await house.get("/elsewhere", prefix="", token=reader)).code == "not_found"

    inside(story)


def test_another_method_is_refused_and_the_right_ones_are_named(inside):
    async def story(house):
        reader = await house.token("read")
        for path in PATHS:
            allowed = sorted(route.method for route in TABLE if route.path == path)
            for method in METHODS:
                if method in allowed:
                    continue
                assert (await house.ask(method, spelled(path), token="")).status == 401
                told = await house.ask(method, spelled(path), token=reader)
                assert (told.status, told.code) == (405, "method_not_allowed")
                assert told.headers["allow"] == ", ".join(allowed)

    inside(story)


def test_health_is_found_where_others_look_for_it(inside):
    async def story(house):
        for path in ("/livez", "/readyz", "/healthz"):
            assert (await house.get(path, prefix="", token="")).status == 200
        for path in ("/metrics", "/version", "/openapi.json", "/docs"):
            assert (await house.get(path, prefix="")).status == 200
            assert (await house.get(path, prefix="", token="")).status == 401

    inside(story)
