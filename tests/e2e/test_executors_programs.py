"""Whole programs with children: they live in scripts, and they die with their parent."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

import holdfast.worker.processes as processes
from holdfast.worker.slate import Slate, shared_file
from holdfast.worker.warm import WarmChild

PATIENCE_S = 60
ROOT = str(Path(processes.__file__).parents[2])

PROGRAM = """
import os, sys, threading
import neighbour
from holdfast.worker.functions import MissingGuard, loading_script, reference
from holdfast.worker.payloads import decode_result, encode_call
from holdfast.worker.processes import ProcessExecutor
from holdfast.wire.exchange import Item, Run

def open_holdfast():
    if loading_script() is not None:
        raise MissingGuard(loading_script())
    return True

def square(n):
    return [neighbour.square(n), os.getcwd(), sys.argv, __name__]

def hang(n):
    print(os.getpid(), flush=True)
    threading.Event().wait()

def main(function, count):
    open_holdfast()
    bell = threading.Event()
    executor = ProcessExecutor(count, bell.set, lambda: 0)
    executor.start()
    for n in range(count):
        items = (Item(n, n + 1, 1, encode_call((n + 2,))),)
        executor.assign(Run("job", n, "function", reference(function), 0, 0, False, 1, items))
    left = count
    while left and executor.fatal is None:
        bell.wait()
        bell.clear()
        harvest = executor.harvest()
        left -= len(harvest.done) + len(harvest.failed)
        for done in harvest.done:
            print(decode_result(done.result))
    print("fatal:", executor.fatal)
    executor.close(0)
"""


def write_program(folder: Path, ending: str) -> Path:
    (folder / "neighbour.py").write_text("def square(n): return n * n\n")
    program = folder / "program.py"
    program.write_text(PROGRAM + ending)
    return program


def start(program: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(program), *arguments],
        cwd=program.parent.parent,
        env={"PYTHONPATH": ROOT},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_functions_of_a_script_run_in_processes_as_they_would_at_home(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    program = write_program(folder, "if __name__ == '__main__': main(square, 1)\n")
    told, _ = start(program, "--flag").communicate(timeout=PATIENCE_S)
    result, fatal = told.splitlines()
    assert result.startswith(f"[4, {str(tmp_path)!r}, [{str(program)!r}, '--flag'], '__holdfast")
    assert fatal == "fatal: None"


def test_a_script_without_a_guard_gets_one_clear_error(tmp_path: Path) -> None:
    program = write_program(tmp_path, "main(square, 2)\n")
    told, _ = start(program).communicate(timeout=PATIENCE_S)
    (line,) = told.splitlines()
    assert line.startswith(f"fatal: {program} has no `if __name__ == '__main__':` guard")


def test_children_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = write_program(tmp_path, "if __name__ == '__main__': main(hang, 2)\n")
    parent = start(program)
    assert parent.stdout is not None
    children = [psutil.Process(int(parent.stdout.readline())) for _ in range(2)]
    parent.kill()
    parent.wait()
    gone, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    assert (len(gone), alive) == (2, [])
    parent.stdout.close()


def test_a_child_whose_parent_hangs_up_ends_by_itself() -> None:
    slate, crash = Slate(shared_file("slate")), shared_file("crash")
    child = WarmChild(slate, crash, os.getcwd())
    # We live on, so this is not the kernel's doing: the end of the socket must be enough.
    child.link.close()
    assert psutil.Process(child.pid).wait(PATIENCE_S) is not None
    child.bury()
    slate.close()
    os.close(crash)


def test_an_interrupt_at_the_terminal_reaches_the_parent_alone(tmp_path: Path) -> None:
    program = write_program(tmp_path, "if __name__ == '__main__': main(hang, 1)\n")
    parent = start(program)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    # A terminal signals the group it shows; the child has one of its own.
    assert os.getpgid(child.pid) == child.pid
    assert os.getsid(child.pid) == child.pid
    assert os.getpgid(parent.pid) != child.pid
    parent.kill()
    parent.wait()
    child.wait(PATIENCE_S)
    parent.stdout.close()


def test_neither_arguments_nor_search_path_need_be_text(tmp_path: Path) -> None:
    ending = """
def words(n):
    return [os.fsencode(word) for word in sys.argv[1:]]

if __name__ == "__main__":
    import pathlib
    sys.path.append(pathlib.Path("/nowhere"))
    main(words, 1)
"""
    told, _ = start(write_program(tmp_path, ending), "\udcff", "ok").communicate(timeout=PATIENCE_S)
    assert told.splitlines() == [str([b"\xff", b"ok"]), "fatal: None"]
