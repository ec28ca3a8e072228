"""The delivery process: it runs sinks apart from whoever exchanges, and can be killed.

It was exec'd, never forked, leads a group of its own and dies with its parent. A thread a place
delivers and tells the parent; another listens to it.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import BinaryIO, Final

from holdfast.wire.delivery import Parcel
from holdfast.worker import delivery_frames as frames
from holdfast.worker.child import die_with, end_with_everything_started, listen_to_signals
from holdfast.worker.courier import Courier, Word
from holdfast.worker.delivering import Place, place_of
from holdfast.worker.delivery_frames import Ended
from holdfast.worker.frames import HEAD, encode, frame

BOOT: Final = (
    "import sys; sys.path[:] = sys.argv.pop().split('\\n'); "
    "from holdfast.worker.delivery_child import main; main()"
)
ALIVE_S: Final = 1.0


class Post:
    """The couriers of this process. Each tells the parent itself, before it goes on."""

    def __init__(self, link: socket.socket, own_places: tuple[str, ...]) -> None:
        self.is_over = threading.Event()
        self._link = link
        self._speaking = threading.Lock()
        self._own_places = own_places
        self._couriers: dict[Place, Courier] = {}
        self._alive_at: dict[Place, float] = {}

    def listen(self, stream: BinaryIO) -> None:
        """Obey the parent until it is gone, and never outlive it or this thread."""
        try:
            for kind, body in read_frames(stream):
                if kind == frames.GIVE:
                    self._give(frames.decode_parcels(body))
                elif kind == frames.TAKE_BACK:
                    for courier in self._couriers.values():
                        courier.stop()
                elif kind == frames.LEAVE:
                    self._leave()
        finally:
            end_with_everything_started()

    def _give(self, parcels: list[Parcel]) -> None:
        for parcel in parcels:
            place = place_of(parcel)
            if place not in self._couriers:
                self._couriers[place] = Courier(
                    place, self._tell, self._goes_on, {}, self._own_places
                )
            self._couriers[place].give(parcel)

    def _leave(self) -> None:
        for courier in self._couriers.values():
            courier.leave()
        for courier in self._couriers.values():
            courier.join()
        self.is_over.set()

    def _tell(self, place: Place, words: list[Word]) -> None:
        ended = [Ended(*place, *word) for word in words]
        self._send(frames.SETTLED, encode(ended))

    def _goes_on(self, place: Place) -> None:
        now = time.monotonic()
        if now >= self._alive_at.get(place, 0) + ALIVE_S:
            self._alive_at[place] = now
            self._send(frames.ALIVE, encode(place))

    def _send(self, kind: int, body: bytes) -> None:
        with self._speaking:
            try:
                self._link.sendall(frame(kind, body))
            except OSError:
                # Nobody is there to hear it.
                end_with_everything_started()


def read_frames(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Until the other side is gone; a frame it did not live to end is none."""
    while len(head := stream.read(HEAD.size)) == HEAD.size:
        length, kind = HEAD.unpack(head)
        body = stream.read(length)
        if len(body) < length:
            return
        yield kind, body


def main() -> None:
    """Started by `ProcessDeliverer` with the parent's pid and a descriptor."""
    parent, link_fd = map(int, sys.argv[1:3])
    die_with(parent)
    listen_to_signals()
    os.set_inheritable(link_fd, False)
    link = socket.socket(fileno=link_fd)
    stream = link.makefile("rb")
    _, body = next(read_frames(stream), (0, b""))
    setup = frames.decode_setup(body)
    sys.argv[:] = map(os.fsdecode, setup.argv)
    post = Post(link, setup.own_places)
    listening = threading.Thread(target=post.listen, args=(stream,), name="holdfast-listen")
    listening.daemon = True
    listening.start()
    post.is_over.wait()
