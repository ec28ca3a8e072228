"""Disks that are full or fail: nothing is acknowledged that is not there, and all goes on after."""

import subprocess
import sys
import textwrap
from pathlib import Path

PATIENCE_S = 60

HEAD = '''
    import logging, os, resource, signal, sys, threading, holdfast
    from holdfast.errors import DiskFull, LogFailed
    from holdfast.testing import chores

    state = sys.argv[1]
    # Past the limit a write fails as on a full disk, to the byte.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))

    def told(kind, act):
        try:
            act()
        except kind as error:
            assert "\\n" not in str(error), error
            return str(error)
        raise AssertionError(f"{act} did not fail")

    def open_and_limit():
        """An open folder without room for another segment, and whether that was noticed."""
        full = threading.Event()

        class Ear(logging.Handler):
            def emit(self, record):
                if "disk is full" in record.getMessage():
                    full.set()

        logging.getLogger("holdfast").addHandler(Ear())
        logging.getLogger("holdfast").propagate = False
        hf = holdfast.open(state, workers=1)
        wal = os.path.join(state, "wal")
        limit(max(os.path.getsize(os.path.join(wal, name)) for name in os.listdir(wal)))
        return hf, full
'''


def run(tmp_path: Path, body: str) -> str:
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent(HEAD)
        + "\nif __name__ == '__main__':\n"
        + textwrap.indent(textwrap.dedent(body), "    ")
    )
    program = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "state")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert program.returncode == 0, program.stderr
    assert "Traceback" not in program.stderr, program.stderr
    return program.stdout


def test_a_disk_that_takes_no_more_ends_every_call_and_the_folder_opens_again(
    tmp_path: Path,
) -> None:
    out = run(
        tmp_path,
        """
        hf = holdfast.open(state, workers=1)
        kept = [hf.submit(chores.square, n, delay="1h") for n in range(5)]
        limit(4096)
        told(LogFailed, lambda: hf.submit(chores.square, 6))
        told(LogFailed, kept[0].result)
        told(LogFailed, lambda: hf.job("1"))
        told(LogFailed, lambda: kept[0].cancel())
        told(LogFailed, lambda: list(hf.map(chores.square, range(3)).results()))
        hf.close()
        limit(most)
        with holdfast.open(state, workers=1) as hf:
            found = [n for n in range(1, 9) if hf._backend.call(
                lambda coordinator: str(n) in coordinator.state.jobs)]
            assert found in ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]), found
            assert all(hf.job(n).state == "PENDING" for n in found[:5])
            assert hf.submit(chores.square, 7).result(60) == 49
        print("good")
        """,
    )
    assert out == "good\n"


def test_a_folder_for_which_there_is_no_room_is_refused_in_words(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        limit(1000)
        text = told(DiskFull, lambda: holdfast.open(state))
        assert "Free some space" in text, text
        limit(most)
        with holdfast.open(state, workers=1) as hf:
            assert hf.submit(chores.square, 7).result(60) == 49
        print("good")
        """,
    )
    assert out == "good\n"


def test_no_room_for_the_next_segment_holds_everyone_up_until_there_is(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        hf, full = open_and_limit()
        handles = []

        def submit():
            for n in range(8):
                handles.append(hf.submit(len, "x" * 1_045_000, delay="1h"))

        thread = threading.Thread(target=submit)
        thread.start()
        assert full.wait(60)
        acknowledged = len(handles)
        assert acknowledged < 8
        limit(most)
        thread.join(60)
        assert len(handles) == 8
        hf.close()
        with holdfast.open(state, workers=1) as hf:
            assert hf.job(8).state == "PENDING"
        print("good")
        """,
    )
    assert out == "good\n"


def test_leaving_while_the_disk_is_full_tells_who_waits_and_loses_nothing(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        hf, full = open_and_limit()
        handles, errors = [], []

        def submit():
            try:
                for n in range(8):
                    handles.append(hf.submit(len, "x" * 1_045_000, delay="1h"))
            except LogFailed as error:
                errors.append(error)

        thread = threading.Thread(target=submit)
        thread.start()
        assert full.wait(60)
        hf.close()
        thread.join(60)
        assert "no room" in str(errors[0]), errors
        limit(most)
        with holdfast.open(state, workers=1) as hf:
            assert all(hf.job(handle.id).state == "PENDING" for handle in handles)
            assert len(hf.submit(chores.echo, "x").result(60)) == 1
        print("good")
        """,
    )
    assert out == "good\n"
