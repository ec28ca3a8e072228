"""Which server, with which token: what is nearest to the call wins."""

from pathlib import Path

import pytest

import holdfast
from holdfast.wire.token_files import address_file, usual_token_file
from holdfast.worker.functions import MissingGuard, _loading

URL = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOLDFAST_SERVER", "HOLDFAST_TOKEN", "HOLDFAST_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def token_of(hf: holdfast.Holdfast) -> str:
    try:
        return str(hf._backend._server.token)  # type: ignore[attr-defined]
    finally:
        hf.close()


def test_each_place_of_a_token_yields_to_the_one_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert token_of(holdfast.connect(URL)) == ""
    usual_token_file().parent.mkdir(parents=True)
    usual_token_file().write_text("written by serve\n")
    assert token_of(holdfast.connect(URL)) == "written by serve"
    (tmp_path / "named").write_text("in the named file\n")
    monkeypatch.setenv("HOLDFAST_TOKEN_FILE", str(tmp_path / "named"))
    assert token_of(holdfast.connect(URL)) == "in the named file"
    monkeypatch.setenv("HOLDFAST_TOKEN", "in the environment")
    assert token_of(holdfast.connect(URL)) == "in the environment"
    (tmp_path / "given").write_text("in the given file")
    assert token_of(holdfast.connect(URL, token_file=tmp_path / "given")) == "in the given file"
    found = holdfast.connect(URL, token="given", token_file=tmp_path / "given")
    assert token_of(found) == "given"


def test_the_token_that_serve_wrote_is_sent_to_its_server_and_to_no_stranger() -> None:
    usual_token_file().parent.mkdir(parents=True)
    usual_token_file().write_text("written by serve\n")
    assert token_of(holdfast.connect("https://elsewhere.example:7700")) == ""
    address_file(usual_token_file()).write_text("https://elsewhere.example:7700\n")
    assert token_of(holdfast.connect("https://elsewhere.example:7700")) == "written by serve"
    assert token_of(holdfast.connect()) == "written by serve"


def test_a_token_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the token cannot be read from .*absent"):
        holdfast.connect(URL, token_file=tmp_path / "absent")


def test_the_server_is_the_one_given_or_the_one_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ValueError, match="set HOLDFAST_SERVER"):
        holdfast.connect()
    with pytest.raises(ValueError, match="must begin with http://"):
        holdfast.connect("localhost:7700")
    monkeypatch.setenv("HOLDFAST_SERVER", URL)
    with holdfast.connect() as hf:
        assert repr(hf) == f"<holdfast {URL}>"
    assert repr(hf) == f"<holdfast {URL} closed>"


def test_a_patience_that_is_none_is_refused_before_anything_is_made() -> None:
    with pytest.raises(ValueError, match="patience='soon' is not a duration"):
        holdfast.connect(URL, patience="soon")


def test_a_script_without_a_guard_is_told_where_it_is_loaded() -> None:
    with _loading("/x.py"), pytest.raises(MissingGuard, match=r"calls holdfast\.connect\(\)"):
        holdfast.connect(URL)
