"""Commands that are imported when they are typed."""

import importlib
import importlib.util
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import click
from click.shell_completion import CompletionItem


class LazyCommands(click.Group):
    """A group that knows its commands by name and summary, and imports one when it is called.

    `places` maps a name to `module:attribute` and a summary; without a summary it is an alias that
    nobody is told of. A command whose module is not installed is not offered.
    """

    def __init__(self, places: Mapping[str, tuple[str, str]], **rest: Any) -> None:
        super().__init__(**rest)
        self._places = {name: place for name, place in places.items() if _exists(place[0])}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, (_, told) in self._places.items() if told]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self._places.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place[0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """What was mistyped is told with what was most likely meant."""
        name = args[0]
        if name not in self._places and not name.startswith("-"):
            near = get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, told) for name, (_, told) in self._places.items() if told])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names alone: completing one must not import them all."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [
            CompletionItem(name, help=self._places[name][1])
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]


def _exists(place: str) -> bool:
    return importlib.util.find_spec(place.partition(":")[0]) is not None
