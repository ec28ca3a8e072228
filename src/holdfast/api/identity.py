"""Who asks, told by a token, and what that lets them do."""

import hmac
import secrets
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from holdfast.api.problems import Declined
from holdfast.core.ids import NEVER
from holdfast.core.state import State, Token

PUBLIC: Final = ""
"""The scope of what anybody may ask."""

INCLUDED: Final[Mapping[str, frozenset[str]]] = {
    "admin": frozenset({"submit", "read", "cancel", "worker", "operator", "admin"}),
    "operator": frozenset({"operator", "read", "cancel"}),
}

_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="holdfast"'}
_LONGEST: Final = 200
TOKENS_KEPT: Final = 256


class Identity(Struct, frozen=True):
    """Somebody who may ask. `worker` not empty: as the worker of that name only."""

    token_id: str
    name: str
    scopes: frozenset[str]
    worker: str = ""

    @property
    def actor(self) -> str:
        """How the log names them."""
        return f"token:{self.token_id}"

    def may(self, scope: str) -> bool:
        return scope == PUBLIC or scope in self.scopes

    def speaks_for(self, worker: str) -> bool:
        return not self.worker or self.worker == worker


NOBODY: Final = Identity("", "", frozenset())


class Secret(Struct, frozen=True):
    """A token as its owner has it. Only `digest` is ever stored by the server."""

    token_id: str
    text: str

    @property
    def digest(self) -> bytes:
        return digest_of(self.text)


def new_secret() -> Secret:
    token_id = secrets.token_hex(6)
    return Secret(token_id, f"hf_{token_id}_{secrets.token_hex(32)}")


def read_secret(text: str) -> Secret | None:
    """The token in this text, None where there is none."""
    parts = text.strip().split("_")
    if len(text) > _LONGEST or len(parts) != 3 or parts[0] != "hf" or not all(parts):
        return None
    return Secret(parts[1], text.strip())


def digest_of(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=32).digest()


def identify(state: State, authorization: str | None, wall: int) -> Identity:
    """Whose token this is; `Declined` where it opens nothing, without a word why."""
    scheme, _, text = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not text:
        raise Declined(
            "unauthenticated",
            "send `Authorization: Bearer TOKEN`; `holdfast serve` says where its token is",
            headers=_CHALLENGE,
        )
    secret = read_secret(text)
    token = state.tokens.get(secret.token_id) if secret is not None else None
    if secret is None or token is None or not _opens(token, secret, wall):
        raise Declined("unauthenticated", "this token opens nothing", headers=_CHALLENGE)
    return identity_of(token)


@lru_cache(maxsize=TOKENS_KEPT)
def identity_of(token: Token) -> Identity:
    granted = frozenset(token.scopes).union(
        *(INCLUDED[scope] for scope in token.scopes if scope in INCLUDED)
    )
    return Identity(token.token_id, token.name, granted, token.worker)


def _opens(token: Token, secret: Secret, wall: int) -> bool:
    if not hmac.compare_digest(token.digest, secret.digest):
        return False
    return token.expires_wall == NEVER or wall < token.expires_wall
