"""Class runtimes over HTTP: declared, repeated, replaced as meant, watched, taken down."""

import asyncio
import json

import pytest

from holdfast.core import commands_resources as r
from holdfast.runtimes.resource import FINALIZER, KIND

COMMAND = ["python3", "-m", "http.server", "$PORT"]


def manifest(name="greeter", **spec):
    functions = spec.pop("functions", [{"key": "hello", "command": COMMAND, "replicas": 2}])
    return {
        "apiVersion": "oaas.io/v1alpha1",
        "kind": "ClassRuntime",
        "metadata": {"name": name},
        "spec": {"template": "dev", "functions": functions, **spec},
    }


@pytest.fixture
def still(inside):
    """A story in a house whose loop stands still, so that nobody but the story acts: where nothing
    is given out, nothing is decided about runtimes either."""

    def tell(story):
        async def told(house):
            house.served.exchanges.granting = False
            await story(house)

        inside(told)

    return tell


async def held(house, name="greeter"):
    """What the loop does first: from now on the runtime goes when somebody has cleaned up."""
    command = r.SetResourceFinalizers(kind=KIND, name=name, finalizers=(FINALIZER,))
    await house.served.ask(lambda k: k.execute(command, actor="test"))


async def cleaned(house, name="greeter"):
    command = r.SetResourceFinalizers(kind=KIND, name=name, finalizers=())
    await house.served.ask(lambda k: k.execute(command, actor="test"))


def test_a_runtime_is_declared_shown_listed_changed_and_taken_down(still):
    async def story(house):
        told = await house.post("/runtimes", manifest())
        assert told.status == 201, told.content
        assert told.value["change"] == "created"
        assert told.headers["location"] == "/api/v1/runtimes/greeter"
        shown = await house.get("/runtimes/greeter")
        assert shown.headers["etag"] == told.headers["etag"]
        assert shown.value["kind"] == "ClassRuntime"
        assert shown.value["metadata"]["generation"] == 1
        assert shown.value["spec"]["functions"][0]["grace"] == "10s"
        assert shown.value["status"]["phase"] == "pending"
        await held(house)
        changed = await house.post("/runtimes", manifest(timeouts={"progress": "10s"}))
        assert (changed.status, changed.value["change"]) == (200, "configured")
        assert changed.value["runtime"]["metadata"]["generation"] == 2
        listed = await house.get("/runtimes")
        assert [view["metadata"]["name"] for view in listed.value["runtimes"]] == ["greeter"]
        going = await house.ask("DELETE", "/runtimes/greeter")
        assert going.value["change"] == "deleting"
        assert (await house.ask("DELETE", "/runtimes/greeter")).value["change"] == "deleting"
        late = await house.post("/runtimes", manifest())
        assert late.code == "conflict"
        await cleaned(house)
        assert (await house.get("/runtimes/greeter")).code == "not_found"
        assert (await house.ask("DELETE", "/runtimes/greeter")).code == "not_found"

    still(story)


def test_what_says_the_same_again_changes_nothing_and_what_was_shown_can_be_applied(still):
    async def story(house):
        await house.post("/runtimes", manifest())
        before = house.served.coordinator.state.position
        again = await house.post("/runtimes", manifest(nfr={"stability": "3m"}))
        assert again.value["change"] == "unchanged"
        shown = (await house.get("/runtimes/greeter")).value
        same = await house.post("/runtimes", shown)
        assert same.value["change"] == "unchanged", same.content
        assert house.served.coordinator.state.position == before
        # Whoever applies what they read long ago is told that it is not so any more.
        await house.post("/runtimes", manifest(timeouts={"progress": "10s"}))
        assert (await house.post("/runtimes", shown)).code == "conflict"

    still(story)


BAD = {
    "spec.functions[0].replicas": {"functions": [{"key": "a", "command": ["x"], "replicas": -1}]},
    "spec.functions[0].nodes": {"functions": [{"key": "a", "command": ["x"], "nodes": 1}]},
    "spec.functions[1].key": {"functions": [{"key": "a", "command": ["x"]}] * 2},
    "spec.functions[0].command": {"functions": [{"key": "a"}]},
    "spec.template": {"template": "moon"},
    "spec.nfr.stability": {"nfr": {"stability": "soon"}},
    "spec.odgm": {"odgm": "yes"},
}


