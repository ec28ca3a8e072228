"""The documents say what is true: their links lead somewhere, what they name exists.

The commands and programs of the README are run by `tests/e2e/test_readme.py`.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "holdfast"
DOCS = ROOT / "docs"
README = ROOT / "README.md"
REQUIREMENTS = DOCS / "requirements.md"
FAILURES = sorted((DOCS / "failures").glob("FM-*.md"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), ROOT / "tests" / "README.md"])

LINES_ASKED = {"000": 71, "001": 99, "002": 173, "003": 52, "004": 56}
CAPABILITIES = ("Kubernetes",)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def links_of(text: str) -> list[str]:
    found = re.findall(r"\]\(([^)\s]+)\)", text)
    return [link for link in found if not link.startswith(("http:", "https:", "mailto:"))]


def anchors_of(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.fixture(scope="module")
def places() -> dict[str, set[str]]:
    """The names of all tests, by file. Read as text: parsing them all would take longer."""
    return {
        name_of(path): set(
            re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
        )
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
    }


def rows() -> list[list[str]]:
    """The rows of the requirements, cell by cell: number, words, place, tests, state."""
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if re.match(r"\| \d{3}\.\d", line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found]


def python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_there_are_documents_to_judge() -> None:
    assert README in DOCUMENTS
    assert len(FAILURES) >= 8
    assert len(list((DOCS / "decisions").glob("0*.md"))) >= 12


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_link_leads_somewhere(document: Path) -> None:
    broken = []
    for link in links_of(document.read_text(encoding="utf-8")):
        place, _, anchor = link.partition("#")
        target = (document.parent / place).resolve() if place else document
        found = target.exists()
        if found and anchor and target.suffix == ".md":
            found = anchor in anchors_of(target.read_text(encoding="utf-8"))
        if not found:
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_file_a_document_names_is_there(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    named = re.findall(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|json|md|txt))(?:::\w+)?`", text)
    missing = [
        place
        for place in named
        if "NAME" not in place
        if not any((home / place).exists() for home in (ROOT, PACKAGE, DOCS, document.parent))
    ]
    assert not missing


@pytest.mark.parametrize("document", [REQUIREMENTS, *FAILURES], ids=name_of)
def test_every_test_a_document_names_exists(
    document: Path, places: dict[str, set[str]]
) -> None:
    known = set().union(*places.values())
    named = set(re.findall(r"`(test_\w+)`", document.read_text(encoding="utf-8")))
    assert named
    assert named <= known


@pytest.mark.parametrize("document", FAILURES, ids=name_of)
def test_every_failure_names_tests_where_they_are(
    document: Path, places: dict[str, set[str]]
) -> None:
    text = document.read_text(encoding="utf-8")
    listed = re.findall(r"^- `(test_\w+)` in `([\w/.]+)`$", text, flags=re.MULTILINE)
    assert listed
    assert [pair for pair in listed if pair[0] not in places.get(pair[1], set())] == []


@pytest.mark.parametrize("folder", ["decisions", "failures"])
def test_every_page_is_in_the_list_of_its_folder(folder: str) -> None:
    listed = set(links_of((DOCS / folder / "README.md").read_text(encoding="utf-8")))
    pages = {path.name for path in (DOCS / folder).glob("*.md")} - {"README.md"}
    assert listed == pages


def test_every_line_asked_for_has_exactly_one_row() -> None:
    asked = [f"{doc}.{line}" for doc, last in LINES_ASKED.items() for line in range(1, last + 1)]
    assert [row[0] for row in rows()] == asked


def test_every_row_says_whether_it_is_done_and_shows_it() -> None:
    states = ["done", *(f"later: {capability}" for capability in CAPABILITIES)]
    wrong = [
        number
        for number, words, place, tests, state in rows()
        if state not in states
        or not words
        or (state == "done" and ("`test_" not in tests or "`" not in place))
    ]
    assert not wrong


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_the_python_in_a_document_compiles(document: Path) -> None:
    blocks = python_blocks(document.read_text(encoding="utf-8"))
    if document == README:
        assert len(blocks) >= 3
    for block in blocks:
        # A row of a table is shown without the dict around it.
        source = block if not block.startswith("TaskState.") else f"table = {{\n{block}}}"
        compile(source, name_of(document), "exec")
