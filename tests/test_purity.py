"""The pure rooms answer from their arguments alone.

Replay must reach the same state on another machine, another day, under another hash seed. So
`core`, `scheduler` and `runtimes` own no clock, no dice and no disk, never let the order of a set
decide anything, and keep nothing between two calls. The rules are read from the source, and every
rule is itself tried on code that breaks it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "holdfast"
PURE_ROOMS = ("core", "scheduler", "runtimes")
PURE_FILES = sorted(path for room in PURE_ROOMS for path in (PACKAGE / room).rglob("*.py"))

WORLDLY_MODULES = {
    *("asyncio", "datetime", "logging", "os", "pathlib", "random", "secrets", "socket"),
    *("subprocess", "threading", "time", "uuid"),
}
# `hash` and `id` differ from one process to the next.
WORLDLY_CALLS = {"__import__", "breakpoint", "eval", "exec", "hash", "id", "input", "open", "print"}

SET_TYPES = {"set", "frozenset", "Set", "AbstractSet", "MutableSet", "FrozenSet"}
SET_METHODS = {"union", "intersection", "difference", "symmetric_difference", "copy"}
# What keeps the order it is given, and what does not care.
ORDER_KEEPERS = {"dict", "enumerate", "filter", "iter", "list", "map", "reversed", "tuple", "zip"}
ORDER_BLIND = {"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"}

TIME_NAME = re.compile(
    r"(^|_)(now|at|time|instant|deadline|timeout|delay|duration|elapsed|interval|backoff|age"
    r"|ms|millis|sec|secs|second|seconds|s)$"
)
SECONDS_NAME = re.compile(r"_(sec|secs|second|seconds)$")

MUTABLE_MAKERS = {
    *("bytearray", "Counter", "OrderedDict", "defaultdict", "deque", "dict", "list", "set"),
}
MUTATORS = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem"),
    *("popleft", "remove", "reverse", "setdefault", "sort", "update"),
}

# The calendar reckons in dates. It may not ask which one it is.
CALENDAR = PACKAGE / "scheduler" / "calendar.py"
CALENDAR_MODULES = {"datetime"}
CLOCK_READERS = {"now", "today", "utcnow"}

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef
Finding = tuple[int, str]


def name_of(node: ast.AST) -> str:
    """`x` for x, `.x` for anything.x, and nothing for the rest."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f".{node.attr}"
    return ""


def called(node: ast.AST) -> str:
    """The plain name of what is called, wherever it was imported from."""
    return name_of(node.func).lstrip(".") if isinstance(node, ast.Call) else ""


def worldly_imports(tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.partition(".")[0] in WORLDLY_MODULES:
                yield node.lineno, f"imports {name}: take what it would say as an argument"


def worldly_calls(tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) in WORLDLY_CALLS:
            yield node.lineno, f"calls {name_of(node.func)}(): leave that to the shell"


def is_set_annotation(node: ast.AST | None) -> bool:
    if isinstance(node, ast.Subscript):
        node = node.value
    return node is not None and name_of(node).lstrip(".") in SET_TYPES


def is_set(node: ast.AST | None, known: set[str]) -> bool:
    """Whether an expression is seen to be a set; what cannot be seen is left to the reader."""
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.BinOp) and isinstance(
        node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor
    ):
        return is_set(node.left, known) or is_set(node.right, known)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            return node.func.id in {"set", "frozenset"}
        if isinstance(node.func, ast.Attribute) and node.func.attr in SET_METHODS:
            return is_set(node.func.value, known)
    return node is not None and name_of(node) in known


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the functions inside it."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, AnyFunction):
            yield from own_nodes(child)


def names_of_sets(scope: ast.AST, known: set[str]) -> set[str]:
    found: set[str] = set(known)
    if isinstance(scope, AnyFunction):
        every = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
        found -= {arg.arg for arg in every}
        found |= {arg.arg for arg in every if is_set_annotation(arg.annotation)}
    for node in own_nodes(scope):
        if isinstance(node, ast.AnnAssign) and is_set_annotation(node.annotation):
            found.add(name_of(node.target))
        elif isinstance(node, ast.Assign) and is_set(node.value, found):
            found.update(name_of(target) for target in node.targets)
    return found - {""}


