"""An answer that another thread is about to give."""

import threading
from typing import Generic, TypeVar, cast

T = TypeVar("T")


class Pending(Generic[T]):
    """One answer on its way from the coordinator's thread."""

    __slots__ = ("_error", "_lock", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._value: T | None = None
        self._error: Exception | None = None

    def succeed(self, value: T) -> None:
        self._value = value
        self._lock.release()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._lock.release()

    def get(self) -> T:
        self._lock.acquire()
        if self._error is not None:
            raise self._error
        return cast(T, self._value)
