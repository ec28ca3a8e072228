"""Every command that only looks can look into a folder, and at a moment of it."""

from collections.abc import Iterator

import click
import pytest

from holdfast.cli.main import holdfast

READING = frozenset(
    {
        "diff", "explain", "export", "get", "describe", "head", "history", "list", "logs", "next",
        "ps", "query", "show", "stats", "transactions", "verify", "dump",
    }
)  # fmt: skip
"""Verbs that only look."""

ELSEWHERE = {
    "get": "stands for the list of any noun",
    "describe": "stands for the show of any noun",
    "config show": "shows settings, of which no log knows",
    "bench list": "measures this machine",
    "completion": "prints a script",
}
"""Commands with such a verb that look at something else, and what."""

TIMELESS = {
    "job logs": "output lies beside the log and has no positions; what is kept is shown",
    "task logs": "output lies beside the log and has no positions; what is kept is shown",
    "log verify": "judges all that is there",
    "log stats": "measures all that is there",
    "log dump": "has --from and --to",
    "diff": "has --at twice",
    "audit verify": "judges all that is there",
    "audit export": "has the positions it takes",
}
"""Commands that look into a folder, and not at a moment of it."""


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


READERS = [
    pytest.param(name, command, id=name)
    for name, command in leaves(holdfast)
    if name.rpartition(" ")[2] in READING and name not in ELSEWHERE
]


@pytest.mark.parametrize(("name", "command"), READERS)
def test_a_command_that_looks_can_look_into_a_folder_and_at_a_moment(
    name: str, command: click.Command
) -> None:
    options = {option for parameter in command.params for option in parameter.opts}
    assert "--data" in options
    assert name in TIMELESS or "--at" in options


def test_the_readers_are_found() -> None:
    names = {parameter.id for parameter in READERS}
    assert {"job list", "task history", "worker list", "queue list", "token list"} <= names
