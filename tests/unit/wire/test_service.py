"""A plan of a service: what it may say, and where its ports are put."""

import msgspec
import pytest
from msgspec import structs

from holdfast.wire.service import (
    BadPlan,
    Probe,
    ServicePlan,
    decode_plan,
    encode_plan,
    filled_in,
    plan_problem,
    variables_of,
)

PLAN = ServicePlan(argv=("serve", "$PORT"))
PROBE = Probe(kind="http")


def test_a_plan_comes_back_as_it_was_packed() -> None:
    plan = ServicePlan(
        argv=("serve", "${PORT}", "--admin=$PORT_ADMIN"), env={"B": "2", "A": "1"},
        ports=("http", "admin"), start=Probe(kind="exec", argv=("true",)), ready=PROBE,
        live=Probe(kind="tcp", port="admin"), metrics="/metrics", grace_ms=5,
        partitions=PROBE,
    )  # fmt: skip
    assert plan_problem(plan) == ""
    assert decode_plan(encode_plan(plan)) == plan
    other = structs.replace(plan, env={"A": "1", "B": "2"})
    assert encode_plan(other) == encode_plan(plan)


def test_a_field_from_a_later_version_is_passed_over() -> None:
    payload = msgspec.msgpack.encode({"argv": ["serve"], "tomorrow": 1})
    assert decode_plan(payload) == ServicePlan(argv=("serve",))


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (ServicePlan(argv=()), "argv: it names no program"),
        (ServicePlan(argv=("",)), "argv: it names no program"),
        (ServicePlan(argv=("a",), ports=("No",)),
         "ports: 'No' is no name; use small letters, digits and dashes"),
        (ServicePlan(argv=("a",), ports=("a-b", "a_b")), "ports: two have the same name"),
        (ServicePlan(argv=("a",), ports=("b", "b")), "ports: two have the same name"),
        (ServicePlan(argv=("a",), ports=tuple(f"p{n}" for n in range(17))),
         "ports: 17 are more than the 16 a replica may have"),
        (ServicePlan(argv=("a", "$PORT"), ports=()), "argv: $PORT is no port of this service"),
        (ServicePlan(argv=("a",), env={"AT": ":$PORT_X"}),
         "env.AT: $PORT_X is no port of this service"),
        (ServicePlan(argv=("a",), live=Probe(kind="exec", argv=("ask", "$PORT_X"))),
         "live.argv: $PORT_X is no port of this service"),
        (ServicePlan(argv=("a",), partitions=Probe(kind="tcp")),
         "partitions.kind: 'tcp' is not http"),
        (ServicePlan(argv=("a",), partitions=Probe(kind="http", path="x")),
         "partitions.path: 'x' is no path; it begins with a slash"),
        (ServicePlan(argv=("a",), ready=Probe(kind="ping")),
         "ready.kind: 'ping' is none of http, tcp, exec"),
        (ServicePlan(argv=("a",), ready=Probe(kind="exec")), "ready.argv: it names no program"),
        (ServicePlan(argv=("a",), ports=(), ready=PROBE),
         "ready.kind: a service without a port can be asked by exec alone"),
        (ServicePlan(argv=("a",), live=Probe(kind="tcp", port="x")),
         "live.port: the service has no port called 'x'"),
        (ServicePlan(argv=("a",), ready=Probe(kind="http", path="x")),
         "ready.path: 'x' is no path; it begins with a slash"),
        (ServicePlan(argv=("a",), ready=Probe(kind="http", path="/ HTTP/1.1\r\nX: y")),
         "ready.path: '/ HTTP/1.1\\r\\nX: y' is no path; it begins with a slash"),
        (ServicePlan(argv=("a",), ready=Probe(kind="tcp", period_ms=0)),
         "ready.period_ms: 0 is not from 1 to 86400000"),
        (ServicePlan(argv=("a",), ready=Probe(kind="tcp", failures=0)),
         "ready.failures: 0 is not from 1 to 1000"),
        (ServicePlan(argv=("a",), metrics="/m", metrics_port="x"),
         "metrics_port: the service has no port called 'x'"),
        (ServicePlan(argv=("a",), ports=(), metrics="/m"),
         "metrics: a service without a port cannot be scraped"),
        (ServicePlan(argv=("a",), metrics="m"),
         "metrics: 'm' is no path; it begins with a slash"),
        (ServicePlan(argv=("a",), grace_ms=-1), "grace_ms: -1 is not from 0 to 86400000"),
    ],
)  # fmt: skip
def test_a_bad_plan_is_told_by_its_field(plan: ServicePlan, problem: str) -> None:
    assert plan_problem(plan) == problem
    with pytest.raises(BadPlan) as no:
        decode_plan(encode_plan(plan))
    assert str(no.value) == problem


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\x81\xa4argv\x01"])
def test_what_is_no_plan_at_all_is_said_so(payload: bytes) -> None:
    with pytest.raises(BadPlan, match=r"^the payload is no plan of a service: "):
        decode_plan(payload)


def test_the_first_port_is_known_by_two_names() -> None:
    assert variables_of(("http", "my-admin")) == {
        "PORT": "http", "PORT_HTTP": "http", "PORT_MY_ADMIN": "my-admin",
    }  # fmt: skip
    assert variables_of(()) == {}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("$PORT", "81"),
        ("0.0.0.0:${PORT}/", "0.0.0.0:81/"),
        ("$PORT,$PORT_ADMIN", "81,82"),
        ("${PORT}0", "810"),
        ("$PORTS $port $HOME ${PORT $PORTa", "$PORTS $port $HOME ${PORT $PORTa"),
        ("$PORT_ADMINS", "$PORT_ADMINS"),
    ],
)
def test_ports_are_put_where_they_are_named_and_nothing_else_is_touched(
    text: str, filled: str
) -> None:
    assert filled_in(text, {"PORT": "81", "PORT_ADMIN": "82"}) == filled
