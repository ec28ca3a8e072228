"""Effects as calls of a Python function."""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holdfast.wire.delivery import Delivery, Parcel
from holdfast.wire.sinks import FunctionSink
from holdfast.worker.functions import resolve
from holdfast.worker.sinks.outlet import NotDelivered, Outcome, effect_of, one_by_one
from holdfast.worker.troubles import describe

Functions = Mapping[str, Callable[..., Any]]
"""Functions of this very program by their targets: they need no name that others could import."""


class FunctionOutlet:
    """What the function returns is of no interest; that it returned is."""

    def __init__(self, sink: FunctionSink, functions: Functions) -> None:
        self._target = sink.target
        self._functions = functions

    def deliver(self, parcel: Parcel) -> Iterator[Outcome]:
        return one_by_one(parcel.deliveries, self._call)

    def close(self) -> None:
        """Nothing is held."""

    def _call(self, delivery: Delivery) -> None:
        effect = effect_of(delivery)
        call(found(self._target, self._functions), effect)


def found(target: str, functions: Functions) -> Callable[..., Any]:
    """The function of a target. Not finding it is no fault of the effect: it may be there later."""
    known = functions.get(target)
    if known is not None:
        return known
    try:
        return resolve(target)
    except Exception as error:  # noqa: BLE001 - importing runs the user's code
        raise NotDelivered(describe(error).error) from None


def call(function: Callable[..., Any], *arguments: Any) -> None:
    """Run the user's code to its end; `NotDelivered` tells what it raised."""
    try:
        result = function(*arguments)
        if inspect.iscoroutine(result):
            asyncio.run(result)
    except BaseException as error:  # noqa: BLE001 - even SystemExit ends this delivery alone
        raise NotDelivered(describe(error).error) from None
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        name = getattr(function, "__qualname__", repr(function))
        raise NotDelivered(f"{name} is a generator: calling it does nothing", is_final=True)
