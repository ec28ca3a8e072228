"""The rules of the house about form. Each failure says what to do instead."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"
PACKAGE = SRC / "holdfast"

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
LINE_COLUMNS_MAX = 100

# The only files that live beside the rooms, and the only families one level below them.
TOP_FILES = {"__init__.py", "__init__.pyi", "__main__.py", "errors.py", "version.py"}
FAMILIES = {
    *("cli/benchmarks", "coordinator/reconciling", "core/decide", "runtimes/templates"),
    *("testing/rehearsal", "testing/sim", "worker/sinks"),
}

EMPTY_MODULE_NAMES = {
    *("base", "common", "helper", "helpers", "misc", "shared", "util", "utils"),
}
EMPTY_CLASS_WORDS = {
    *("Base", "Data", "Handler", "Handlers", "Info", "Manager", "Managers", "Util", "Utils"),
}

# One letter of each word stands in brackets, so that this file passes its own test.
SPEAK_OF_THE_WORK = "the project speaks of itself, not of who made it"
UNWELCOME_TEXT = {
    r"\bTOD[O]\b": "do it now, or leave it out",
    r"\bFIXM[E]\b": "fix it now, or write down the limit in the docstring",
    r"\bHAC[K]\b": "say why the code is as it is",
    r"\.\./share[d]": "say it here; the project refers only to itself",
    r"/(wor[k]|roo[t])/": "use a path relative to the repository",
    r"/(hom[e]|User[s])/[a-z]\w*/": "use a path relative to the repository",
    r"(?i)\bco-authored-b[y]\b": SPEAK_OF_THE_WORK,
    r"(?i)\bauthored b[y]\b": SPEAK_OF_THE_WORK,
    r"(?i)\b(as an|written by an?) A[I]\b": SPEAK_OF_THE_WORK,
    r"(?i)\bAI-generate[d]\b": SPEAK_OF_THE_WORK,
}

# Where the name to install and the name to import differ.
IMPORT_NAMES: dict[str, str] = {"PyYAML": "yaml"}

SOURCES = sorted(PACKAGE.rglob("*.py"))
PYTHON_FILES = sorted([*SRC.rglob("*.py"), *SRC.rglob("*.pyi"), *ROOT.glob("tests/**/*.py")])


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def at(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def fail_if_any(findings: Iterable[str], instead: str) -> None:
    found = list(findings)
    if found:
        pytest.fail("\n".join([*found, f"Instead: {instead}."]), pytrace=False)


def functions_in(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def words_of(class_name: str) -> list[str]:
    """`HTTPDatabaseInfo` is HTTP, Database, Info: a word is judged whole, never a part of it."""
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", class_name)


def text_files() -> list[Path]:
    """Every file of the project that git knows or would be told of, and that holds text."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    paths = [ROOT / name for name in listing.decode().split("\0") if name]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()]


def unwelcome_in(text: str) -> Iterator[tuple[int, str, str]]:
    """The line, the word, and what to do about it."""
    for number, line in enumerate(text.splitlines(), start=1):
        for pattern, instead in UNWELCOME_TEXT.items():
            if match := re.search(pattern, line):
                yield number, match.group(), instead


def calls_of(name: str, tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def imported_roots(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module.partition(".")[0]


def foreign_imports() -> set[str]:
    every = {root for path in SOURCES for root in imported_roots(tree_of(path))}
    return every - set(sys.stdlib_module_names) - {"holdfast"}


def declared_imports() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {**project["optional-dependencies"], "dev": []}
    lines = chain(project["dependencies"], *extras.values())
    names = [re.split(r"[\s\[<>=!~;]", line, maxsplit=1)[0] for line in lines]
    return {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names}


def test_there_is_source_to_judge() -> None:
    assert PACKAGE / "__init__.py" in SOURCES
    assert PACKAGE / "__init__.py" in text_files()


def test_no_module_is_too_long_to_hold_in_mind() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in PYTHON_FILES}
    fail_if_any(
        (f"{at(path, n)} has {n} lines" for path, n in lengths.items() if n > MODULE_LINES_MAX),
        f"split it by subject into modules of at most {MODULE_LINES_MAX} lines",
    )


def test_no_function_is_longer_than_a_screen() -> None:
    fail_if_any(
        (
            f"{at(path, node.lineno)} {node.name} has {length} lines"
            for path in PYTHON_FILES
            for node in functions_in(tree_of(path))
            if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
        ),
        f"name its steps and make them functions of at most {FUNCTION_LINES_MAX} lines",
    )


def test_no_line_is_wider_than_the_page() -> None:
    fail_if_any(
        (
            f"{at(path, number)} has {len(line)} columns"
            for path in PYTHON_FILES
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
            if len(line) > LINE_COLUMNS_MAX
        ),
        f"break it, or name a part of it; {LINE_COLUMNS_MAX} columns are the page",
    )


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    fail_if_any(
        (
            at(path, 1)
            for path in PYTHON_FILES
            if {path.stem, path.parent.name} & EMPTY_MODULE_NAMES
        ),
        "name the module after its subject, or put the function beside its only caller",
    )


def test_no_class_has_a_name_that_says_nothing() -> None:
    fail_if_any(
        (
            f"{at(path, node.lineno)} class {node.name}"
            for path in PYTHON_FILES
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.ClassDef) and EMPTY_CLASS_WORDS & set(words_of(node.name))
        ),
        "name what it is in the words of GLOSSARY.md, or what it does as a verb in a function",
    )