def fields_that_are_sets(tree: ast.Module) -> set[str]:
    """`.ready` where some class of the module declares `ready: set[…]`."""
    return {
        f".{name_of(node.target)}"
        for owner in ast.walk(tree)
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.AnnAssign) and is_set_annotation(node.annotation)
    }


def disorder_in(scope: ast.AST, known: set[str], blind: set[int]) -> Iterator[Finding]:
    known = names_of_sets(scope, known)
    for node in own_nodes(scope):
        walked: list[ast.expr] = []
        if isinstance(node, AnyFunction):
            yield from disorder_in(node, known, blind)
        elif isinstance(node, ast.For):
            walked = [node.iter]
        elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
            walked = [] if id(node) in blind else [part.iter for part in node.generators]
        elif isinstance(node, ast.Starred):
            walked = [] if id(node) in blind else [node.value]
        elif isinstance(node, ast.YieldFrom):
            walked = [node.value]
        elif called(node) in ORDER_KEEPERS | {"join"} and isinstance(node, ast.Call):
            walked = [] if id(node) in blind else node.args
        elif called(node) == "pop" and isinstance(node, ast.Call) and not node.args:
            walked = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        for expression in walked:
            if is_set(expression, known):
                yield expression.lineno, "lets the order of a set decide: put sorted() around it"


def unordered_iteration(tree: ast.Module) -> Iterator[Finding]:
    # A walk inside sorted(), any() or a set display cannot let its order out.
    blind: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) in ORDER_BLIND:
            blind.update(id(argument) for argument in node.args)
        elif isinstance(node, ast.Set):
            blind.update(id(element) for element in node.elts)
    yield from disorder_in(tree, fields_that_are_sets(tree), blind)


def is_float(annotation: ast.AST | None) -> bool:
    return annotation is not None and any(
        isinstance(node, ast.Name) and node.id == "float" for node in ast.walk(annotation)
    )


def float_time(tree: ast.Module) -> Iterator[Finding]:
    instead = "an instant is `_at`, a duration `_ms`, both whole milliseconds"
    for node in ast.walk(tree):
        name, annotation = "", None
        if isinstance(node, ast.arg):
            name, annotation = node.arg, node.annotation
        elif isinstance(node, ast.AnnAssign):
            name, annotation = name_of(node.target).lstrip("."), node.annotation
        elif isinstance(node, AnyFunction):
            name, annotation = node.name, node.returns
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        if SECONDS_NAME.search(name) or (TIME_NAME.search(name) and is_float(annotation)):
            yield node.lineno, f"keeps time in {name}: {instead}"


def is_mutable(value: ast.AST | None) -> bool:
    displays = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
    return isinstance(value, displays) or (value is not None and called(value) in MUTABLE_MAKERS)


