"""Effects as HTTP requests: POST of a JSON body, under the idempotency key of the effect.

An effect may be posted more than once, always under the same key, and the receiver tells repeats
apart by it. The name of the host is resolved once a connection; its addresses are judged, and the
connection goes to one that was judged well, so that no second answer of a name server leads it
elsewhere. Redirects are not followed, and no answer is read beyond what says how it went.
"""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, Final

from msgspec import Struct

from holdfast.version import VERSION
from holdfast.wire.answers import Broken, Ear
from holdfast.wire.delivery import Delivery, Parcel
from holdfast.wire.networks import is_listed, is_public
from holdfast.wire.sinks import HttpSink, check_url
from holdfast.worker.sinks.addresses import Address, address_of, is_allowed
from holdfast.worker.sinks.outlet import (
    NotDelivered,
    Outcome,
    as_json,
    body_of,
    one_by_one,
)  # fmt: skip
from holdfast.worker.sinks.secrets import Secrets

ANSWER_BYTES_MAX: Final = 64 * 1024
SHOWN_MAX: Final = 200
READ_BYTES: Final = 16 * 1024
LONGEST_WAIT_MS: Final = 3_600_000
CONFLICT: Final = 409
AGAIN: Final = frozenset({408, 425, 429})
"""Answers in the four hundreds that mean: later."""


class Answer(Struct, frozen=True):
    """What the receiver said, as far as it matters."""

    status: int
    headers: dict[str, str]
    start: bytes


