"""Stories in text: a command, a line of dashes, and what the core answers.

    grant j 0 worker=a term=1000
    ----
    LeasesGranted: task_assigned j/0 worker_id=a attempt=1

A block ends with an empty line. A line that begins with `#` says why. Times are milliseconds. A
lease is named by its number. `make bless` rewrites the answers; read the diff. After every block
the invariants are checked, and replaying the story must end where the story did.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.core import commands as c
from holdfast.core.decision import Decision, Refused
from holdfast.core.freeze import fingerprint
from holdfast.core.ids import (
    Index,
    Instant,
    JobId,
    LeaseId,
    Position,
    WorkerId,
    effect_name,
    parse_effect_name,
)
from holdfast.core.job import job_reason, job_state, state_of
from holdfast.core.owed import BLOCK, EFFECT, FILE, DebtName, Entry
from holdfast.core.reports import Done, Failed, Released, Started
from holdfast.core.spec import NO_LIMIT, JobSpec, RetryPolicy
from holdfast.core.transactions import RENDERERS, Action
from holdfast.testing.world import World

HERE = Path(__file__).parent
STORIES = sorted(HERE.glob("*.txt"))

Words = tuple[list[str], dict[str, str]]


def parse(line: str) -> Words:
    """Plain words in order, and the `name=value` ones by name."""
    plain = [word for word in line.split() if "=" not in word]
    named = dict(word.split("=", 1) for word in line.split() if "=" in word)
    return plain, named


def who(named: dict[str, str]) -> dict[str, object]:
    worker = WorkerId(named.get("worker", "w"))
    return {"worker": worker, "incarnation": int(named.get("incarnation", 1))}


def names(plain: list[str]) -> tuple[JobId, Index, LeaseId]:
    return JobId(plain[0]), Index(int(plain[1])), LeaseId(int(plain[2]))


def listed(text: str) -> tuple[bytes, ...]:
    return tuple(part.encode() for part in text.split(",")) if text else ()


def spec_of(named: dict[str, str]) -> JobSpec:
    def number(name: str, otherwise: int = 0) -> int:
        return int(named.get(name, otherwise))

    policy = RetryPolicy(kind="fixed", delay_ms=number("backoff"), jitter=0.0)
    return JobSpec(
        name="work",
        kind="function",
        target="work",
        retries=number("retries"),
        max_losses=number("losses", 10),
        retry=policy,
        job_timeout_ms=number("timeout"),
        schedule_timeout_ms=number("schedule"),
        max_failed_tasks=number("max_failed", NO_LIMIT),
    )


def submit(world: World, plain: list[str], named: dict[str, str]) -> c.Command:
    items = listed(named.get("items", ""))
    wall = named.get("at")
    return c.SubmitJob(
        job_id=JobId(plain[0]),
        spec=spec_of(named),
        key=named.get("key", ""),
        digest=named.get("body", "").encode(),
        items=items,
        count=0 if items else int(plain[1]),
        sealed="open" not in plain,
        delay_ms=int(named.get("delay", 0)),
        not_before_wall=Instant(world.wall + int(wall)) if wall else Instant(0),
    )


def grant(world: World, plain: list[str], named: dict[str, str]) -> c.Command:
    indices = tuple(Index(int(word)) for word in plain[1:])
    return c.GrantLeases(
        job_id=JobId(plain[0]), slot=0, indices=indices, term_ms=int(named.get("term", 0)),
        **who(named),  # type: ignore[arg-type]
    )  # fmt: skip


def owed(text: str) -> tuple[Entry, ...]:
    """`mail,ledger:ann,file:/out,block`: sinks, with a key behind the colon; a staged file; a
    block."""
    entries = []
    for word in text.split(",") if text else ():
        place, _, key = word.partition(":")
        kind = {"file": FILE, "block": BLOCK}.get(place, EFFECT)
        entries.append(Entry(kind, {FILE: "host:one", BLOCK: ""}.get(kind, place), key, b"body"))
    return tuple(entries)


def debts(words: list[str]) -> tuple[DebtName, ...]:
    """Entries by the names that people use."""
    named = [parse_effect_name(word) for word in words]
    return tuple(DebtName(*name) for name in named if name is not None)


def bounce(world: World, plain: list[str], named: dict[str, str]) -> c.Command:
    return c.FailDelivery(
        name=debts(plain)[0], error="no answer", most_tries=int(named.get("most", 20)),
        delay_ms=int(named.get("delay", 1_000)), is_final="final" in plain,
    )  # fmt: skip


def commit(world: World, plain: list[str], named: dict[str, str]) -> c.Command:
    done = Done(*names(plain), 0, b"result", owed(named.get("owes", "")))
    return c.CommitTasks(done=(done,), **who(named))  # type: ignore[arg-type]


def fail(world: World, plain: list[str], named: dict[str, str]) -> c.Command:
    failed = Failed(*names(plain), 0, named.get("reason", "failed"), "boom", "", 1)
    return c.FailAttempt(failed=failed, roll=0.0, **who(named))  # type: ignore[arg-type]


def release(world: World, plain: list[str], named: dict[str, str]) -> c.Command:
    released, reason = Released(*names(plain), False), named.get("reason", "released")
    return c.ReleaseAttempts(released=(released,), reason=reason, **who(named))


def reschedule(world: World, plain: list[str], named: dict[str, str]) -> c.Command:
    wall = named.get("at")
    return c.RescheduleTask(
        job_id=JobId(plain[0]),
        index=Index(int(plain[1])),
        delay_ms=int(named.get("delay", 0)),
        not_before_wall=Instant(world.wall + int(wall)) if wall else Instant(0),
    )


def open_log(world: World, plain: list[str], named: dict[str, str]) -> c.Command:
    epoch = int(named.get("epoch", world.state.epoch + 1))
    return c.OpenLog(
        log_id="log", epoch=epoch, version="1", host="host", pid=epoch, torn_bytes=0,
        term_ms=int(named.get("term", 1_000)),
    )  # fmt: skip


COMMANDS: dict[str, Callable[[World, list[str], dict[str, str]], c.Command]] = {
    "open": open_log,
    "submit": submit,
    "add": lambda w, p, n: c.AddTasks(
        job_id=JobId(p[0]), first=int(p[1]), items=listed(n["items"])
    ),
    "seal": lambda w, p, n: c.SealJob(job_id=JobId(p[0]), count=int(p[1])),
    "grant": grant,
    "start": lambda w, p, n: c.StartAttempts(
        started=(Started(*names(p), 0),), **who(n)  # type: ignore[arg-type]
    ),
    "commit": commit,
    "fail": fail,
    "release": release,
    "extend": lambda w, p, n: c.ExtendLeases(term_ms=int(n["term"]), **who(n)),
    "expire": lambda w, p, n: c.ExpireLeases(**who(n)),  # type: ignore[arg-type]
    "rearm": lambda w, p, n: c.RearmLeases(term_ms=int(n["term"])),
    "lose": lambda w, p, n: c.LoseWorker(error="no answer", **who(n)),  # type: ignore[arg-type]
    "kill": lambda w, p, n: c.KillJob(job_id=JobId(p[0]), reason=n.get("reason", "")),
    "kill-task": lambda w, p, n: c.KillTasks(
        job_id=JobId(p[0]), indices=tuple(Index(int(word)) for word in p[1:])
    ),
    "reschedule": reschedule,
    "retry": lambda w, p, n: c.RetryTasks(
        job_id=JobId(p[0]), indices=tuple(Index(int(word)) for word in p[1:])
    ),
    "confirm": lambda w, p, n: c.ConfirmDeliveries(names=debts(p)),
    "bounce": bounce,
    "park": lambda w, p, n: c.ParkEffects(names=debts(p), error="host one is gone"),
    "retry-effect": lambda w, p, n: c.RetryEffects(names=debts(p)),
    "discard": lambda w, p, n: c.DiscardEffects(names=debts(p), reason=n.get("reason", "")),
    "snapshot": lambda w, p, n: c.InstallSnapshot(
        at_position=Position(int(p[0])), state_hash="hash"
    ),
    "tick": lambda w, p, n: c.Tick(wall=w.wall, **{name: int(n[name]) for name in n}),
}


def show(world: World, plain: list[str]) -> Iterator[str]:
    job = world.state.jobs[JobId(plain[0])]
    reason = job_reason(job)
    yield f"{job.job_id} {job_state(job)}" + (f" ({reason})" if reason else "")
    for index in map(Index, range(job.count)):
        task = (job.tasks or {}).get(index)
        more = ""
        if task is not None:
            more = f" attempt={task.attempt} failures={task.failures} losses={task.losses}"
            more += f" lease={task.lease_id} worker={task.worker}" if task.lease_id else ""
            more += "".join(
                f" owes {debt.kind} {debt.number}{' parked' if debt.parked else ''}"
                for debt in task.owed
            )
        yield f"  {index} {state_of(job, index).name}{more}"


def told(action: Action) -> str:
    details = [f"{name}={value}" for name, value in action.details.items() if value != ""]
    return " ".join([action.action, action.entity, *details])


def answer(world: World, decision: Decision) -> Iterator[str]:
    if isinstance(decision, Refused):
        yield f"refused: {decision.code}"
        return
    if decision.events:
        record = world.records()[-1][1]
        for event in record.events:
            actions = RENDERERS[type(event)](event, record)
            yield f"{type(event).__name__}: " + "; ".join(map(told, actions))
    lost = decision.answer if isinstance(decision.answer, tuple) else ()
    for each in lost:
        yield f"lease_lost {each.job_id}/{each.index} lease={each.lease_id}: {each.why}"
    if not decision.events and not lost:
        yield "nothing"


def play(world: World, line: str) -> Iterator[str]:
    plain, named = parse(line)
    verb, plain = plain[0], plain[1:]
    if verb == "sleep":
        world.sleep(int(plain[0]))
    elif verb == "crash":
        before = world.fingerprint()
        world.crash(snapshot="snapshot" in plain)
        yield "the same state" if world.fingerprint() == before else "ANOTHER STATE"
    elif verb == "leasable":
        ready = world.leasable()
        yield " ".join(f"{job}/{i}" for job, found in ready.items() for i in found) or "nothing"
    elif verb == "deliverable":
        world.state.debts.wake(world.now)
        places = world.state.debts.places.values()
        found_ready = [name for place in places for name in place.ready]
        yield " ".join(effect_name(n.job_id, n.index, n.number) for n in found_ready) or "nothing"
    elif verb == "show":
        yield from show(world, plain)
    else:
        command = COMMANDS[verb](world, plain, named)
        yield from answer(world, world.do(command))


def told_again(text: str) -> str:
    """The story with the answers the core gives now."""
    world = World(opened=False)
    blocks = []
    for block in text.strip().split("\n\n"):
        asked = [line for line in block.partition("----")[0].splitlines() if line.strip()]
        lines = [line for line in asked if not line.startswith("#")]
        answers = [said for line in lines for said in play(world, line)]
        assert world.troubles() == (), block
        blocks.append("\n".join([*asked, *(["----", *answers] if lines else [])]))
    assert fingerprint(world.replayed()) == world.fingerprint()
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story_ends_as_it_is_told(path: Path, blessing: bool) -> None:
    text = path.read_text(encoding="utf-8")
    if blessing:
        path.write_text(told_again(text), encoding="utf-8")
        text = path.read_text(encoding="utf-8")
    assert told_again(text) == text


def test_there_are_stories_and_every_verb_is_in_one() -> None:
    words = {line.split()[0] for path in STORIES for line in path.read_text().splitlines() if line}
    assert set(COMMANDS) <= words
