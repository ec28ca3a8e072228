"""Whatever order chunks, repeats, gaps and crashes come in, what is read is what was written.

The stream is known in full here, so every byte that is read can be compared with the one that was
sent, and every byte that is missing must have been told as dropped.
"""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from holdfast.coordinator.output import Gap, OutputGone, OutputStore, Quota
from holdfast.coordinator.outputparts import StreamName

TEXT = bytes(index * 7 % 251 for index in range(4_000))
NAMES = [StreamName("5", index, 1, stream) for index in (0, 1) for stream in ("stdout", "stderr")]
names = st.sampled_from(NAMES)


class OutputMachine(RuleBasedStateMachine):
    @initialize(stream_bytes=st.sampled_from([8, 40, 200]), files=st.sampled_from([3, 1_000]))
    def begin(self, stream_bytes: int, files: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.quota = Quota(stream_bytes=stream_bytes, all_bytes=files * 8192)
        self.store = OutputStore(Path(self.folder.name), self.quota)
        self.reached = dict.fromkeys(NAMES, 0)
        self.is_harmed = False

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    @rule(name=names, size=st.integers(0, 90), ended=st.booleans())
    def follow(self, name: StreamName, size: int, ended: bool) -> None:
        """The next chunk, from where the store says it goes on."""
        try:
            self.store.append(name, 10_000, b"")
            at = 10_000
        except Gap as gap:
            at = gap.expected
        if at + size <= len(TEXT):
            assert self.store.append(name, at, TEXT[at : at + size], ended=ended) == at + size
            self.reached[name] = max(self.reached[name], at + size)

    @rule(name=names, back=st.integers(1, 120), size=st.integers(0, 200))
    def repeat(self, name: StreamName, back: int, size: int) -> None:
        at = max(0, self.reached[name] - back)
        try:
            after = self.store.append(name, at, TEXT[at : at + size])
        except Gap:
            return
        self.reached[name] = max(self.reached[name], after)

    @rule(name=names, ahead=st.integers(1, 50), size=st.integers(0, 60))
    def skip(self, name: StreamName, ahead: int, size: int) -> None:
        at = self.reached[name] + ahead
        if at + size <= len(TEXT):
            self.store.append(name, at, TEXT[at : at + size], skips=True)
            self.reached[name] = at + size

    @rule()
    def restart(self) -> None:
        self.store = OutputStore(Path(self.folder.name), self.quota)
        self.store.load()

    @rule(which=st.randoms(use_true_random=False))
    def crash(self, which: object) -> None:
        """The machine went down: some file lost its end, or never was."""
        files = sorted(Path(self.folder.name).rglob("*-*-std*"))
        if files:
            file = which.choice(files)  # type: ignore[attr-defined]
            size = which.randint(0, file.stat().st_size)  # type: ignore[attr-defined]
            os.truncate(file, size)
            if not size:
                file.unlink()
            self.is_harmed = True
        self.restart()

    @rule(name=names)
    def end(self, name: StreamName) -> None:
        self.store.end(name)

    @invariant()
    def what_is_read_is_what_was_sent(self) -> None:
        for name in NAMES if hasattr(self, "store") else ():
            offset = kept = 0
            try:
                while True:
                    piece = self.store.read(name, offset, 33)
                    assert piece.content == TEXT[piece.offset : piece.next]
                    assert piece.offset - offset == piece.dropped
                    kept += len(piece.content)
                    if piece.next == offset:
                        break
                    assert piece.next > offset
                    offset = piece.next
            except OutputGone:
                continue
            assert offset <= self.reached[name]
            assert kept <= max(self.quota.stream_bytes, 8)

    @invariant()
    def no_more_is_kept_than_allowed(self) -> None:
        if not hasattr(self, "store"):
            return
        assert self.store.used <= self.quota.all_bytes or self.is_harmed
        fresh = OutputStore(Path(self.folder.name), self.quota)
        fresh.load()
        assert fresh.used == self.store.used


def test_what_is_read_is_what_was_sent() -> None:
    run_state_machine_as_test(
        OutputMachine, settings=settings(max_examples=5, stateful_step_count=10, deadline=None)
    )


@pytest.mark.slow
def test_what_is_read_is_what_was_sent_in_long_histories() -> None:
    run_state_machine_as_test(
        OutputMachine, settings=settings(max_examples=150, stateful_step_count=50, deadline=None)
    )
