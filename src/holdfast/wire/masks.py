"""Secrets as people may see them: a reference stays readable, everything else is hidden."""

import re
from typing import Final

HIDDEN: Final = "***"
REFERENCE: Final = re.compile(r"(?P<before>\S+ )?(?P<how>env|file):(?P<name>\S.*)")
"""`env:NAME` or `file:PATH`, after a word where the receiver wants one: `Bearer env:NAME`."""

_PASSWORD: Final = re.compile(r"(?i)(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]+)")
_USER: Final = re.compile(r"(?<=://)([^/@\s]*?):([^/@\s]*)(?=@)")


def masked_secret(text: str) -> str:
    return text if REFERENCE.fullmatch(text) else HIDDEN


def masked_address(text: str) -> str:
    """The address of a database without its password, in either way of writing it."""
    return _PASSWORD.sub(rf"\1{HIDDEN}", _USER.sub(rf"\1:{HIDDEN}", text))
