"""A function's name: how a task says which function to run, and how a worker finds it.

A task outlives the program that submitted it, so it carries a name, never code:

    module:qualname                 a function that can be imported
    script:/path/to/file.py:name    a function of the script that was started

A name is given only when it leads back to the very same object. Whatever has no such name (a
lambda, a closure, a method of one object) is refused where the user can still change it.
"""

import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Final

SCRIPT_PREFIX: Final = "script:"
SCRIPT_MODULE_PREFIX: Final = "__holdfast_script__"
STARTED_MODULES: Final = ("__main__", "__mp_main__")
REMEDY: Final = "Move it to module level, or submit it with pickle=True."

# What this thread is loading in order to find a function in it, if anything.
_LOADING: Final[ContextVar[str | None]] = ContextVar("holdfast_loading", default=None)

# Two lanes that need the same script must not run its body twice.
_SCRIPTS: Final = threading.RLock()


class CannotName(ValueError):
    """A function that no other process could find by name."""


class CannotFind(LookupError):
    """A name that leads to no function here."""

    def __init__(self, target: str, why: str) -> None:
        super().__init__(f"cannot find {target!r}: {why}")
        self.target = target
        self.why = why


class MissingGuard(RuntimeError):
    """A program that opens Holdfast whenever it is loaded, and so would start itself for ever."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where} has no `if __name__ == '__main__':` guard: it calls holdfast.open() while "
            "a worker loads it to find its functions. Put the code that opens Holdfast under "
            "that guard."
        )
        self.where = where

    @classmethod
    def told(cls, text: str) -> "MissingGuard":
        """The same trouble, as another process told it."""
        error = cls("")
        error.args = (text,)
        return error


def loading_script() -> str | None:
    """The script or module this thread is loading to find a function in it, or None.

    Whoever would start workers must ask first: a program without a guard runs its whole body
    when a worker loads it, and would start workers that load it again. The answer holds for the
    thread that loads; threads which the loaded body starts are not seen.
    """
    return _LOADING.get()


def plain(function: Any) -> Any:
    """The user's own function inside a decorated task; anything else as it is.

    A method bound to an object hands on what its function has, and yet is not that function.
    """
    if inspect.ismethod(function):
        return function
    return getattr(function, "__holdfast_function__", function)


def reference(function: Callable[..., Any]) -> str:
    """The name under which every worker will find this function, or `CannotName`."""
    inner = plain(function)
    _refuse_the_nameless(inner)
    module_name, qualname = inner.__module__, inner.__qualname__
    module = sys.modules.get(module_name)
    if module is None:
        raise CannotName(f"{_shown(inner)} belongs to no loaded module. {REMEDY}")
    if plain(_walk(module, qualname)) is not inner:
        raise CannotName(
            f"{module_name}.{qualname} is not {_shown(inner)}: the name leads to something else, "
            f"so a worker would run the wrong code. {REMEDY}"
        )
    return f"{_place(module, inner)}:{qualname}"


@functools.cache
def resolve(target: str) -> Callable[..., Any]:
    """The function a name stands for: found once, remembered for the life of the process.

    Finding it may import a module or load a script, and so run the user's code. Raises
    `CannotFind` when that leads nowhere, `MissingGuard` when the code tries to open Holdfast.
    """
    place, colon, qualname = target.rpartition(":")
    if not colon or not place or not qualname:
        raise CannotFind(target, "a name has the form module:function")
    try:
        module = _module_at(place)
    except (Exception, SystemExit) as error:
        guard = _guard_behind(error)
        if guard is not None:
            raise guard from None
        raise CannotFind(target, _why(error)) from error
    found = plain(_walk(module, qualname))
    if found is None:
        raise CannotFind(target, f"{place} has no {qualname}")
    if not callable(found):
        raise CannotFind(target, f"{qualname} is a {type(found).__name__}, not a function")
    result: Callable[..., Any] = found
    return result


def _refuse_the_nameless(function: Any) -> None:
    shown = _shown(function)
    if isinstance(function, functools.partial):
        raise CannotName(
            f"{shown} is a functools.partial, which has no name. Submit the function itself with "
            "those arguments, or use pickle=True."
        )
    if inspect.ismethod(function):
        raise CannotName(f"{shown} is a method bound to one object. {REMEDY}")
    qualname = getattr(function, "__qualname__", None)
    if not isinstance(qualname, str) or not isinstance(getattr(function, "__module__", None), str):
        raise CannotName(f"{shown} has no name that a worker could import. {REMEDY}")
    if "<lambda>" in qualname:
        raise CannotName(f"{shown} is a lambda, which has no name. {REMEDY}")
    if "<locals>" in qualname:
        raise CannotName(f"{shown} is defined inside another function. {REMEDY}")


def _place(module: ModuleType, function: Any) -> str:
    """Where a worker must look: the module's name, or the path of the script."""
    name = module.__name__
    if name in STARTED_MODULES or name.startswith(SCRIPT_MODULE_PREFIX):
        return _place_of_program(module, function)
    if getattr(module, "__spec__", None) is None:
        raise CannotName(f"{_shown(function)}: module {name} cannot be imported. {REMEDY}")
    return name


