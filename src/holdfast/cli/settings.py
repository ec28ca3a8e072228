"""`holdfast config`: the settings there are, what they are here, and who said so."""

from pathlib import Path
from typing import Any, Final

import click

from holdfast.cli.config import KINDS, KNOWN, SETTINGS, SINKS, Config, Setting, load_config
from holdfast.cli.documents import document_options, keep_document
from holdfast.cli.errors import NOT_FOUND, Trouble
from holdfast.cli.options import output_option
from holdfast.cli.output import TABLES, Column, View, draw, emit_list
from holdfast.cli.sinks import document as sinks_document
from holdfast.cli.sinks import sinks_of

HEAD: Final = """# Settings

Made from `cli/config.py`; `make bless` renews it.

A setting is taken from the first of these places that names it:

1. the option of the command;
2. the environment: `HOLDFAST_SERVER__LISTEN` is `server.listen`, and some have a shorter name too;
3. `holdfast.toml` in the folder you are in, then `[tool.holdfast]` in its `pyproject.toml`;
4. `$XDG_CONFIG_HOME/holdfast/config.toml`, usually `~/.config/holdfast/config.toml`;
5. `/etc/holdfast/config.toml`;
6. the default.

`HOLDFAST_CONFIG` names one file to read instead of those of 3, 4 and 5. A key that nobody knows
is an error that names file and key. In the environment, the texts of a list have commas between.

    holdfast config show               # every setting, its value here, and where it was found
    holdfast config show server.rate   # one of them, or a section: client, server, worker, log

The workers of `serve --workers` read the settings of `worker`, too.

A running server reads its settings again on SIGHUP (`systemctl reload`, `kill -HUP`). What is
marked *live* below is taken up at once; stderr says what has changed, and what needs a restart.
Where anything is wrong, a file that cannot be read or a value that makes no sense, that is told
and everything stays as it was. The certificate and the token file are read again even where their
names have not changed. Whether TLS is spoken at all is decided at the start.
"""


@click.command()
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@document_options
@output_option
def show(keys: tuple[str, ...], check: Path | None, write: Path | None, form: str) -> None:
    """Show settings with the place each was found in: all, those named, or a section."""
    if keep_document(document(), "holdfast config show", check=check, write=write):
        return
    config = load_config()
    views = [_view(config, setting) for setting in _chosen(keys, config)]
    views += [view for view in _sink_views(config) if _is_meant(view["name"], keys)]
    columns = [Column("SETTING"), Column("VALUE", elastic=True), Column("FROM", elastic=True)]
    rows = [[view["name"], told(view["value"]), view["source"]] for view in views]
    if form == "wide":
        columns.append(Column("MEANS", elastic=True))
        rows = [[*row, view["about"]] for row, view in zip(rows, views, strict=True)]
    emit_list(form, "settings", views, draw(columns, rows) if form in TABLES else "")


def _chosen(keys: tuple[str, ...], config: Config) -> list[Setting]:
    names = [*KNOWN, *(f"{SINKS}.{found.name}" for found in sinks_of(config))]
    for key in keys:
        if key != SINKS and not any(_is_meant(name, (key,)) for name in names):
            raise Trouble(
                f"there is no setting {key}. `holdfast config show` lists all.", NOT_FOUND
            )
    return [setting for setting in SETTINGS if _is_meant(setting.key, keys)]


def _is_meant(name: str, keys: tuple[str, ...]) -> bool:
    return not keys or any(name == key or name.startswith(f"{key}.") for key in keys)


def _sink_views(config: Config) -> list[View]:
    return [
        {
            "name": f"{SINKS}.{found.name}",
            "value": found.sink.shown(),
            "source": str(found.path),
            "default": None,
            "variables": [],
            "reloads": True,
            "about": "where effects go that name it",
        }
        for found in sinks_of(config)
    ]


def _view(config: Config, setting: Setting) -> View:
    found = config.find(setting.key)
    return {
        "name": setting.key,
        "value": list(found.value) if isinstance(found.value, tuple) else found.value,
        "source": found.source,
        "default": list(setting.default) if setting.kind is list else setting.default,
        "variables": list(setting.variables()),
        "reloads": setting.reloads,
        "about": setting.about,
    }


def told(value: Any) -> str:
    """A value as it is written in the environment."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(value)
    if isinstance(value, dict):
        return " ".join(f"{name}={inner}" for name, inner in value.items())
    return f"{value:g}" if isinstance(value, float) else "" if value is None else str(value)


def document() -> str:
    """The page of all settings, section by section."""
    parts = [HEAD]
    for section in dict.fromkeys(setting.key.partition(".")[0] for setting in SETTINGS):
        parts.append(f"\n## {section}\n\n")
        parts.append("| Setting | Is | Default | Means | Environment | |\n")
        parts.append("|---|---|---|---|---|---|\n")
        parts += [_row(setting) for setting in SETTINGS if setting.key.startswith(f"{section}.")]
    return "".join([*parts, sinks_document()])


def _row(setting: Setting) -> str:
    default = told(setting.default)
    cells = (
        f"`{setting.key}`",
        KINDS[setting.kind],
        f"`{default}`" if default else "",
        setting.about,
        ", ".join(f"`{name}`" for name in setting.variables()),
        "live" if setting.reloads else "",
    )
    return f"| {' | '.join(cells)} |\n"
