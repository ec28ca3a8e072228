"""Times ahead, as people write them."""

from datetime import UTC, datetime, timedelta

import click

from holdfast.wire.amounts import duration_ms


def instant(text: str, option: str, now: datetime | None = None) -> str:
    """RFC 3339 of a time or of a duration from now; nothing of nothing.

    A time without a zone is meant as the clock on the wall shows it here.
    """
    if not text:
        return ""
    here = now or datetime.now(UTC)
    try:
        return _shown(datetime.fromisoformat(text).astimezone(UTC))
    except (ValueError, OverflowError, OSError):
        pass
    try:
        return _shown(here + timedelta(milliseconds=duration_ms(text, option)))
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is no time: write 2026-03-01T12:00:00Z, 2026-03-01T12:00 for the time here, "
            "or 2h from now",
            param_hint=option,
        ) from None


def _shown(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
