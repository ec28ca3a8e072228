"""Tokens: who may ask. A secret is told once, to whoever had it made."""

from typing import Any

from holdfast.api.call import Answer, Call
from holdfast.api.identity import new_secret
from holdfast.api.problems import Declined, understood
from holdfast.coordinator.crewviews import token_view
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.ids import NEVER, Instant
from holdfast.core.state import State
from holdfast.wire.amounts import duration_ms
from holdfast.wire.bodies import NewToken


async def list_tokens(call: Call) -> Answer:
    """The tokens that open something, without their secrets."""

    def look(state: State) -> list[dict[str, Any]]:
        return [token_view(token, call.service.wall) for token in state.tokens.values()]

    return Answer({"schema": 1, "tokens": await call.look(look)})


async def issue(call: Call) -> Answer:
    """Make a token. Its secret is in this answer and nowhere else."""
    body: NewToken = call.body
    with understood():
        ttl_ms = duration_ms(body.ttl or None, "ttl")
    if body.worker and body.scopes != ["worker"]:
        raise Declined("invalid", "only a token with the scope worker alone belongs to a worker")
    secret = new_secret()
    wall = call.service.served.coordinator.clock.wall()
    done = await call.execute(
        c.IssueToken(
            token_id=secret.token_id,
            name=body.name,
            digest=secret.digest,
            scopes=tuple(body.scopes),
            worker=body.worker,
            expires_wall=Instant(wall + ttl_ms) if ttl_ms else NEVER,
            **call.keying(),
        )
    )
    if done.repeated:
        former = done.find(e.TokenIssued)
        told = former.token_id if former is not None else "?"
        raise Declined(
            "conflict",
            f"this request made token {told} before, and its secret was told then; "
            "revoke it and make another",
        )
    return Answer({"id": secret.token_id, "token": secret.text}, 201)


async def revoke(call: Call) -> Answer:
    """Have a token open nothing any more."""
    await call.execute(c.RevokeToken(token_id=call.path["id"]))
    return Answer({})
