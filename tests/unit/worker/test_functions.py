"""Every name leads back to the object it was given for, or is refused with advice."""

import functools
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast.worker.functions as functions
from holdfast.worker.functions import (
    CannotFind,
    CannotName,
    MissingGuard,
    loading_script,
    reference,
    resolve,
)


def double(n: int) -> int:
    return n * 2


class Holder:
    @staticmethod
    def halve(n: int) -> float:
        return n / 2

    def method(self) -> None: ...


class Decorated:
    """What the `task` decorator leaves in place of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__holdfast_function__ = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        return self.__holdfast_function__(*args)


@Decorated
def marked(n: int) -> int:
    return n + 1


replaced = double


def double_again(n: int) -> int:
    return n * 4


double_again.__qualname__ = "double"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Writes a program in a folder of its own; what it adds to the search path goes again."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def written(name: str, body: str) -> Path:
        path = tmp_path / name
        path.write_text(body)
        return path

    return written


@pytest.mark.parametrize("function", [double, Holder.halve, marked, len, int, Path.joinpath])
def test_a_name_leads_back_to_the_same_function(function: Callable[..., Any]) -> None:
    found = resolve(reference(function))
    assert found is getattr(function, "__holdfast_function__", function)


def test_a_decorated_task_resolves_to_the_plain_function_inside() -> None:
    assert resolve(reference(marked)) is marked.__holdfast_function__
    assert not isinstance(resolve(reference(marked)), Decorated)


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (lambda n: n, "lambda"),
        (functools.partial(double, 1), "functools.partial"),
        (Holder().method, "bound"),
        ([].append, "has no name"),
        (double_again, "something else"),
    ],
)
def test_what_has_no_name_is_refused_with_advice(function: Callable[..., Any], word: str) -> None:
    with pytest.raises(CannotName, match=word) as caught:
        reference(function)
    assert "pickle=True" in str(caught.value)


def test_a_local_function_is_refused() -> None:
    def local() -> None: ...

    with pytest.raises(CannotName, match="inside another function"):
        reference(local)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("nonsense", "module:function"),
        ("no_such_module_here:f", "No module named"),
        ("math:no_such_function", "has no no_such_function"),
        ("math:pi", "is a float"),
        ("script:/no/such/file.py:f", "No such file"),
    ],
)
def test_a_name_that_leads_nowhere_says_why(target: str, why: str) -> None:
    with pytest.raises(CannotFind, match=why) as caught:
        resolve(target)
    assert caught.value.target == target


def test_a_script_is_loaded_once_without_its_guarded_part(
    write: Callable[[str, str], Path],
) -> None:
    script = write(
        "once.py",
        "import sibling\nLOADS = sibling.LOADS\nLOADS.append(__name__)\n"
        "def first(): return LOADS\ndef second(): return LOADS\n"
        "if __name__ == '__main__': raise AssertionError('the guard was ignored')\n",
    )
    write("sibling.py", "LOADS = []\n")
    first = resolve(f"script:{script}:first")
    second = resolve(f"script:{script}:second")
    assert first() is second()
    assert len(first()) == 1
    assert reference(first) == f"script:{script}:first"


def test_lanes_that_need_a_script_at_once_share_one_load(
    write: Callable[[str, str], Path],
) -> None:
    names = [f"f{n}" for n in range(8)]
    # Loading takes a moment in which every other lane gets to look for its function.
    pause = "import threading\nthreading.Event().wait(0.02)\n"
    script = write("shared.py", pause + "".join(f"def {name}(): pass\n" for name in names))
    gate = threading.Barrier(len(names))
    found: list[Any] = []

    def look(name: str) -> None:
        gate.wait(60)
        found.append(resolve(f"script:{script}:{name}"))

    threads = [threading.Thread(target=look, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(function.__name__ for function in found) == names
    assert len({id(function.__globals__) for function in found}) == 1


def test_a_script_that_fails_to_load_can_be_tried_again(
    write: Callable[[str, str], Path],
) -> None:
    script = write("flawed.py", "raise ValueError('flawed')\n")
    with pytest.raises(CannotFind, match="ValueError: flawed"):
        resolve(f"script:{script}:f")
    # A file of another length, because bytecode is kept by time and size.
    write("flawed.py", "def f():\n    return 'mended at last'\n")
    assert resolve(f"script:{script}:f")() == "mended at last"


OPENS = (
    "from holdfast.worker.functions import MissingGuard, loading_script\n"
    "def f(): pass\n"
    "if loading_script():\n"
    "    {before}raise MissingGuard(loading_script()){after}\n"
)


@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), ("try: ", "\n    except Exception: raise SystemExit(3)")],
)
def test_a_script_that_opens_holdfast_while_loaded_lacks_a_guard(
    write: Callable[[str, str], Path], before: str, after: str
) -> None:
    script = write("unguarded.py", OPENS.format(before=before, after=after))
    with pytest.raises(MissingGuard, match="has no `if __name__ == '__main__':` guard") as caught:
        resolve(f"script:{script}:f")
    assert caught.value.where == str(script)
    assert loading_script() is None


def test_only_the_loading_thread_is_loading(write: Callable[[str, str], Path]) -> None:
    script = write(
        "asks.py",
        "import threading\nfrom holdfast.worker.functions import loading_script\n"
        "HERE = loading_script()\nTHERE = []\n"
        "t = threading.Thread(target=lambda: THERE.append(loading_script()))\n"
        "t.start(); t.join()\n"
        "def seen(): return HERE, THERE\n",
    )
    assert resolve(f"script:{script}:seen")() == (str(script), [None])


def test_a_module_named_script_is_not_a_script(
    write: Callable[[str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("script.py", "def f(): return 'module'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "script", raising=False)
    assert resolve("script:f")() == "module"


def run_program(*arguments: str, cwd: Path, stdin: str = "") -> str:
    """What a real program prints; it finds holdfast where this one does."""
    root = str(Path(functions.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        input=stdin,
        env={"PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


ASKS = (
    "from holdfast.worker.functions import CannotName, reference, resolve\n"
    "def f(): pass\n"
    "if __name__ == '__main__':\n"
    "    name = reference(f)\n"
    "    print(name, resolve(name) is f)\n"
)


def test_a_function_of_the_started_script_is_named_by_its_path(
    write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    script = write("started.py", ASKS)
    assert run_program("started.py", cwd=tmp_path) == f"script:{script}:f True"


def test_a_module_started_by_name_keeps_that_name(
    write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    write("started.py", ASKS)
    assert run_program("-m", "started", cwd=tmp_path) == "started:f True"


def test_a_function_of_an_interactive_session_is_refused(tmp_path: Path) -> None:
    session = ASKS.replace("    print", "    pass\n    print").replace(
        "    name = reference(f)\n    pass\n    print(name, resolve(name) is f)\n",
        "    try: reference(f)\n    except CannotName as error: print(error)\n",
    )
    assert "interactive session" in run_program("-", cwd=tmp_path, stdin=session)
