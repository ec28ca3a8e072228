"""One request about many jobs or tasks: what is chosen, what is done to it, how it came out."""

from typing import Final

from msgspec import Struct, field

from holdfast.wire.bodies import Body, Edits

SAMPLE: Final = 10
"""So many of what is chosen are shown before it is done."""


class Selection(Body):
    """Which jobs, or which tasks: those that `names` names (`12`, `last`, `all`, `1-10:2`, `12/3`,
    `12/3-7`; none: all that the rest allows), narrowed by what is not empty. `states` are those of
    jobs or of tasks, as the verb is about one or the other; `name` is a pattern of * and ?."""

    names: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    name: str = ""
    namespace: str = ""
    queue: str = ""
    user: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    older_than: str = ""


class NewOperation(Body):
    """What is to be done, and to what. `dry_run` only says to how many. `delay` and `not_before`
    are for a reschedule, `set` for a retry under other terms. The answer comes when it is done, or
    after `wait`."""

    verb: str
    selection: Selection
    reason: str = ""
    dry_run: bool = False
    delay: str = ""
    not_before: str = ""
    set: Edits | None = None
    wait: str = "30s"


class Undo(Body):
    """Have an operation undone as far as that can be. `dry_run` only says how far that is."""

    reason: str = ""
    dry_run: bool = False
    wait: str = "30s"


class Preview(Struct, frozen=True):
    """To how many jobs and tasks something would be done, and some of them."""

    jobs: int
    tasks: int
    sample: list[str]
