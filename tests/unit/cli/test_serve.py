"""`holdfast serve`: what is refused before anything is opened."""

import pytest

from holdfast.cli.main import main


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """No settings but those of the test."""
    (tmp_path / "config.toml").touch()
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "config.toml"))


def refused(tmp_path, capsys, *options: str) -> str:
    data = tmp_path / "data"
    assert main(["serve", "--data", str(data), *options]) == 2
    assert not data.exists()
    return capsys.readouterr().err


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", ":0", "10.1.2.3:7700", "example.org:1"])
def test_other_machines_need_tls_or_a_word_that_they_do_not(tmp_path, capsys, listen):
    told = refused(tmp_path, capsys, "--listen", listen)
    assert "--tls-cert" in told
    assert "--insecure" in told


def test_a_certificate_needs_its_key_and_both_must_be_there(tmp_path, capsys):
    assert "go together" in refused(tmp_path, capsys, "--tls-cert", "x")
    told = refused(tmp_path, capsys, "--tls-cert", "/nowhere/c", "--tls-key", "/nowhere/k")
    assert "/nowhere/c" in told


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--listen", "here:now", "not an address"),
        ("--lease-term", "soon", "not a duration"),
        ("--lease-term", "10ms", "at least 1s"),
        ("--workers", "-1", "workers"),
        ("--history", "much", "not a size"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(tmp_path, capsys, option, value, told):
    assert told in refused(tmp_path, capsys, option, value)


def test_settings_come_from_files_too(tmp_path, capsys):
    (tmp_path / "config.toml").write_text('[server]\nlisten = "0.0.0.0:1"\n')
    assert "0.0.0.0:1" in refused(tmp_path, capsys)


def test_the_form_of_log_lines_is_checked(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HOLDFAST_LOG_LEVEL", "loud")
    assert "log.level" in refused(tmp_path, capsys)
