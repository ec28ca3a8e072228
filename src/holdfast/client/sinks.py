"""The sinks of an open folder: definitions, or functions of this very program."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct, structs

from holdfast.wire.sinks import (
    AnySink,
    FileSink,
    FunctionSink,
    HttpSink,
    PostgresSink,
    Sink,
    check_name,
)  # fmt: skip
from holdfast.worker.delivering import Deliverer
from holdfast.worker.functions import CannotName, reference
from holdfast.worker.places import own_place

Given = FileSink | HttpSink | FunctionSink | PostgresSink | Callable[[Any], Any]
"""What may be given under a name."""

HERE: Final = "here:"
"""Before the name of a sink: a function that only this program knows."""


class Sinks(Struct, frozen=True):
    """`functions` are those that need no name others could import, by their targets."""

    defined: Mapping[str, AnySink]
    functions: Mapping[str, Callable[..., Any]]
    executor: str

    def deliverer(self, wake: Callable[[], None], clock_ms: Callable[[], int]) -> Deliverer:
        """Whoever delivers here what this folder owes: where tasks have processes of their own,
        so have effects."""
        if self.executor == "threads":
            from holdfast.worker.delivering_threads import ThreadDeliverer

            return ThreadDeliverer(
                wake, clock_ms, functions=self.functions, own_places=(own_place(),)
            )
        from holdfast.worker.delivering_process import ProcessDeliverer

        return ProcessDeliverer(wake, clock_ms, own_places=(own_place(),))


def sinks_given(given: Mapping[str, Given] | None, executor: str) -> Sinks:
    """What was given to `open`, or `ValueError` and `TypeError` for what is no sink."""
    defined: dict[str, AnySink] = {}
    functions: dict[str, Callable[..., Any]] = {}
    for name, sink in (given or {}).items():
        if not isinstance(name, str):
            raise TypeError(f"sinks: {name!r} must be text")
        check_name(name)
        if isinstance(sink, FileSink):
            defined[name] = structs.replace(sink, path=os.path.abspath(sink.path))
        elif isinstance(sink, Sink) and not _is_live(sink):
            defined[name] = sink
        elif callable(sink) or isinstance(sink, FunctionSink):
            meant = sink if isinstance(sink, FunctionSink) else FunctionSink(sink)
            target = _target(name, meant.target, executor)
            functions[target] = meant.target
            defined[name] = structs.replace(meant, target=target)
        else:
            raise TypeError(
                f"sinks[{name!r}] must be a FileSink, HttpSink, FunctionSink or PostgresSink, or a "
                f"function; not {type(sink).__name__}"
            )
    return Sinks(defined, functions, executor)


def _is_live(sink: Sink) -> bool:
    """Whether it has a function, and not only the name of one."""
    return isinstance(sink, FunctionSink) and callable(sink.target)


def _target(name: str, function: Callable[..., Any], executor: str) -> str:
    if executor == "threads":
        return HERE + name
    try:
        return reference(function)
    except CannotName as error:
        raise CannotName(
            f"sinks[{name!r}] is called in another process, which must find it by name: {error}"
        ) from None
