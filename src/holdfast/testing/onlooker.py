"""Somebody who asks one small thing again and again, from a process of its own: whatever it waits
for is the server, not those who keep the server busy.

`python -m holdfast.testing.onlooker HOST PORT COUNT` with the token on its input; prints how many
seconds each look took, as JSON.
"""

import json
import sys
import time
from http.client import HTTPConnection


def looks(host: str, port: int, token: str, count: int) -> list[float]:
    """Each on a connection of its own, as strangers come; a look that is not answered ends it."""
    took = []
    for _ in range(count):
        began = time.monotonic()
        connection = HTTPConnection(host, port, timeout=60)
        connection.request(
            "GET", "/api/v1/jobs?limit=1", headers={"authorization": f"Bearer {token}"}
        )
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status != 200:
            sys.exit(f"a look was answered with {answer.status}")
        took.append(time.monotonic() - began)
    return took


if __name__ == "__main__":
    host, port, count = sys.argv[1:]
    sys.stdout.write(json.dumps(looks(host, int(port), sys.stdin.read().strip(), int(count))))
