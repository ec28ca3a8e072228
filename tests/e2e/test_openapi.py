"""The interface is what its document says: whatever is sent, no answer is a surprise."""

import json
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.errors import Unsatisfiable

from holdfast.wire.bodies import Command, Submit

ENDLESS = {"/api/v1/events", "/api/v1/watch", "/api/v1/watch/runtimes"}
"""Answers that do not end have tests of their own."""
KNOWN = {
    "id": "1", "job": "1", "index": "0", "name": "default", "stream": "none", "scope": "namespace",
}  # fmt: skip
"""What chance would never find: a job that is there, a task of it, a queue."""
CHECKS = (
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "negative_data_rejection",
)
EXAMPLES = 8
SEED = 20_260_301
ANSWER_S = 30.0


@pytest.mark.slow
@pytest.mark.parametrize("is_valid", [True, False], ids=["as documented", "otherwise"])
@pytest.mark.parametrize("is_known", [True, False], ids=["what is there", "anything"])
def test_every_route_answers_as_the_document_says(
    begin_server, is_valid: bool, is_known: bool
) -> None:
    import schemathesis

    server = begin_server()
    with closing(server.http()) as http:
        body = Submit(command=Command(argv=["true"]), count=3)
        assert http.post("/api/v1/jobs", body, dict)["id"] == KNOWN["id"]
        # Only what JSON can say is in the document.
        document = json.loads(json.dumps(http.get("/api/v1/openapi.json", dict)))
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=server.url)
    modes = schemathesis.GenerationMode
    asked = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path in ENDLESS:
            continue
        given_path = {} if not is_known else _named(operation.path)
        mode = modes.POSITIVE if is_valid else modes.NEGATIVE
        media = {"media_type": "application/json"} if operation.body else {}
        strategy = operation.as_strategy(mode, path_parameters=given_path or None, **media)
        try:
            _ask(strategy, server.token_file.read_text().strip())
            asked += 1
        except Unsatisfiable:
            # Nothing can be wrong about a request that takes nothing.
            assert not is_valid
    assert asked > len(document["paths"]) // 2


def _named(path: str) -> dict[str, str]:
    return {name: value for name, value in KNOWN.items() if f"{{{name}}}" in path}


def _ask(strategy: Any, token: str) -> None:
    from schemathesis import checks
    from schemathesis.specs.openapi import checks as document_checks

    wanted = [checks.not_a_server_error, *(getattr(document_checks, name) for name in CHECKS)]

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES, database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=strategy)
    def every(case: Any) -> None:
        headers = {"authorization": f"Bearer {token}"}
        case.call_and_validate(headers=headers, timeout=ANSWER_S, checks=wanted)

    every()