def _place_of_program(module: ModuleType, function: Any) -> str:
    spec = getattr(module, "__spec__", None)
    own_name = "" if spec is None else str(spec.name)
    if own_name and not own_name.startswith((*STARTED_MODULES, SCRIPT_MODULE_PREFIX)):
        # Started with `python -m`: the module has a proper name besides `__main__`.
        return own_name
    path = getattr(module, "__file__", None)
    if not isinstance(path, str) or not os.path.isfile(path):
        raise CannotName(
            f"{_shown(function)} was defined in an interactive session, where no worker can find "
            "it. Put it in a file, or submit it with pickle=True."
        )
    return f"{SCRIPT_PREFIX}{os.path.abspath(path)}"


def _module_at(place: str) -> ModuleType:
    # A script's place has a colon of its own, so a module called `script` is no script.
    if place.startswith(SCRIPT_PREFIX):
        return _script(place.removeprefix(SCRIPT_PREFIX))
    started = sys.modules.get("__main__")
    spec = getattr(started, "__spec__", None)
    if started is not None and spec is not None and spec.name == place:
        return started
    with _loading(place):
        return importlib.import_module(place)


def _script(path: str) -> ModuleType:
    """The module of a script: the running program itself, or the file loaded beside it.

    It is not loaded as `__main__`, so that what stands under the guard stays out.
    """
    real = os.path.realpath(path)
    started = sys.modules.get("__main__")
    started_path = getattr(started, "__file__", None)
    if started is not None and started_path and os.path.realpath(started_path) == real:
        return started
    digest = hashlib.blake2s(os.fsencode(real), digest_size=6).hexdigest()
    stem = os.path.splitext(os.path.basename(real))[0]
    name = f"{SCRIPT_MODULE_PREFIX}{stem}_{digest}"
    with _SCRIPTS:
        loaded = sys.modules.get(name)
        return loaded if loaded is not None else _load(name, path, real)


def _load(name: str, path: str, real: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    folder = os.path.dirname(real)
    if folder not in sys.path:
        # The script finds its neighbours as it would when started by hand.
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _loading(path):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _loading(place: str) -> Iterator[None]:
    token = _LOADING.set(place)
    try:
        yield
    finally:
        _LOADING.reset(token)


def _walk(module: ModuleType, qualname: str) -> Any:
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def _guard_behind(error: BaseException) -> MissingGuard | None:
    """The missing guard that made loading fail, even where the script dressed it up."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        if isinstance(current, MissingGuard):
            return current
        seen.add(id(current))
        current = current.__cause__ or current.__context__
    return None


def _why(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"the program exited ({error.code}) while it was loaded; it needs a guard"
    return f"{type(error).__name__}: {error}"


def _shown(function: Any) -> str:
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else repr(function)[:200]
