"""`KEY=VALUE`, as options take them."""

from collections.abc import Iterable

import click


def pairs_of(texts: Iterable[str], option: str) -> dict[str, str]:
    """What these name, the last one winning where a key comes twice."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=option)
        found[key] = value
    return found
