"""What an operator sees and types about effects that do not go through, with everything real."""

import json
import socket
import threading
from collections.abc import Iterator

import msgspec
import pytest

import holdfast
from holdfast import task
from holdfast.client.errors import Refused
from holdfast.core.owed import BLOCK, EFFECT, Entry
from holdfast.errors import NotInTask
from holdfast.testing.fleet import wait_until
from holdfast.wire.bodies import Command, Submit

PATIENCE_S = 60.0


@pytest.fixture
def babbling() -> Iterator[str]:
    """Where something answers that does not speak HTTP."""
    door = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                heard, _ = door.accept()
            except OSError:
                return
            with heard:
                heard.recv(1_000)
                heard.sendall(b"hello there\r\n\r\n")

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{door.getsockname()[1]}/"
    door.shutdown(socket.SHUT_RDWR)
    door.close()
    thread.join()


@pytest.fixture
def owing(begin_server, hand_of, tmp_path, babbling):
    """A server whose `mail` goes to what babbles; a task that owes it, and a block that is gone."""
    settings = tmp_path / "server-0" / "config" / "holdfast" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f'[sinks.mail]\nkind = "http"\nurl = "{babbling}"\nprivate = true\ntries = 2\n'
        f'first_wait = "10ms"\n[sinks.ledger]\nkind = "file"\npath = "{tmp_path / "ledger"}"\n'
    )
    served = begin_server()
    hand = hand_of(served)
    body = Submit(command=Command(argv=["true"]), count=1)
    # The exchanges of the second job show that the block of the first is not run.
    for owed in (
        Entry(BLOCK, "", "", b""),
        Entry(EFFECT, "mail", "", msgspec.msgpack.encode({"to": "ann"})),
    ):
        hand._http.post("/api/v1/jobs", body, dict)
        hand.succeed(*hand.take(1), owed=lambda _, owed=owed: (owed,))

    def parked() -> bool:
        found = hand._http.get("/api/v1/effects", dict, state="parked")["effects"]
        return [view["id"] for view in found] == ["1/0.0", "2/0.0"]

    wait_until(parked, PATIENCE_S, what="both are parked")
    return served


def test_an_operator_looks_and_decides(owing, typing):
    typed = typing(owing)
    told = typed("effect", "list")
    assert "what answered does not speak HTTP" in told.out
    assert "effect_parked" in typed("ps").out
    told = typed("effect", "show", "2/0.0")
    assert '"to": "ann"' in told.out
    assert told.out.count("delivery_failed") == told.out.count("effect_parked") == 1
    told = typed("job", "wait", "2", "--timeout", "50ms")
    assert told.code == 124
    assert "holdfast effect list --job 2 --state parked" in told.err
    told = typed("effect", "retry", "1/0.0")
    assert told.code == 5
    assert "holdfast effect discard 1/0.0" in told.err
    told = typed("effect", "retry", "--all-parked", "--dry-run", "-o", "name")
    assert (told.code, told.out) == (0, "2/0.0\n")
    told = typed("effect", "retry", "--sink", "mail", "--reason", "mail is back")
    assert (told.code, told.err) == (0, "1 effect was retried\n")
    wait_until(
        lambda: typed("effect", "list", "--sink", "mail", "--state", "parked").out,
        PATIENCE_S,
        what="it is parked again",
    )
    told = typed("effect", "discard", "--all-parked", "--reason", "by hand")
    assert told.code == 2
    assert "--yes" in told.err
    told = typed("effect", "discard", "--all-parked", "--reason", "by hand", "--yes")
    assert (told.code, told.err) == (0, "2 effects were discarded\n")
    assert typed("job", "wait", "all", "--timeout", "30s").code == 0
    told = typed("effect", "show", "2/0.0", "-o", "json")
    history = json.loads(told.out)["history"]
    assert [each["action"] for each in history] == [
        "delivery_failed", "effect_parked", "effect_retried", "delivery_failed", "effect_parked",
        "effect_discarded",
    ]  # fmt: skip
    assert [each["reason"] for each in history if each["reason"]] == ["mail is back", "by hand"]
    told = typed("effect", "retry", "2/0.0")
    assert told.code == 0
    assert "2/0.0 is DISCARDED: it is owed no more" in told.err


@pytest.mark.slow
def test_a_program_looks_and_decides_at_a_server(owing):
    token = owing.token_file.read_text().strip()
    with holdfast.connect(owing.url, token=token) as hf:
        assert [each.id for each in hf.effects(state="parked")] == ["1/0.0", "2/0.0"]
        (mail,) = hf.effects(sink="mail")
        assert (mail.kind, mail.state, mail.tries) == ("effect", "PARKED", 2)
        with pytest.raises(Refused, match="runs at most once"):
            hf.retry_effects("1/0.0")
        assert hf.retry_effects(kind="effect") == 1
        assert hf.discard_effects("2/0.0", "1/0.0", reason="by hand") == 2
        assert hf.effects() == []


@pytest.mark.slow
def test_a_restart_says_what_is_owed(owing):
    owing.restart(is_killed=True)
    first = next(line for line in owing.welcome.splitlines() if line.startswith("serving"))
    assert first.endswith("; 2 entries are owed, 2 of them parked")


@task
def promise(what: str) -> str:
    context = holdfast.current()
    if what == "unknown sink":
        context.effect("legder", body=1)
    elif what == "too large":
        context.effect("ledger", body="x" * 70_000)
    elif what == "two with one key":
        context.effect("ledger", key="a", body=1)
        context.effect("ledger", key="a", body=2)
    elif what == "no value":
        context.effect("ledger", body=object())
    else:
        context.effect("babble", body=what)
    return what


MISTAKES = {
    "unknown sink": "there is no sink 'legder'; there are babble, ledger",
    "too large": "over the limit of 65,536",
    "two with one key": "under the key 'a' already",
    "no value": "Use plain types",
}


def test_every_mistake_is_told_in_words_and_nothing_is_lost(tmp_path, babbling):
    sinks = {
        "ledger": holdfast.FileSink(path=str(tmp_path / "ledger")),
        "babble": holdfast.HttpSink(url=babbling, private=True, tries=1),
    }
    with pytest.raises(NotInTask, match="not part of a task"):
        promise("fine")
    with holdfast.open(tmp_path / "state", sinks=sinks, executor="threads", grace=0) as hf:
        for what, told in MISTAKES.items():
            with pytest.raises(holdfast.errors.TaskFailed, match=told):
                hf.submit(promise, what).result(timeout=PATIENCE_S)
        assert hf.effects() == []
        assert hf.submit(promise, "fine").result(timeout=PATIENCE_S) == "fine"
        wait_until(lambda: bool(hf.effects(state="parked")), PATIENCE_S, what="it is parked")
        (parked,) = hf.effects()
        assert "does not speak HTTP" in (parked.why or "")
        with pytest.raises(Refused, match="name effects"):
            hf.retry_effects()
        with pytest.raises(ValueError, match="say why"):
            hf.discard_effects(parked.id, reason="")
        with pytest.raises(ValueError, match="none of"):
            hf.effects(state="lost")
    # What was owed is owed after a restart, and waits for its sink where that is not there.
    with holdfast.open(tmp_path / "state", executor="threads", grace=0) as hf:
        assert [each.id for each in hf.effects(state="parked")] == [parked.id]
        assert hf.retry_effects(every=True) == 1
        assert "there is no sink called 'babble' any more" in (hf.effects()[0].why or "")
        assert hf.discard_effects(parked.id, reason="by hand") == 1
        assert hf.effects() == []