def mutable_globals(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and is_mutable(node.value):
            found.update(name_of(target) for target in node.targets)
        elif isinstance(node, ast.AnnAssign) and is_mutable(node.value):
            found.add(name_of(node.target))
    return found - {""}


def local_names(function: AnyFunction) -> set[str]:
    stored = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    augmented = {
        name_of(node.target) for node in ast.walk(function) if isinstance(node, ast.AugAssign)
    }
    arguments = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    return (stored - augmented) | arguments


def memory_between_calls(tree: ast.Module) -> Iterator[Finding]:
    shared = mutable_globals(tree)
    for function in (node for node in ast.walk(tree) if isinstance(node, AnyFunction)):
        visible = shared - local_names(function)
        for node in ast.walk(function):
            touched = ""
            if isinstance(node, ast.Global):
                yield node.lineno, f"says global {node.names[0]}: keep it in an object passed in"
            elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                touched = name_of(node.value)
            elif isinstance(node, ast.AugAssign):
                touched = name_of(node.target)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                touched = name_of(node.func.value) if node.func.attr in MUTATORS else ""
            if touched in visible:
                yield node.lineno, f"changes {touched}: keep it in an object passed in"


def clock_readings(tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func).lstrip(".") in CLOCK_READERS:
            yield node.lineno, f"calls {called(node)}(): take the moment as an argument"


RULES = (worldly_imports, worldly_calls, unordered_iteration, float_time, memory_between_calls)


def findings_in(source: str) -> list[Finding]:
    tree = ast.parse(source)
    return sorted({finding for rule in RULES for finding in rule(tree)})


def findings_of(path: Path) -> list[Finding]:
    source = path.read_text(encoding="utf-8")
    if path != CALENDAR:
        return findings_in(source)
    allowed = {f"imports {name}: " for name in CALENDAR_MODULES}
    kept = [f for f in findings_in(source) if not f[1].startswith(tuple(allowed))]
    return sorted([*kept, *clock_readings(ast.parse(source))])


def test_the_calendar_may_not_ask_what_day_it_is() -> None:
    assert list(clock_readings(ast.parse("x = datetime.now(UTC)")))
    assert list(clock_readings(ast.parse("x = date.today()")))


def test_there_are_pure_rooms_to_judge() -> None:
    rooms = {path.relative_to(PACKAGE).parts[0] for path in PURE_FILES}
    assert rooms == set(PURE_ROOMS)


@pytest.mark.parametrize("path", PURE_FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_pure_module_answers_from_its_arguments_alone(path: Path) -> None:
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{line} {what}"
        for line, what in findings_of(path)
    ]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.parametrize(
    "source",
    [
        *(f"import {module}" for module in sorted(WORLDLY_MODULES)),
        "from os.path import join",
        "def f():\n    from time import monotonic",
        *(f"{name}(x)" for name in sorted(WORLDLY_CALLS)),
        "for x in {1, 2}: pass",
        "for x in set(y): pass",
        "for x in frozenset(y) - z: pass",
        "for x in {a for a in b}: pass",
        "y = [x for x in set(z)]",
        "y = {x: 1 for x in set(z)}",
        "y = list(set(z))",
        "y = [*set(z)]",
        "y = ','.join(set(z))",
        "y = next(iter({1, 2}))",
        "for i, x in enumerate(set(z)): pass",
        "def f(ready: set[int]):\n    for x in ready: pass",
        "def f(ready: set[int]):\n    return ready.pop()",
        "def f(ready: frozenset[int]):\n    yield from ready",
        "def f():\n    seen = set()\n    for x in seen.union(z): pass",
        "class A:\n    ready: set[int]\n    def f(self):\n        for x in self.ready: pass",
        "def f(now: float): pass",
        "def f(*, expires_at: float | None): pass",
        "class A:\n    lease_ms: float",
        "def elapsed() -> float: ...",
        "lease_seconds = 3",
        "SEEN = []\ndef f(x):\n    SEEN.append(x)",
        "SEEN = {}\ndef f(x):\n    SEEN[x] = 1",
        "SEEN: dict[int, int] = dict()\ndef f(x):\n    del SEEN[x]",
        "SEEN = []\ndef f(x):\n    global SEEN\n    SEEN += x",
        "from collections import deque\nQ = deque()\ndef f():\n    return Q.popleft()",
    ],
)
def test_impure_code_is_found(source: str) -> None:
    assert findings_in(source), source


@pytest.mark.parametrize(
    "source",
    [
        "from collections.abc import Mapping",
        "import msgspec",
        "state.open(x)",
        "for x in sorted(set(y)): pass",
        "y = sorted(x.name for x in {1, 2})",
        "y = any(x for x in set(z))",
        "y = {x for x in set(z)}",
        "y = x in {1, 2}",
        "y = sorted([*a, *b])",
        "def f(ready: list[int]):\n    for x in ready: pass",
        "def f(ready: set[int]): ...\ndef g(ready: list[int]):\n    for x in ready: pass",
        "def f(ready: dict[int, int]):\n    return ready.pop(1)",
        "def f(now: int, share: float): pass",
        "TABLE = {1: 2}\ndef f(x):\n    return TABLE[x]",
        "TABLE = {}\nTABLE[1] = 2",
        "SEEN = []\ndef f(SEEN):\n    SEEN.append(1)",
        "def f(self, x):\n    self.seen.append(x)",
    ],
)
def test_pure_code_is_left_alone(source: str) -> None:
    assert findings_in(source) == []
