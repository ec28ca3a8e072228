"""`holdfast completion`: what a shell needs to complete our commands."""

import click
from click.shell_completion import ShellComplete, get_completion_class

from holdfast.cli.output import emit

VARIABLE = "_HOLDFAST_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands on Tab.

    bash: `holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast`;
    zsh: `holdfast completion zsh > ~/.zfunc/_holdfast`, with that folder in fpath;
    fish: `holdfast completion fish > ~/.config/fish/completions/holdfast.fish`.
    """
    known = get_completion_class(shell)
    if known is None:
        raise LookupError(f"click knows no completion for {shell}")
    script = known(context.find_root().command, {}, "holdfast", VARIABLE)
    # Only the script is wanted; the shell that runs now may be another one.
    emit(ShellComplete.source(script) + "\n")
