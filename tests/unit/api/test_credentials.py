"""The first token: who gets in, and who does not."""

import pytest

from holdfast.api.credentials import (
    NoToken,
    admit,
    admit_workers,
    write_address,
)
from holdfast.wire.token_files import address_file


async def opens(house, path) -> bool:
    told = await house.get("/tokens", token=path.read_text().strip())
    return told.status == 200


async def without_tokens(house) -> None:
    """A log that nobody may ask: the house has made a token for itself."""
    await house.ask("DELETE", f"/tokens/{house.admin.split('_')[1]}")


def test_the_first_start_writes_a_token_that_only_its_owner_can_read(inside, tmp_path):
    path = tmp_path / "config" / "token"

    async def first(house):
        await without_tokens(house)
        assert (await admit(house.served, path)).how == "new"
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert await opens(house, path)
        assert (await admit(house.served, path)).how == "known"

    async def later(house):
        before = path.read_text()
        assert (await admit(house.served, path)).how == "known"
        assert path.read_text() == before

    inside(first)
    inside(later)


def test_one_file_opens_every_log_of_its_owner(inside, tmp_path):
    """A crash after the file was written, or a second folder: the token is taken over."""
    path = tmp_path / "token"
    path.write_text("hf_abc123_" + "0" * 64 + "\n")

    async def story(house):
        await without_tokens(house)
        assert (await admit(house.served, path)).how == "adopted"
        assert await opens(house, path)

    inside(story)


def test_a_token_that_was_revoked_is_not_brought_back(inside, tmp_path):
    path = tmp_path / "token"

    async def story(house):
        await admit(house.served, path)
        token_id = path.read_text().split("_")[1]
        await house.ask("DELETE", f"/tokens/{token_id}")
        assert (await admit(house.served, path)).how == "foreign"
        assert not await opens(house, path)
        path.unlink()
        assert (await admit(house.served, path)).how == "new"
        assert await opens(house, path)

    inside(story)


@pytest.mark.parametrize("content", [b"", b"nonsense\n", b"\xff\xfe", b"hf__x", b"hf_a_b_c"])
def test_a_file_with_something_else_is_left_alone(inside, tmp_path, content):
    path = tmp_path / "token"
    path.write_bytes(content)

    async def story(house):
        with pytest.raises(NoToken, match="--token-file"):
            await admit(house.served, path)
        assert path.read_bytes() == content

    inside(story)


def test_local_workers_have_a_token_that_opens_nothing_else(inside, tmp_path):
    path = tmp_path / "worker.token"
    path.write_text("damaged")

    async def first(house):
        await admit_workers(house.served, path)
        token = path.read_text().strip()
        assert path.stat().st_mode & 0o077 == 0
        assert (await house.get("/jobs", token=token)).status == 403
        assert (await house.post("/exchange", b"{}", token=token)).code == "invalid"

    async def later(house):
        before = path.read_text()
        await admit_workers(house.served, path)
        assert path.read_text() == before

    path.unlink()
    inside(first)
    inside(later)


def test_the_address_is_beside_the_token(tmp_path):
    write_address(tmp_path / "token", "http://127.0.0.1:1")
    write_address(tmp_path / "token", "http://127.0.0.1:2")
    assert address_file(tmp_path / "token").read_text() == "http://127.0.0.1:2\n"
    assert [path.name for path in tmp_path.iterdir()] == ["token.server"]