def test_every_module_lives_in_a_room() -> None:
    def is_housed(path: Path) -> bool:
        *folders, name = path.relative_to(PACKAGE).parts
        if not folders:
            return name in TOP_FILES
        return len(folders) == 1 or "/".join(folders) in FAMILIES

    fail_if_any(
        (
            at(path, 1)
            for path in PYTHON_FILES
            if path.is_relative_to(PACKAGE) and not is_housed(path)
        ),
        "move it to holdfast/<room>/<file>.py; a family behind one Protocol is listed in FAMILIES",
    )


def test_every_package_has_a_door() -> None:
    fail_if_any(
        sorted({at(path, 1) for path in SOURCES if not path.with_name("__init__.py").exists()}),
        "add an __init__.py with a docstring that says what the package promises",
    )


def test_every_module_says_what_it_promises() -> None:
    fail_if_any(
        (at(path, 1) for path in SOURCES if not ast.get_docstring(tree_of(path))),
        "open it with a docstring: the promise, then why, then limits",
    )


def test_every_public_class_of_the_core_says_what_it_promises() -> None:
    fail_if_any(
        (
            f"{at(path, node.lineno)} class {node.name}"
            for path in sorted((PACKAGE / "core").rglob("*.py"))
            for node in tree_of(path).body
            if isinstance(node, ast.ClassDef)
            if not node.name.startswith("_") and not ast.get_docstring(node)
        ),
        "say in its docstring what is true when one exists",
    )


def test_the_project_speaks_of_itself_alone() -> None:
    fail_if_any(
        (
            f"{at(path, number)} says {word!r}: {instead}"
            for path in text_files()
            for number, word, instead in unwelcome_in(
                path.read_text(encoding="utf-8", errors="replace")
            )
        ),
        "do what stands behind each line",
    )


def test_only_the_command_line_prints() -> None:
    fail_if_any(
        (
            at(path, call.lineno)
            for path in SOURCES
            if PACKAGE / "cli" not in path.parents
            for call in calls_of("print", tree_of(path))
        ),
        "return the text, or log a constant message with fields",
    )


def test_no_source_relies_on_assert() -> None:
    fail_if_any(
        (
            at(path, node.lineno)
            for path in SOURCES
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.Assert)
        ),
        "raise BrokenInvariant; `python -O` removes every assert",
    )


def test_no_import_hides_behind_type_checking() -> None:
    hidden = "TYPE" + "_CHECKING"
    fail_if_any(
        (
            at(path, node.lineno)
            for path in SOURCES
            for node in ast.walk(tree_of(path))
            if (isinstance(node, ast.Name) and node.id == hidden)
            or (isinstance(node, ast.Attribute) and node.attr == hidden)
        ),
        "move the shared type to a lower room, or pass a Protocol in",
    )


def test_every_import_from_outside_is_declared() -> None:
    fail_if_any(
        sorted(foreign_imports() - declared_imports()),
        "add it to dependencies in pyproject.toml with a page in docs/decisions, or do without",
    )


def test_every_declared_dependency_is_imported() -> None:
    fail_if_any(
        sorted(declared_imports() - foreign_imports()),
        "take it out of dependencies in pyproject.toml; users install what they do not need",
    )


def test_type_checkers_and_programs_see_the_same_public_names() -> None:
    import holdfast

    stub = tree_of(PACKAGE / "__init__.pyi")
    sources = {
        alias.asname: (node.module, alias.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    expected = {
        name: (module, attribute) if attribute else tuple(module.rsplit(".", 1))
        for name, (module, attribute) in holdfast.PUBLIC.items()  # type: ignore[attr-defined]
    }
    assert sources == expected
    (listed,) = (
        ast.literal_eval(node.value)
        for node in stub.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    assert listed == holdfast.__all__


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Database", ["Database"]),
        ("LogInfo", ["Log", "Info"]),
        ("HTTPHandler", ["HTTP", "Handler"]),
        ("Task2Data", ["Task", "2", "Data"]),
        ("_BaseLog", ["Base", "Log"]),
    ],
)
def test_a_class_name_is_judged_by_whole_words(name: str, words: list[str]) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize(
    "line",
    [
        "# TO" + "DO later",
        "see ../sha" + "red/notes.md",
        'open("/wo' + 'rk/main/x")',
        "Co-Auth" + "ored-By: somebody",
        "cd /home/so" + "mebody/x",
    ],
)
def test_unwelcome_text_is_found_wherever_it_stands(line: str) -> None:
    assert [number for number, _, _ in unwelcome_in(f"first\n{line}\n")] == [2]


@pytest.mark.parametrize("line", ["a network/path", "homework/x", "TODOS are none", "/homes/x/y"])
def test_innocent_text_is_left_alone(line: str) -> None:
    assert list(unwelcome_in(line)) == []
