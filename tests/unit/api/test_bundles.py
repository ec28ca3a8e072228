"""Bundles over HTTP: brought, looked for, fetched, and referred to by jobs."""

import asyncio
import os
from pathlib import Path

import pytest

from holdfast.api import bundles, contents
from holdfast.api.call import Call
from holdfast.api.identity import NOBODY
from holdfast.api.problems import Declined
from holdfast.wire.contents import new_digest

CONTENT = b"code" * 100_000


def digest_of(content: bytes) -> str:
    digest = new_digest()
    digest.update(content)
    return digest.hexdigest()


DIGEST = digest_of(CONTENT)
HERE = f"/bundles/{DIGEST}"


def test_a_bundle_is_brought_looked_for_and_fetched(inside, tmp_path: Path):
    async def story(house):
        assert (await house.ask("HEAD", HERE)).status == 404
        assert (await house.get(HERE)).code == "not_found"
        told = await house.ask("PUT", HERE, CONTENT)
        assert told.status == 201
        assert told.value == {"digest": DIGEST, "size": len(CONTENT)}
        assert (await house.ask("PUT", HERE, CONTENT)).status == 200
        looked = await house.ask("HEAD", HERE)
        assert (looked.status, looked.content) == (200, b"")
        assert looked.headers["content-length"] == str(len(CONTENT))
        fetched = await house.get(HERE)
        assert fetched.content == CONTENT
        assert fetched.headers["content-type"] == "application/octet-stream"

    inside(story)
    inside(still_there)
    assert os.listdir(tmp_path / "bundles") == [DIGEST]


async def still_there(house) -> None:
    assert (await house.get(HERE)).content == CONTENT


def test_bytes_that_are_not_what_they_are_called_are_refused(inside, tmp_path: Path):
    async def story(house):
        told = await house.ask("PUT", HERE, CONTENT[:-1])
        assert (told.status, told.code) == (422, "invalid")
        assert (await house.ask("HEAD", HERE)).status == 404
        assert os.listdir(tmp_path / "bundles") == []

    inside(story)


def test_a_name_that_is_no_digest_reaches_no_disk(inside, tmp_path: Path):
    async def story(house):
        names = ("x", "..", "%2e%2e%2fwal", DIGEST.upper(), DIGEST + "0", DIGEST[:-1] + "%00")
        for name in names:
            for method in ("PUT", "HEAD", "GET"):
                told = await house.ask(method, f"/bundles/{name}", b"x")
                assert told.status == 404, (method, name)

    inside(story)
    assert not (tmp_path / "bundles").exists()


def test_one_that_is_too_large_is_refused_and_leaves_nothing(inside, tmp_path: Path):
    async def story(house):
        house.served.bundles.largest_bytes = len(CONTENT) - 1
        told = await house.ask("PUT", HERE, CONTENT)
        assert (told.status, told.code) == (413, "too_large")
        house.served.bundles.largest_bytes = len(CONTENT)
        house.served.bundles.quota_bytes = len(CONTENT) - 1
        told = await house.ask("PUT", HERE, CONTENT)
        assert (told.status, told.code) == (413, "too_large")
        assert "all bundles together" in told.value["detail"]
        assert os.listdir(tmp_path / "bundles") == []

    inside(story)


def test_a_disk_that_fails_is_told_and_leaves_nothing(inside, tmp_path: Path):
    async def story(house):
        (tmp_path / "bundles").write_text("in the way")
        told = await house.ask("PUT", HERE, CONTENT)
        assert (told.status, told.code) == (503, "not_ready")

    inside(story)


def test_one_that_was_removed_by_hand_can_be_brought_again(inside, tmp_path: Path):
    async def story(house):
        await house.ask("PUT", HERE, CONTENT)
        (tmp_path / "bundles" / DIGEST).unlink()
        assert (await house.get(HERE)).code == "not_found"
        assert (await house.ask("HEAD", HERE)).status == 404
        assert (await house.ask("PUT", HERE, CONTENT)).status == 201
        assert (await house.get(HERE)).content == CONTENT

    inside(story)


def test_who_may(inside):
    async def story(house):
        may = {
            "PUT": {"submit", "admin"},
            "HEAD": {"read", "worker", "operator", "admin"},
            "GET": {"read", "worker", "operator", "admin"},
        }
        await house.ask("PUT", HERE, CONTENT)
        for scope in ("submit", "read", "cancel", "worker", "operator", "admin"):
            token = await house.token(scope)
            for method, scopes in may.items():
                body = CONTENT if method == "PUT" else None
                told = await house.ask(method, HERE, body, token=token)
                assert told.status == (200 if scope in scopes else 403), (method, scope)

    inside(story)


def test_a_job_may_refer_only_to_a_bundle_that_is_here(inside):
    async def story(house):
        body = {"command": {"argv": ["true"]}, "bundle": DIGEST}
        told = await house.post("/jobs", body)
        assert (told.status, told.code) == (404, "not_found")
        assert DIGEST in told.value["detail"]
        assert (await house.get("/jobs")).value["jobs"] == []
        await house.ask("PUT", HERE, CONTENT)
        assert (await house.post("/jobs", body)).status == 201

    inside(story)


def test_a_run_names_the_bundle_of_its_job(inside):
    async def story(house):
        await house.ask("PUT", HERE, CONTENT)
        await house.submit(bundle=DIGEST)
        (run,) = (await house.exchange(1)).value["runs"]
        assert run["bundle"] == DIGEST

    inside(story)


def test_the_documents_tell_of_raw_bodies_and_of_either_scope(inside):
    async def story(house):
        told = (await house.get("/openapi.json")).value["paths"]["/api/v1/bundles/{digest}"]
        assert told["put"]["requestBody"]["content"] == {"application/octet-stream": {}}
        assert told["get"]["x-scope"] == "read or worker"

    inside(story)


def test_whoever_sends_nothing_more_is_let_go(inside, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(contents, "STALLED_S", 0.01)

    async def stalled():
        yield b"half"
        await asyncio.Event().wait()

    async def story(house):
        call = Call(
            service=house.service, identity=NOBODY, path={"digest": DIGEST}, chunks=stalled()
        )
        with pytest.raises(Declined, match="nothing more came"):
            await bundles.put(call)
        assert os.listdir(tmp_path / "bundles") == []
        assert house.served.bundles.used_bytes == 0

    inside(story)