def test_a_mistake_is_told_with_the_path_of_its_field_and_nothing_is_recorded(still):
    async def story(house):
        before = house.served.coordinator.state.position
        for path, spec in BAD.items():
            told = await house.post("/runtimes", manifest(**spec))
            assert (told.status, told.code) == (422, "invalid"), (path, told.content)
            assert told.value["extra"]["path"] == path
            assert told.value["detail"].startswith(f"{path}: ")
        other = await house.ask("PUT", "/runtimes/greeting", manifest())
        assert other.value["extra"]["path"] == "metadata.name"
        assert (await house.post("/runtimes", b"{", content_type="application/json")).status == 400
        assert (await house.post("/runtimes", b"a: 1", content_type="text/yaml")).status == 415
        assert house.served.coordinator.state.position == before

    still(story)


def labelled(**labels):
    written = manifest()
    written["metadata"] = {**written["metadata"], "labels": labels}
    return written


def test_labels_are_kept_select_and_raise_no_generation(still):
    async def story(house):
        await house.post("/runtimes", labelled(tier="web"))
        first = (await house.get("/runtimes/greeter")).value
        assert first["metadata"]["labels"] == {"tier": "web"}
        dry = await house.post("/runtimes?dry_run=true", labelled(tier="gold"))
        assert dry.value["change"] == "configured"
        assert dry.value["before"]["metadata"]["labels"] == {"tier": "web"}
        assert dry.value["after"]["metadata"]["labels"] == {"tier": "gold"}
        told = await house.post("/runtimes", labelled(tier="gold"))
        assert told.value["change"] == "configured"
        metadata = told.value["runtime"]["metadata"]
        assert metadata["generation"] == 1
        assert metadata["resourceVersion"] > first["metadata"]["resourceVersion"]
        assert (await house.post("/runtimes", labelled(tier="gold"))).value["change"] == "unchanged"
        assert (await house.post("/runtimes", first)).code == "conflict"
        assert [each["metadata"]["name"] for each in (
            await house.get("/runtimes?label=tier=gold")).value["runtimes"]] == ["greeter"]
        assert (await house.get("/runtimes?label=tier=web")).value["runtimes"] == []
        assert (await house.get("/runtimes?label=tier")).code == "invalid"
        # What a manifest no longer says is no longer so.
        await house.post("/runtimes", manifest())
        assert (await house.get("/runtimes/greeter")).value["metadata"]["labels"] == {}

    still(story)


def test_a_dry_run_says_what_would_change_and_records_nothing(still):
    async def story(house):
        new = await house.post("/runtimes?dry_run=true", manifest())
        assert (new.value["change"], new.value["before"]) == ("created", None)
        assert not house.served.coordinator.state.resources
        await house.post("/runtimes", manifest())
        before = house.served.coordinator.state.position
        other = await house.post("/runtimes?dry_run=true", manifest(timeouts={"progress": "1m"}))
        assert other.value["change"] == "configured"
        assert other.value["before"]["spec"]["timeouts"]["progress"] == "5m"
        assert other.value["after"]["spec"]["timeouts"]["progress"] == "1m"
        same = await house.post("/runtimes?dry_run=true", manifest())
        assert same.value["change"] == "unchanged"
        assert house.served.coordinator.state.position == before

    still(story)


def test_a_change_names_the_version_that_is_meant(still):
    async def story(house):
        first = await house.ask("PUT", "/runtimes/greeter", manifest(), if_none_match="*")
        assert first.status == 201, first.content
        tag = first.headers["etag"]
        other = manifest(timeouts={"progress": "1m"})
        there = await house.ask("PUT", "/runtimes/greeter", other, if_none_match="*")
        assert there.code == "precondition_failed"
        right = await house.ask("PUT", "/runtimes/greeter", other, if_match=tag)
        assert right.status == 200, right.content
        stale = await house.ask("DELETE", "/runtimes/greeter", if_match=tag)
        assert stale.code == "precondition_failed"
        gone = await house.ask("DELETE", "/runtimes/greeter", if_match=right.headers["etag"])
        assert gone.value["change"] == "deleted"

    still(story)


def test_a_repeated_request_is_answered_as_the_first_was(still):
    async def story(house):
        first = await house.post("/runtimes", manifest(), idempotency_key="once")
        again = await house.post("/runtimes", manifest(), idempotency_key="once")
        assert again.value == first.value
        reused = await house.post("/runtimes", manifest("other"), idempotency_key="once")
        assert reused.code == "key_reused"

    still(story)


def test_pages_have_every_runtime_once_and_in_order(still):
    async def story(house):
        names = [f"r{number}" for number in range(5)]
        for name in reversed(names):
            await house.post("/runtimes", manifest(name))
        found, cursor = [], ""
        while cursor is not None:
            told = (await house.get(f"/runtimes?limit=2&cursor={cursor}")).value
            found += [view["metadata"]["name"] for view in told["runtimes"]]
            cursor = told["next"]
        assert found == names

    still(story)


