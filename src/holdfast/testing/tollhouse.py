"""A receiver of effects in a process of its own, which writes down every request that comes.

    python -m holdfast.testing.tollhouse FILE

It prints its address. A request is a line of the file, on the disk before it is answered.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from holdfast.testing.deeds import append


class Toll(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    file = ""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        told = {"id": self.headers["idempotency-key"], "body": json.loads(body)}
        append(self.file, json.dumps(told))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """What there is to say is in the file."""


class Tollhouse(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Those who come here are killed now and then in mid-sentence."""


def main() -> None:
    Toll.file = sys.argv[1]
    server = Tollhouse(("127.0.0.1", 0), Toll)
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}/\n")
    sys.stdout.flush()
    server.serve_forever()


@contextmanager
def a_tollhouse(file: Path) -> Iterator[str]:
    """Its address, as long as it stands."""
    command = [sys.executable, "-m", "holdfast.testing.tollhouse", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is None:
                raise RuntimeError("it cannot be heard")
            yield process.stdout.readline().strip()
        finally:
            process.kill()


if __name__ == "__main__":
    main()
