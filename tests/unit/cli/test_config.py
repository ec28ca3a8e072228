"""Settings: the nearest place wins, and a mistake is told with the place it stands in."""

from pathlib import Path

import pytest

from holdfast.cli.config import KNOWN, load_config
from holdfast.cli.errors import Trouble
from holdfast.cli.sinks import document, sinks_of
from holdfast.wire.sinks import KINDS, FileSink, FunctionSink


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment whose user file is in the test's own folder."""
    return {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}


def test_the_nearest_place_wins(tmp_path: Path, home: dict[str, str]) -> None:
    user = write(tmp_path / "xdg" / "holdfast" / "config.toml", '[server]\nlisten = "user:1"')
    here = tmp_path / "here"
    here.mkdir()
    assert load_config({}, here).find("server.listen").source == "the default"
    assert load_config(home, here).find("server.listen").source == str(user)
    write(here / "pyproject.toml", '[tool.holdfast.server]\nlisten = "pyproject:1"')
    assert load_config(home, here).get("server.listen") == "pyproject:1"
    write(here / "holdfast.toml", '[server]\nlisten = "project:1"')
    assert load_config(home, here).get("server.listen") == "project:1"
    named = {**home, "HOLDFAST_SERVER__LISTEN": "environment:1"}
    assert load_config(named, here).get("server.listen") == "environment:1"
    assert load_config(named, here).get("server.listen", "flag:1") == "flag:1"


def test_one_file_can_be_named_instead_of_all(tmp_path: Path, home: dict[str, str]) -> None:
    write(tmp_path / "holdfast.toml", "[server]\nworkers = 1")
    alone = write(tmp_path / "other.toml", "[server]\nkeep_finished = 7")
    config = load_config({**home, "HOLDFAST_CONFIG": str(alone)}, tmp_path)
    assert (config.get("server.workers"), config.get("server.keep_finished")) == (0, 7)
    with pytest.raises(Trouble, match="not there"):
        load_config({"HOLDFAST_CONFIG": str(tmp_path / "nowhere.toml")}, tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[server]\nlisten_on = 1", "unknown setting 'server.listen_on'; there are"),
        ("[servers]\nlisten = 1", "unknown setting 'servers.listen'"),
        ("listen = 1", "unknown setting 'listen'"),
        ("[server]\nlisten = 7", "server.listen = 7 must be text"),
        ('[server]\nworkers = "4"', "server.workers = '4' must be a whole number"),
        ("[server]\nworkers = true", "server.workers = True must be a whole number"),
        ("[server", "cannot be read"),
    ],
)
def test_a_mistake_in_a_file_names_the_file_and_the_key(
    tmp_path: Path, home: dict[str, str], text: str, told: str
) -> None:
    path = write(tmp_path / "holdfast.toml", text)
    asked = next((key for key in KNOWN if told.startswith(key)), "server.listen")
    with pytest.raises(Trouble) as caught:
        load_config(home, tmp_path).get(asked)
    assert told in str(caught.value)
    assert str(path) in str(caught.value)


def test_the_environment_is_read_as_what_the_setting_is() -> None:
    words = {"HOLDFAST_SERVER__WORKERS": "3", "HOLDFAST_SERVER__INSECURE": "yes"}
    config = load_config({**words, "HOLDFAST_CONFIG": ""}, Path("/nowhere"))
    assert (config.get("server.workers"), config.get("server.insecure")) == (3, True)
    assert load_config({"HOLDFAST_SERVER": "http://a"}, Path("/nowhere")).get("client.server")
    for name, text in (("WORKERS", "many"), ("INSECURE", "perhaps")):
        broken = load_config({f"HOLDFAST_SERVER__{name}": text}, Path("/nowhere"))
        with pytest.raises(Trouble, match=f"HOLDFAST_SERVER__{name}="):
            broken.get(f"server.{name.lower()}")


def test_somebody_elses_broken_pyproject_is_not_our_trouble(
    tmp_path: Path, home: dict[str, str]
) -> None:
    write(tmp_path / "pyproject.toml", "[tool")
    assert load_config(home, tmp_path).get("server.workers") == 0


SINK = '[sinks.ledger]\nkind = "file"\npath = "/data/ledger.jsonl"\n'


def test_sinks_are_tables_and_the_nearest_file_that_names_one_wins(
    tmp_path: Path, home: dict[str, str]
) -> None:
    user = write(
        tmp_path / "xdg" / "holdfast" / "config.toml",
        SINK.replace("ledger.jsonl", "far") + '[sinks.mail]\nkind="function"\ntarget="a:b"\n',
    )
    here = write(tmp_path / "holdfast.toml", SINK + "tries = 3\n")
    found = {each.name: each for each in sinks_of(load_config(home, tmp_path))}
    assert found["ledger"].sink == FileSink("/data/ledger.jsonl", tries=3)
    assert found["ledger"].path == here
    assert found["mail"].sink == FunctionSink("a:b")
    assert found["mail"].path == user


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[sinks.ledger]\npath = '/f'", "sinks.ledger: kind must be one of"),
        (SINK + "pth = 1", "sinks.ledger: unknown key 'pth'; a file sink has path"),
        (SINK + "tries = 'x'", "sinks.ledger: "),
        (SINK.replace("/data/", ""), "path='ledger.jsonl' must be absolute"),
        ("[sinks]\nledger = 1", "sinks.ledger must be a table"),
        ("[sinks.'a b']\nkind = 'file'", "cannot be called 'a b'"),
        ("sinks = 1", "sinks must be tables"),
    ],
)
def test_a_mistake_in_a_sink_names_the_file_and_the_key(
    tmp_path: Path, home: dict[str, str], text: str, told: str
) -> None:
    file = write(tmp_path / "holdfast.toml", text)
    with pytest.raises(Trouble) as raised:
        sinks_of(load_config(home, tmp_path))
    assert str(raised.value).startswith(f"{file}: ")
    assert told in str(raised.value)


def test_the_page_tells_of_every_key() -> None:
    page = document()
    for name in {field for kind in KINDS.values() for field in kind.__struct_fields__}:
        assert f"| `{name}` |" in page