class HttpOutlet:
    def __init__(self, sink: HttpSink) -> None:
        self._sink = sink
        self._secrets = Secrets()
        self._line: _Line | None = None
        self._trust: ssl.SSLContext | None = None

    def deliver(self, parcel: Parcel) -> Iterator[Outcome]:
        return one_by_one(parcel.deliveries, self._post)

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def _post(self, delivery: Delivery) -> None:
        address, body = self._meant(delivery)
        request = self._request(address, delivery, as_json(body))
        try:
            answer = self._asked(address, request)
        except (OSError, Broken) as error:
            self.close()
            told = str(error) or type(error).__name__
            raise NotDelivered(self._secrets.hide(f"{address.shown}: {told}")) from None
        self._judge(address, answer)

    def _meant(self, delivery: Delivery) -> tuple[Address, Any]:
        """Where an effect goes, and with what."""
        body = body_of(delivery)
        if self._sink.url:
            return address_of(self._sink.url), body
        if not isinstance(body, dict) or body.keys() != {"to", "body"}:
            told = "its body must be {'to': ADDRESS, 'body': …}, since the sink has no url"
            raise NotDelivered(told, is_final=True)
        to = str(body["to"])
        try:
            check_url(to, "to")
        except ValueError as error:
            raise NotDelivered(str(error), is_final=True) from None
        address = address_of(to)
        if not is_allowed(address, self._sink.allow):
            raise NotDelivered(f"to={to!r} is not allowed by this sink", is_final=True)
        return address, body["body"]

    def _request(self, address: Address, delivery: Delivery, content: bytes) -> bytes:
        headers = {
            "Host": address.authority,
            "User-Agent": f"holdfast/{VERSION}",
            "Accept": "*/*",
            "Content-Type": "application/json",
            "Content-Length": str(len(content)),
            "Idempotency-Key": delivery.idempotency,
            "Holdfast-Attempt": str(delivery.tries + 1),
        }
        for name, value in self._sink.headers.items():
            headers[name] = self._secrets.look_up(value)
            if not headers[name].isascii() or not headers[name].isprintable():
                raise NotDelivered(f"the secret for {name} is not one line of plain letters")
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {address.target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + content

    def _asked(self, address: Address, request: bytes) -> Answer:
        give_up_at = time.monotonic() + self._sink.timeout_ms / 1_000
        line = self._line
        if line is not None and line.place == address.place and not line.has_ended():
            try:
                return self._answered(line, request, give_up_at)
            except (OSError, Broken):
                # It was closed while nobody spoke. Only where no answer had begun it says so.
                if line.has_heard:
                    raise
        self.close()
        line = self._line = self._connected(address, give_up_at)
        return self._answered(line, request, give_up_at)

    def _answered(self, line: "_Line", request: bytes, give_up_at: float) -> Answer:
        answer = line.ask(request, give_up_at)
        if not line.is_free:
            self.close()
        return answer

    def _connected(self, address: Address, give_up_at: float) -> "_Line":
        failure: OSError | None = None
        for place in self._places(address):
            try:
                made = socket.create_connection(place, max(0.001, give_up_at - time.monotonic()))
            except OSError as error:
                failure = error
                continue
            try:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if address.scheme == "https":
                    made = self._trusted().wrap_socket(made, server_hostname=address.host)
            except BaseException:
                made.close()
                raise
            return _Line(made, address.place)
        raise failure or OSError("it has no address")

    def _trusted(self) -> ssl.SSLContext:
        if self._trust is None:
            self._trust = ssl.create_default_context(cafile=self._sink.ca_file or None)
        return self._trust

    def _places(self, address: Address) -> list[tuple[str, int]]:
        """The addresses of a host that may be connected to, resolved here and nowhere else."""
        try:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise OSError(f"{address.host} cannot be found: {error}") from None
        numbers = list(dict.fromkeys(str(each[4][0]) for each in found))
        well = [number for number in numbers if self._may_connect(address.host, number)]
        if not well:
            told = (
                f"{address.host} is {', '.join(numbers)}, which is not a public address; a sink "
                "with private = true, or that lists it there, may go to such"
            )
            raise NotDelivered(told, is_final=True)
        return [(number, address.port) for number in well]

    def _may_connect(self, host: str, number: str) -> bool:
        private = self._sink.private
        if private is True or is_public(number):
            return True
        return private is not False and is_listed(host, number, private)

    def _judge(self, address: Address, answer: Answer) -> None:
        """Raise what the status means, unless it is: delivered."""
        status = answer.status
        if 200 <= status < 300 or (status == CONFLICT and self._sink.conflict_is_delivered):
            return
        told = f"{address.shown} answered {status}"
        if 300 <= status < 400:
            where = answer.headers.get("location", "nowhere")[:SHOWN_MAX]
            told = f"{told}: a redirect to {where}, which is not followed"
            raise NotDelivered(self._secrets.hide(told), is_final=True)
        said = answer.start.decode("utf-8", "replace")[:SHOWN_MAX]
        said = "".join(c if c.isprintable() else " " for c in said).strip()
        told = self._secrets.hide(f"{told}: {said}" if said else told)
        is_final = 400 <= status < 500 and status not in AGAIN
        raise NotDelivered(told, is_final=is_final, wait_ms=_wait_ms(answer))


class _Line:
    """One connection. `is_free`: it may be asked again; `has_heard`: an answer had begun."""

    def __init__(self, made: socket.socket, place: tuple[str, str, int]) -> None:
        self.place = place
        self.is_free = False
        self.has_heard = False
        self._is_spoilt = False
        self._socket = made
        self._ear = Ear()

    def ask(self, request: bytes, give_up_at: float) -> Answer:
        """The head of the answer and the start of its body. The rest is read as far as time and
        bounds allow, because the line is of use only when all has been."""
        self.is_free = self.has_heard = False
        self._ear.begin()
        self._socket.settimeout(max(0.001, give_up_at - time.monotonic()))
        self._socket.sendall(request)
        taken = 0
        while not self._ear.has_head:
            taken += self._hear(give_up_at)
            if taken > ANSWER_BYTES_MAX:
                raise Broken("its answer has no end of headers")
        heard = self._ear.heard()
        start = heard.content
        with suppress(OSError, Broken):
            # How it went is known. What follows matters only to whoever asks here next.
            while not (self._ear.is_over or self._is_spoilt) and taken <= ANSWER_BYTES_MAX:
                taken += self._hear(give_up_at)
                start = (start + self._ear.taken())[:READ_BYTES]
            self.is_free = self._ear.is_over and self._ear.keeps and not self._is_spoilt
        return Answer(heard.status, heard.headers, start)

    def has_ended(self) -> bool:
        """Whether the other side has hung up, or said something nobody asked for."""
        self._socket.setblocking(False)
        try:
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        self._socket.close()

    def _hear(self, give_up_at: float) -> int:
        left_s = give_up_at - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("it did not answer in time")
        self._socket.settimeout(left_s)
        try:
            data = self._socket.recv(READ_BYTES)
        except TimeoutError:
            raise TimeoutError("it did not answer in time") from None
        if not data:
            if not self._ear.ends_here():
                raise Broken("it hung up without an answer")
            self._ear.is_over = True
            return 0
        self.has_heard = True
        try:
            self._ear.hear(data)
        except Broken:
            # What follows a whole head says nothing about how it went.
            if not self._ear.has_head:
                raise
            self._is_spoilt = True
        return len(data)


def _wait_ms(answer: Answer) -> int:
    """How long the receiver asks to be left alone: seconds, or a date."""
    told = answer.headers.get("retry-after", "").strip()
    if told.isascii() and told.isdigit():
        return min(int(told[:9]) * 1_000, LONGEST_WAIT_MS)
    try:
        wait_s = parsedate_to_datetime(told).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return 0
    return min(max(0, round(wait_s * 1_000)), LONGEST_WAIT_MS)

