"""What `holdfast worker start` makes of its flags, the environment and the files it finds."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.config import KNOWN
from holdfast.cli.errors import Trouble
from holdfast.cli.main import main
from holdfast.cli.options import USUAL_SERVER
from holdfast.cli.worker_start import SPARE_SLOTS, _plan, start
from holdfast.wire.exchange import Capacity

FLAGS: dict[str, Any] = {
    **{option.name: () if getattr(option, "multiple", False) else None for option in start.params},
    "server": "http://127.0.0.1:1",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "holdfast").mkdir()
    return tmp_path / "holdfast"


def plan(environment: dict[str, str] | None = None, **flags: Any) -> Any:
    return _plan({**FLAGS, **flags}, environment or {})


def test_what_was_asked_for_is_offered() -> None:
    told = plan(cpus=2.5, memory="4Gi", gpus=1, attributes=("zone=a", "disk=ssd=fast"), name="w")
    assert (told.name, told.capacity.slots) == ("w", 2 + SPARE_SLOTS)
    assert told.capacity.cpus_milli == 2_500
    assert (told.capacity.memory_bytes, told.capacity.gpus) == (4 << 30, 1)
    assert told.attributes == (("disk", "ssd=fast"), ("zone", "a"))
    assert (told.terms.drain_ms, told.terms.first_contact_s) == (30_000, 10.0)


def test_named_resources_are_offered_in_thousandths() -> None:
    told = plan(resources=("scratch=0.5", "licence=2"))
    assert told.capacity.resources == (("licence", 2_000), ("scratch", 500))
    assert plan({"HOLDFAST_WORKER__RESOURCES": "licence=2"}).capacity.resources == (
        ("licence", 2_000),
    )


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("licence", "is not KEY=VALUE"),
        ("licence=many", "is no amount"),
        ("licence=-1", "is no amount"),
        ("licence=0.0001", "is no amount"),
        ("licence=nan", "is no amount"),
        ("cpus=4", "field of its own"),
    ],
)
def test_what_is_no_resource_is_refused(told: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        plan(resources=(told,))


def test_bundles_go_where_they_were_told_to_or_to_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert plan().bundles == tmp_path / "cache" / "holdfast" / "bundles"
    told = plan(bundles=str(tmp_path / "elsewhere"), bundles_size="1Gi")
    assert (told.bundles, told.bundles_bytes) == (tmp_path / "elsewhere", 1 << 30)


def test_every_option_has_a_setting() -> None:
    asked = {str(option.name) for option in start.params} - {"server", "token_file", "ca_file"}
    known = {key.removeprefix("worker.") for key in KNOWN if key.startswith("worker.")}
    assert asked == known


def test_settings_come_from_the_option_then_the_environment_then_the_files(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    xdg = {"XDG_CONFIG_HOME": str(home.parent)}
    (home / "config.toml").write_text(
        f"""
        [client]
        ca_file = "/ca/of/the/user"
        [worker]
        name = "user"
        slots = 1
        cpus = 1.5
        memory = "1Gi"
        gpus = 1
        attributes = ["zone=a"]
        pickle = true
        pass_env = ["LANG"]
        secrets = "{tmp_path}"
        scratch = "{tmp_path / "scratch"}"
        bundles = "{tmp_path / "bundles"}"
        bundles_size = "1Mi"
        drain_timeout = "1s"
        exit_when_drained = true
        connect_timeout = "2s"
        """
    )
    told = plan(xdg)
    assert (told.name, told.server.ca_file, told.pickle) == ("user", "/ca/of/the/user", True)
    assert told.capacity == Capacity(1, 1_500, 1 << 30, 1)
    assert (told.attributes, told.pass_on) == ((("zone", "a"),), ("LANG",))
    assert (told.secret_files, told.scratch.parent) == (tmp_path, tmp_path / "scratch")
    assert (told.bundles, told.bundles_bytes) == (tmp_path / "bundles", 1 << 20)
    terms = told.terms
    assert (terms.drain_ms, terms.exit_when_drained, terms.first_contact_s) == (1_000, True, 2.0)
    (tmp_path / "holdfast.toml").write_text('[worker]\nname = "project"\nattributes = ["a=1"]\n')
    told = plan(xdg)
    assert (told.name, told.attributes, told.capacity.gpus) == ("project", (("a", "1"),), 1)
    words = {
        **xdg,
        "HOLDFAST_WORKER__NAME": "environment",
        "HOLDFAST_WORKER__CPUS": "2",
        "HOLDFAST_WORKER__ATTRIBUTES": "b=2, c=3",
    }
    told = plan(words)
    assert (told.name, told.capacity.cpus_milli) == ("environment", 2_000)
    assert told.attributes == (("b", "2"), ("c", "3"))
    told = plan(words, name="flag", attributes=("d=4",), cpus=0.5)
    assert (told.name, told.attributes, told.capacity.cpus_milli) == ("flag", (("d", "4"),), 500)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("SLOTS", "-1", "--slots"),
        ("CPUS", "nan", "--cpus"),
        ("GPUS", "-2", "--gpus"),
        ("SECRETS", "/no/such/folder", "no such folder"),
        ("PICKLE", "perhaps", "HOLDFAST_WORKER__PICKLE"),
    ],
)
def test_what_an_option_would_refuse_the_environment_cannot_say(
    name: str, text: str, words: str
) -> None:
    with pytest.raises((ValueError, Trouble), match=words):
        plan({f"HOLDFAST_WORKER__{name}": text})


def test_a_worker_without_a_name_gets_one_of_its_own() -> None:
    assert plan().name != plan().name


def test_the_same_name_at_two_servers_is_two_places() -> None:
    assert plan(name="w").place != plan(name="w", server="http://127.0.0.1:2").place
    assert "/" not in plan(name="../w").place


def test_a_token_is_found_by_flag_then_environment_then_file(home: Path, tmp_path: Path) -> None:
    assert plan().server.token == ""
    (home / "token").write_text("usual\n")
    assert plan().server.token == "usual"
    (tmp_path / "named").write_text("named\n")
    named = {"HOLDFAST_TOKEN_FILE": str(tmp_path / "named")}
    assert plan(named).server.token == "named"
    assert plan({**named, "HOLDFAST_TOKEN": "told"}).server.token == "told"
    (tmp_path / "flag").write_text("flag\n")
    file = tmp_path / "flag"
    assert plan({**named, "HOLDFAST_TOKEN": "told"}, token_file=file).server.token == "flag"


def test_the_server_of_this_machine_is_found_beside_its_token(home: Path) -> None:
    (home / "token.server").write_text("http://127.0.0.1:7\n")
    assert plan(server=None).server.url == "http://127.0.0.1:7"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"server": "ftp://there"}, "is not a server"),
        ({"server": "unix:"}, "is not a server"),
        ({"token_file": Path("/no/such/file")}, "there is no token in /no/such/file"),
        ({"attributes": ("zone",)}, "KEY=VALUE"),
        ({"attributes": ("a=1", "a=2")}, "twice"),
        ({"memory": "much"}, "--memory"),
        ({"drain_timeout": "soon"}, "--drain-timeout"),
        ({"name": "a\nb"}, "cannot be called"),
    ],
)
def test_a_mistake_is_named(flags: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, Trouble), match=words):
        plan(**flags)


def test_without_a_word_the_usual_server_of_this_machine_is_meant() -> None:
    assert plan(server=None).server.url == USUAL_SERVER


def test_a_mistake_on_the_command_line_is_told_in_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["worker", "start", "--server", "ftp://there"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("holdfast: 'ftp://there' of the command line is not a server")
