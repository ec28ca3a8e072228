"""What a task says of itself and promises, as it travels."""

from typing import Any, Final

from msgspec.msgpack import Encoder

from holdfast.worker.errors import EffectTooLarge
from holdfast.worker.payloads import CannotEncode

BODY_BYTES_MAX: Final = 64 * 1024
MOST: Final = 2**63 - 1

_ENCODE: Final = Encoder().encode


def encoded_body(sink: str, body: Any) -> bytes:
    try:
        encoded = _ENCODE(body)
    except (TypeError, OverflowError, ValueError, RecursionError) as error:
        raise CannotEncode(
            f"the body of an effect for {sink!r} cannot be sent: {error}. Use plain types "
            "(numbers, text, lists, dicts, dataclasses)."
        ) from error
    if len(encoded) > BODY_BYTES_MAX:
        raise EffectTooLarge(
            f"the body of an effect for {sink!r} takes {len(encoded):,} bytes, over the limit of "
            f"{BODY_BYTES_MAX:,}; put it in a file and send its name"
        )
    return encoded


def counted(value: float, name: str) -> int:
    try:
        whole = int(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name}={value!r} is not a number") from None
    if not 0 <= whole <= MOST:
        raise ValueError(f"{name}={value!r} cannot be negative, nor endless")
    return whole
