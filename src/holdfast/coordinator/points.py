"""The places where a test may make the world fail: each is a moment when something is half done."""

from typing import Final

POINTS: Final = {
    "folder.before_opening": "the folder is locked and replayed, and nobody has taken it over yet",
    "folder.before_sync": "that it was taken over is written and not durable",
    "log.before_append": "memory knows what no disk has",
    "log.before_sync": "a frame is written and not durable",
    "log.after_sync": "a frame is durable and nobody was told",
    "segment.before_prepare": "the next segment is about to be made ready",
    "exchange.after_taking": "what a worker said is judged, and nothing of that is written",
    "exchange.before_reply": "what a worker said is durable, and it has not heard",
}
"""Their names, and what is half done there. A simulation fails when one is never reached."""
