"""`submit --bundle`: a folder goes along with a command."""

import json
import os
from pathlib import Path

import pytest

from holdfast.cli.errors import NOT_ALLOWED, USAGE


@pytest.fixture
def code(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder that no other test has brought to the same server."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "main.py").write_text(f"print('{request.node.name}')\n")
    return folder


def brought_to(served) -> set[str]:
    folder = served.data / "bundles"
    return set(os.listdir(folder)) if folder.exists() else set()


def test_the_folder_is_brought_and_the_job_refers_to_it(call, served, hand, code: Path) -> None:
    preview = call("submit", "--dry-run", "--bundle", code, "-o", "json", "--", "python", "main.py")
    digest = json.loads(preview.out)["bundle"]
    assert digest not in brought_to(served)
    before = brought_to(served)
    done = call("submit", "--bundle", code, "--", "python", "main.py")
    assert done.code == 0, done.err
    assert (served.data / "bundles" / digest).is_file()
    ((run, index, lease),) = hand.take()
    assert run.bundle == digest
    hand.succeed((run, index, lease))
    again = call("submit", "--bundle", f"{code}/", "--", "true")
    assert again.code == 0, again.err
    hand.succeed(*hand.take())
    assert brought_to(served) - before == {digest}


def test_a_folder_that_cannot_go_is_told_before_anything_is_asked(call, code: Path) -> None:
    os.symlink("/etc/passwd", code / "link")
    done = call("submit", "--bundle", code, "--", "true")
    assert done.code == USAGE
    assert "'link' is a link" in done.err
    assert ".holdfastignore" in done.err
    assert "Traceback" not in done.err
    absent = call("submit", "--bundle", code / "absent", "--", "true")
    assert absent.code == USAGE
    assert "is no folder" in absent.err


def test_who_may_not_bring_one_hears_why(call, code: Path, tmp_path: Path) -> None:
    reader = json.loads(call("token", "create", "reader", "--scope", "read", "-o", "json").out)
    file = tmp_path / "reader"
    file.write_text(reader["token"])
    (code / "other.py").write_text("")
    done = call("submit", "--token-file", file, "--bundle", code, "--", "true")
    assert done.code == NOT_ALLOWED
    assert "submit" in done.err


def test_who_may_submit_and_nothing_else_may_bring_one(call, code: Path, tmp_path: Path) -> None:
    told = call("token", "create", "submitter", "--scope", "submit", "-o", "json")
    file = tmp_path / "submitter"
    file.write_text(json.loads(told.out)["token"])
    done = call("submit", "--token-file", file, "--bundle", code, "--", "true")
    assert done.code == 0, done.err
    assert call("job", "cancel", done.out.strip()).code == 0
