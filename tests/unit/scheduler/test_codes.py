"""Every reason that can be given is in the table, and the table is on the page for people."""

import re
from pathlib import Path

from holdfast.core.task import TaskState
from holdfast.scheduler.codes import CODES
from holdfast.scheduler.desks import STANDINGS
from holdfast.scheduler.ledger import KEY, NAMESPACE, USER

ROOT = Path(__file__).parents[3]
ROOM = ROOT / "src" / "holdfast" / "scheduler"


def written() -> set[str]:
    """The codes that stand in the source, and those that it puts together."""
    text = "".join(file.read_text() for file in sorted(ROOM.glob("*.py")))
    plain = set(re.findall(r'code="([a-z_]+)"', text))
    bounds = {f"{kind}_{scope}" for kind in ("limit", "rate") for scope in (NAMESPACE, USER, KEY)}
    assert {'f"limit_{scope}"', 'f"rate_{scope}"'} <= set(re.findall(r'f"[a-z]+_\{scope\}"', text))
    return plain | bounds | {code for _, code, _ in STANDINGS}


def test_the_table_has_every_code_that_can_be_given_and_no_other() -> None:
    assert written() == set(CODES)


def test_the_page_tells_of_every_code_what_it_means_and_what_helps() -> None:
    page = (ROOT / "docs" / "reasons.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.+) \|$", page, re.MULTILINE))
    assert rows == {code: f"{told.means} | {told.cure}" for code, told in CODES.items()}


def test_no_code_is_taken_for_a_state() -> None:
    """Lists show both in one column."""
    assert not {state.name.lower() for state in TaskState} & (CODES.keys() - {"delivering"})
