"""What a worker and its delivery process say to each other, and how it looks on the socket.

to the child    SETUP once, GIVE parcels, TAKE_BACK what has not begun, LEAVE
to the parent   SETTLED deliveries, ALIVE where something goes on that takes long
"""

from typing import Final

from msgspec import Struct
from msgspec.msgpack import Decoder

from holdfast.wire.delivery import Bounced, DebtName, Parcel

SETUP: Final = 1
GIVE: Final = 2
TAKE_BACK: Final = 3
LEAVE: Final = 4
SETTLED: Final = 5
ALIVE: Final = 6


class Setup(Struct, frozen=True, array_like=True):
    """What the child takes over from the program it works for."""

    argv: list[bytes]
    own_places: tuple[str, ...]


class Ended(Struct, frozen=True, array_like=True):
    """What became of one delivery; no `bounced`: it went well."""

    kind: str
    place: str
    name: DebtName
    bounced: Bounced | None


decode_setup: Final = Decoder(Setup).decode
decode_parcels: Final = Decoder(list[Parcel]).decode
decode_ended: Final = Decoder(list[Ended]).decode
decode_place: Final = Decoder(tuple[str, str]).decode
