"""What everybody has in common whom a program asks about what a server has."""

from collections.abc import Callable
from typing import Any

from holdfast.wire.http import Http


class RemoteDesk:
    """`asked` has a question answered, or its refusal raised; `post` carries a key, so that it may
    be repeated."""

    def __init__(
        self, http: Http, asked: Callable[[Callable[[], Any]], Any], post: Callable[..., Any]
    ) -> None:
        self._http = http
        self._asked = asked
        self._post = post
