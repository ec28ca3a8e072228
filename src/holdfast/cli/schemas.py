"""`holdfast runtime schema`: what a manifest may say, for editors and programs."""

import json

import click

from holdfast.cli.output import emit, note


@click.command("schema")
def schema() -> None:
    """Print the JSON schema of a manifest, for editors that check and complete YAML.

    A manifest names it in its first line, as in
    `# yaml-language-server: $schema=./runtime.schema.json`.
    """
    from holdfast.runtimes.schema import manifest_schema

    emit(json.dumps(manifest_schema(), indent=2) + "\n")
    note(
        "`holdfast runtime schema > runtime.schema.json` keeps it; an editor finds it by the line "
        "`# yaml-language-server: $schema=./runtime.schema.json` above a manifest"
    )
