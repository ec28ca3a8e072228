"""Why a request got no other answer: stable codes, each with its status and its title."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from holdfast.wire.bodies import Problem

DOCS: Final = "/api/v1/docs#"

CODES: Final[Mapping[str, tuple[int, str]]] = {
    "malformed": (400, "The request cannot be read"),
    "unauthenticated": (401, "A token is needed"),
    "forbidden": (403, "This is not allowed"),
    "not_found": (404, "There is no such thing"),
    "method_not_allowed": (405, "Not in this way"),
    "conflict": (409, "It is not as the request believes"),
    "invalid_transition": (409, "Its state does not allow this"),
    "lease_lost": (409, "The lease is not current"),
    "job_sealed": (409, "The job takes no more items"),
    "not_stored": (409, "The result is not in the store"),
    "offset_gap": (409, "Something is missing before this"),
    "repeated": (409, "This was done before"),
    "unschedulable": (409, "Nobody there could run this"),
    "gone": (410, "It was here and is no longer kept"),
    "precondition_failed": (412, "It is not as it was"),
    "too_large": (413, "This is too much"),
    "unsupported_media_type": (415, "The body is of no known type"),
    "invalid": (422, "The request makes no sense"),
    "key_reused": (422, "The key belongs to another request"),
    "rate_limited": (429, "Too many requests"),
    "internal": (500, "Something is wrong with the server"),
    "damaged": (500, "What was kept is not as it was"),
    "not_ready": (503, "The server takes no requests now"),
    "disk_low": (503, "The disk has little room left"),
    "disk_full": (503, "The disk is full"),
    "disk_slow": (503, "The disk is slow"),
    "queue_full": (503, "Too much is waiting already"),
}


LATER: Final[Mapping[str, str]] = {"disk_low": "10", "disk_full": "10", "disk_slow": "2"}
"""After how many seconds to try again what is refused for now."""


class Declined(Exception):
    """No is an answer. `code` is one of `CODES`."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        reasons: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.status = CODES[code][0]
        self.detail = detail
        self.reasons = list(reasons)
        self.headers = dict(headers or {})
        if code in LATER:
            self.headers.setdefault("retry-after", LATER[code])
        self.extra = dict(extra or {})

    def problem(self, *, instance: str, trace_id: str = "") -> Problem:
        status, title = CODES[self.code]
        return Problem(
            type=DOCS + self.code,
            title=title,
            status=status,
            detail=self.detail,
            code=self.code,
            instance=instance,
            reasons=self.reasons,
            trace_id=trace_id,
            extra=self.extra,
        )


@contextmanager
def understood() -> Iterator[None]:
    """A duration, a size or an instant that cannot be read in here is the asker's to mend."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise Declined("invalid", str(error)) from error
