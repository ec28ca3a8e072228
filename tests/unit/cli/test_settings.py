"""`holdfast config show`: every setting, its value here, and where that was found."""

import json
from pathlib import Path

import pytest

from holdfast.cli.config import SETTINGS, load_config
from holdfast.cli.settings import document, told

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(run, *keys: str) -> dict[str, tuple[object, str]]:
    shown = json.loads(run("config", "show", *keys, "-o", "json").out)
    return {each["name"]: (each["value"], each["source"]) for each in shown["settings"]}


def test_every_setting_is_shown_with_its_source(
    run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = home / "config" / "holdfast" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text('[server]\nrate = 5\n[worker]\nname = "user"\nattributes = ["a=1"]\n')
    (tmp_path / "holdfast.toml").write_text('[worker]\nname = "project"\n')
    monkeypatch.setenv("HOLDFAST_WORKER__GPUS", "2")
    every = found(run)
    assert list(every) == [setting.key for setting in SETTINGS]
    assert every["worker.name"] == ("project", "holdfast.toml")
    assert every["worker.gpus"] == (2, "HOLDFAST_WORKER__GPUS")
    assert every["worker.attributes"] == (["a=1"], str(user))
    assert every["server.rate"] == (5.0, str(user))
    assert every["server.listen"] == ("127.0.0.1:7700", "the default")


def test_some_can_be_named_and_a_stranger_is_told(run) -> None:
    assert list(found(run, "log", "server.rate")) == ["server.rate", "log.level", "log.format"]
    done = run("config", "show", "serve.rate")
    assert (done.code, done.out) == (4, "")
    assert "holdfast config show" in done.err


def test_a_table_has_value_and_place(run) -> None:
    lines = run("config", "show", "server.rate").out.splitlines()
    assert [line.split() for line in lines] == [
        ["SETTING", "VALUE", "FROM"],
        ["server.rate", "5000", "the", "default"],
    ]


def test_the_page_of_settings_is_not_stale() -> None:
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == document()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_a_default_is_what_its_own_text_says(setting) -> None:
    """What the page shows as the default, put into the environment, changes nothing."""
    text = told(setting.default)
    config = load_config({setting.variables()[-1]: text}, Path("/nowhere"))
    assert config.get(setting.key) == setting.default
