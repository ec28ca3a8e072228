"""The function sink: called with an effect, and whatever it does is one delivery's affair."""

import pytest

from holdfast.testing.posting import a_delivery, delivered_to
from holdfast.wire.sinks import FunctionSink
from holdfast.worker.sinks.function import FunctionOutlet


def outlet_of(function):
    return FunctionOutlet(FunctionSink("here:it"), {"here:it": function})


def one(function, *deliveries):
    return delivered_to(outlet_of(function), *(deliveries or [a_delivery(1)]))


def test_it_is_called_with_the_effect():
    seen = []
    assert one(seen.append, a_delivery(1, {"a": 1}, key="k", tries=2)) == [None]
    (effect,) = seen
    assert (effect.id, effect.key, effect.body, effect.tries) == ("log:7/1:9:0", "k", {"a": 1}, 2)


def test_a_coroutine_is_run_to_its_end():
    seen = []

    async def send(effect):
        seen.append(effect.id)

    assert one(send) == [None]
    assert seen == ["log:7/1:9:0"]


def test_what_it_returns_is_of_no_interest():
    assert one(lambda effect: object()) == [None]


def test_a_generator_did_nothing():
    def send(effect):
        yield effect

    (bounced,) = one(send)
    assert bounced.is_final
    assert "is a generator" in bounced.error


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "told"),
    [(ValueError("no"), "ValueError: no"), (SystemExit(3), "SystemExit: 3"),
     (KeyboardInterrupt(), "KeyboardInterrupt"), (Unprintable(), "could not be read"),
     (ValueError("x" * 10_000), "bytes left out")],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_it_raises_is_told_and_tried_again(error, told):
    def send(effect):
        raise error

    (bounced,) = one(send)
    assert told in bounced.error
    assert len(bounced.error) < 2_000
    assert not bounced.is_final


def test_order_is_kept_within_a_key_and_not_beyond():
    seen = []

    def send(effect):
        seen.append(effect.body["n"])
        if effect.body["n"] == 1:
            raise ValueError

    some = [a_delivery(n, key="a" if n < 3 else "b") for n in range(5)]
    told = one(send, *some)
    assert seen == [0, 1, 3, 4]
    assert told[2].is_untried
    assert told[3] is told[4] is None


@pytest.mark.parametrize("target", ["nowhere_at_all:send", "json:no_such", "json:__doc__"])
def test_a_function_that_is_not_there_may_be_there_later(target):
    (bounced,) = delivered_to(FunctionOutlet(FunctionSink(target), {}), a_delivery(1))
    assert target in bounced.error
    assert not bounced.is_final


def test_one_that_can_be_imported_is_found_by_name():
    (bounced,) = delivered_to(FunctionOutlet(FunctionSink("json:loads"), {}), a_delivery(1))
    assert "must be str, bytes" in bounced.error