def test_whoever_waits_is_told_when_it_changes_and_when_it_is_gone(still):
    async def story(house):
        told = await house.post("/runtimes", manifest())
        version = told.value["runtime"]["metadata"]["resourceVersion"]
        at_once = await house.get(f"/runtimes/greeter?wait=1m&version={version - 1}")
        assert at_once.value["metadata"]["resourceVersion"] == version
        waiting = asyncio.ensure_future(house.get(f"/runtimes/greeter?wait=1m&version={version}"))
        await held(house)
        later = (await waiting).value["metadata"]
        assert later["finalizers"] == [FINALIZER]
        assert later["resourceVersion"] > version
        asked = f"/runtimes/greeter?wait=1m&version={later['resourceVersion']}"
        waiting = asyncio.ensure_future(house.get(asked))
        await cleaned(house)
        await house.ask("DELETE", "/runtimes/greeter")
        assert (await waiting).status in (200, 404)
        assert (await house.get(f"/runtimes/greeter?wait=1m&version={version}")).status == 404
        assert (await house.get("/runtimes/greeter?wait=soon")).status == 422

    still(story)


class Ear:
    """Hears the events of a watch, one after another."""

    def __init__(self, house, query="", **headers):
        self.gone, self._heard = asyncio.Event(), asyncio.Queue()
        self._events = []
        target = f"/watch/runtimes{query}"
        self.asking = asyncio.ensure_future(
            house.get(target, gone=self.gone, heard=self._heard, **headers)
        )

    async def next(self):
        while not self._events:
            piece = (await self._heard.get()).decode()
            for told in piece.strip().split("\n\n"):
                fields = dict(line.split(": ", 1) for line in told.splitlines() if line[0] != ":")
                if "event" in fields:
                    self._events.append(
                        (fields["event"], json.loads(fields["data"]), fields.get("id"))
                    )
        return self._events.pop(0)

    async def leave(self):
        self.gone.set()
        await self.asking


def test_a_watch_tells_how_all_stand_then_every_change_and_who_is_gone(still):
    async def story(house):
        await house.post("/runtimes", manifest())
        ear = Ear(house)
        kind, view, told_id = await ear.next()
        assert (kind, view["metadata"]["name"]) == ("runtime", "greeter")
        assert told_id == str(view["metadata"]["resourceVersion"])
        assert await ear.next() == ("synced", {"names": ["greeter"]}, None)
        await house.post("/runtimes", manifest("other"))
        kind, view, last = await ear.next()
        assert (kind, view["metadata"]["name"]) == ("runtime", "other")
        await house.ask("DELETE", "/runtimes/other")
        assert await ear.next() == ("removed", {"name": "other"}, None)
        await ear.leave()
        # Whoever comes back is told what changed since, and by the names what is gone.
        back = Ear(house, last_event_id=last)
        assert await back.next() == ("synced", {"names": ["greeter"]}, None)
        await back.leave()
        one = Ear(house, "?name=other")
        assert await one.next() == ("synced", {"names": []}, None)
        await house.post("/runtimes", manifest(timeouts={"progress": "1m"}))
        await house.post("/runtimes", manifest("other"))
        assert (await one.next())[1]["metadata"]["name"] == "other"
        await one.leave()
        assert house.service.followers == 0

    still(story)


@pytest.mark.parametrize("since", ["x", "-1", "9" * 30])
def test_a_watch_since_nowhere_is_refused(still, since):
    async def story(house):
        assert (await house.get(f"/watch/runtimes?since={since}")).status == 422

    still(story)


def test_what_the_loop_told_about_a_runtime_can_be_asked_for(inside):
    async def story(house):
        await house.post("/runtimes", manifest())
        told = (await house.get("/runtimes/greeter")).value
        while told["status"]["phase"] == "pending":
            version = told["metadata"]["resourceVersion"]
            told = (await house.get(f"/runtimes/greeter?wait=1m&version={version}")).value
        assert told["metadata"]["finalizers"] == [FINALIZER]
        events = (await house.get("/runtimes/greeter/events")).value["events"]
        assert {each["type"] for each in events} == {"Normal"}
        assert all(each["count"] == 1 and each["last_at"] >= each["first_at"] for each in events)
        assert events[0]["message"]
        assert (await house.get("/runtimes/nobody/events")).code == "not_found"

    inside(story)
