"""A served runtime whose analyzer is a Prometheus server: asked over HTTP, and missed when away."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import holdfast
from holdfast.testing.fleet import wait_until
from holdfast.testing.loopback import ServerProcess

ANSWER = b'{"status":"success","data":{"resultType":"scalar","result":[1.0,"6.5"]}}'


@contextmanager
def prometheus(asked: list[str]) -> Iterator[str]:
    class Prometheus(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            asked.append(f"{address.path} {parse_qs(address.query)['query'][0]}")
            self.send_response(200)
            self.send_header("content-length", str(len(ANSWER)))
            self.end_headers()
            self.wfile.write(ANSWER)

        def log_message(self, *_: object) -> None:
            """Tests print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Prometheus)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def manifest(url: str) -> dict[str, Any]:
    queries = {"replicas": 'sum(rate(x{r="$runtime",f="$function"}[1m]))'}
    analyzer = {"prometheus": {"url": url, "queries": queries}}
    return {
        "apiVersion": "oaas.io/v1alpha1",
        "kind": "ClassRuntime",
        "metadata": {"name": "greeter"},
        "spec": {
            "template": "dev",
            "functions": [{"key": "hello", "command": ["true"]}],
            "nfr": {"mode": "observe", "analyzer": analyzer},
        },
    }


@pytest.mark.slow
def test_what_prometheus_says_is_recommended_and_what_it_cannot_say_is_told(tmp_path: Path) -> None:
    asked: list[str] = []
    with (
        ServerProcess(tmp_path / "served") as server,
        holdfast.connect(server.url, token_file=server.token_file) as hf,
    ):

        def recommended() -> dict[str, Any]:
            found = hf.runtimes.get("greeter")
            return dict(found["status"].get("nfr_recommendations", {}))

        with prometheus(asked) as url:
            # Nobody is there to run it: what is on its way is observed all the same.
            hf.runtimes.apply(manifest(url))
            wait_until(lambda: "replicas/hello" in recommended())
        assert asked[0] == '/api/v1/query sum(rate(x{r="greeter",f="hello"}[1m]))'
        found = recommended()["replicas/hello"]
        assert (found["value"], found["basis"]) == (7, "prometheus")
        wait_until(
            lambda: "AnalyzerFailed" in {e["reason"] for e in hf.runtimes.events("greeter")},
            what="nobody says that Prometheus is gone",
        )
        # Nothing takes away what was recommended; it grows old.
        assert recommended()["replicas/hello"]["value"] == 7
