"""What a check says when something that must hold does not."""

from collections.abc import Callable, Iterator

from msgspec import Struct

Finding = tuple[str, str]
"""What is wrong with whom: a subject (a job, a task, a lease, the log) and a sentence."""


class Violation(Struct, frozen=True):
    """An invariant is broken. `name` is its letter and number, as in docs/invariants.md."""

    name: str
    subject: str
    text: str


def found(name: str, check: Callable[[], Iterator[Finding]]) -> list[Violation]:
    """Run one check to its end. A check that raises has met what cannot be, so it is a violation
    itself: a broken state must not silence the one who reports it."""
    violations: list[Violation] = []
    try:
        for subject, text in check():
            violations.append(Violation(name, subject, text))
    except Exception as error:  # noqa: BLE001 - whatever a broken state provokes is the finding.
        text = f"the check itself failed: {type(error).__name__}: {error}"
        violations.append(Violation(name, "check", text))
    return violations
