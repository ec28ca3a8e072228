"""`holdfast get` and `holdfast describe`, for hands that learnt them elsewhere."""

from typing import Final

import click

from holdfast.cli.errors import USAGE, Trouble

NOUNS: Final = {
    **dict.fromkeys(("job", "jobs"), "job"),
    **dict.fromkeys(("task", "tasks"), "task"),
    **dict.fromkeys(("worker", "workers", "node", "nodes"), "worker"),
    **dict.fromkeys(("queue", "queues"), "queue"),
    **dict.fromkeys(("token", "tokens"), "token"),
    **dict.fromkeys(("effect", "effects"), "effect"),
    **dict.fromkeys(("runtime", "runtimes", "classruntime", "classruntimes"), "runtime"),
    **dict.fromkeys(("schedule", "schedules", "cronjob", "cronjobs"), "schedule"),
}
PASSED_ON: Final = {"ignore_unknown_options": True, "help_option_names": []}


@click.command(context_settings=PASSED_ON, hidden=True)
@click.argument("noun")
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def get(context: click.Context, noun: str, rest: tuple[str, ...]) -> object:
    """`get jobs` lists, `get job 5` shows, `get tasks 5` lists those of a job."""
    is_named = bool(rest) and not rest[0].startswith("-")
    lists_by_name = NOUNS.get(noun) == "task" and "/" not in (rest[0] if rest else "")
    return _call(context, noun, "show" if is_named and not lists_by_name else "list", rest)


@click.command(context_settings=PASSED_ON, hidden=True)
@click.argument("noun")
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def describe(context: click.Context, noun: str, rest: tuple[str, ...]) -> object:
    """`describe job 5` shows it."""
    return _call(context, noun, "show", rest)


def _call(context: click.Context, noun: str, verb: str, rest: tuple[str, ...]) -> object:
    group = NOUNS.get(noun)
    if group is None:
        known = ", ".join(sorted(set(NOUNS.values())))
        raise Trouble(f"there are no {noun}; there are {known}. See `holdfast --help`.", USAGE)
    root = context.find_root()
    told = [group, verb, *rest]
    if not isinstance(root.command, click.Group):
        raise TypeError("the command line begins with a group")
    command = root.command.get_command(root, group)
    if command is None:
        raise Trouble(f"`holdfast {' '.join(told[:2])}` is not installed.", USAGE)
    with command.make_context(group, told[1:], parent=root) as inner:
        return command.invoke(inner)
