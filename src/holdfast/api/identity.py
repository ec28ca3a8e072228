"""Who asks, told by a token, and what that lets them do."""

import hmac
import secrets
from collections.abc import Mapping
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
    return identity_of(_token(state, authorization, wall))


class Identities:
    """Who has shown which token. What was looked into once opens the same again for as long as the
    log knows that very token, and it has not expired: a worker shows its token every few seconds.
    """

    def __init__(self) -> None:
        self._shown: dict[str, tuple[Token, Identity]] = {}

    def identify(self, state: State, authorization: str, wall: int) -> Identity:
        known = self._shown.get(authorization)
        if known is not None:
            token, identity = known
            if state.tokens.get(token.token_id) is token and not _is_past(token, wall):
                return identity
            del self._shown[authorization]
        token = _token(state, authorization, wall)
        if len(self._shown) >= TOKENS_KEPT:
            self._shown.clear()
        identity = identity_of(token)
        self._shown[authorization] = (token, identity)
        return identity


def _token(state: State, authorization: str | None, wall: int) -> Token:
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
    return token


def identity_of(token: Token) -> Identity:
    granted = frozenset(token.scopes).union(
        *(INCLUDED[scope] for scope in token.scopes if scope in INCLUDED)
    )
    return Identity(token.token_id, token.name, granted, token.worker)


def _opens(token: Token, secret: Secret, wall: int) -> bool:
    return hmac.compare_digest(token.digest, secret.digest) and not _is_past(token, wall)


def _is_past(token: Token, wall: int) -> bool:
    return token.expires_wall != NEVER and wall >= token.expires_wall
