"""Folders that go along with a command."""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.cli.asking import Asker
from holdfast.cli.errors import Trouble, code_of


def brought(asker: Asker, folder: str) -> str:
    """The digest of a folder that the server now has."""
    from holdfast.client.bundles import upload

    with _told():
        return upload(asker.http, folder).digest


def digest_of(folder: str) -> str:
    """The same, of a folder that goes nowhere."""
    from holdfast.client.bundles import packed

    with _told(), packed(folder) as (made, _):
        return made.digest


@contextmanager
def _told() -> Iterator[None]:
    """A folder that cannot be brought is the user's to mend."""
    from holdfast.client.errors import Refused

    try:
        yield
    except Refused as no:
        raise Trouble(f"{no}.", code_of(no.code)) from None
