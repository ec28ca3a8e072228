"""The command as a whole."""

import importlib

import click
import pytest

from holdfast.cli.lazy import LazyCommands
from holdfast.cli.main import PLACES
from holdfast.version import VERSION


def test_help_names_every_command_with_its_summary(run) -> None:
    done = run("--help")
    assert done.code == 0
    told = " ".join(done.out.split())
    for name, (_, summary) in PLACES.items():
        assert f" {name} {summary}" in told or not summary


@pytest.mark.parametrize("name", sorted(PLACES))
def test_every_command_is_where_it_is_said_to_be_and_helps(run, name: str) -> None:
    module, _, attribute = PLACES[name][0].partition(":")
    assert isinstance(getattr(importlib.import_module(module), attribute), click.Command)
    if not PLACES[name][1]:
        return  # An alias passes everything on, `--help` as well.
    done = run(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert "Usage: holdfast " + name in done.out


def test_a_command_that_is_not_installed_is_not_offered() -> None:
    group = LazyCommands({"ghost": ("holdfast.cli.no_such_module:ghost", "Nothing.")}, name="g")
    assert group.list_commands(click.Context(group)) == []


def test_the_version_is_told(run) -> None:
    assert run("--version").out == f"holdfast {VERSION}\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(("jbo", "list"), "'job'"), (("job", "lst"), "'list'"), (("schedul", "list"), "'schedule'")],
)
def test_a_command_that_was_mistyped_is_told_with_what_was_meant(run, typed, meant) -> None:
    done = run(*typed)
    assert done.code == 2
    assert f"Did you mean {meant}?" in done.err


@pytest.mark.parametrize(
    "arguments",
    [("nonsense",), ("job", "nonsense"), ("job", "show"), ("job", "list", "-o", "xml"), ("--odd",)],
)
def test_wrong_usage_is_code_2_and_names_the_help(run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "--help`" in done.err


def test_colours_follow_the_option_before_the_environment(
    run, folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" in run("--color", "always", "job", "list", "--data", folder).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" in run("job", "list", "--data", folder).out
    assert "\x1b" not in run("--color", "never", "job", "list", "--data", folder).out
    assert "\x1b" not in run("job", "list", "--data", folder, "-o", "json").out
