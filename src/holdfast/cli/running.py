"""`holdfast run`, after its job is submitted: wait, and end as the command ended."""

import _thread
import threading

from holdfast.cli.asking import Asker
from holdfast.cli.errors import INTERRUPTED
from holdfast.cli.following import Writer, follow_task
from holdfast.cli.output import View, clean, note
from holdfast.cli.servers import ServerShelf
from holdfast.cli.waiting import outcome_of, until_ended
from holdfast.wire.bodies import Reason
from holdfast.wire.http import Rejected, Unreachable

SIGNALLED = 128
LARGEST_CODE = 255
LAST_WORDS_S = 10.0
"""How long after its end what the command printed may take to arrive."""


def follow(asker: Asker, job: View) -> int:
    """The command's own exit code; 130 where the user interrupted it, which cancels it."""
    try:
        # Said in here, so that whoever reads it can interrupt us and be understood.
        note(f"job {job['id']} is submitted; Ctrl-C cancels it")
        with asker.patient() as patient, Shown(patient, job) as shown:
            ended = until_ended(patient, job, None, is_quiet=True)
            shown.finish()
    except KeyboardInterrupt:
        _cancel(asker, job, "interrupted at the terminal")
        return INTERRUPTED
    except SystemExit:
        # We were told to end, and nobody is left who wants to know.
        _cancel(asker, job, "the one who waited was stopped")
        raise
    task = asker.get("tasks", job["id"], 0)
    _tell(asker, ended, task)
    return exit_code_of(ended, task)


class Shown:
    """What the command prints, written here as it comes, by a thread of its own."""

    def __init__(self, asker: Asker, job: View) -> None:
        self._pieces = follow_task(ServerShelf(asker), job["id"], 0, 1)
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._is_over = False

    def __enter__(self) -> "Shown":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True

    def finish(self) -> None:
        """Wait for the last of it, though not for ever."""
        self._thread.join(LAST_WORDS_S)

    def _show(self) -> None:
        writer = Writer(prefixed=False)
        try:
            for piece in self._pieces:
                writer.write(*piece)
        except (Rejected, Unreachable) as error:
            # What was never begun has printed nothing, and whoever was interrupted has had enough.
            is_silent = isinstance(error, Rejected) and error.problem.code == "not_found"
            if not is_silent and not self._is_over:
                note(f"what it prints cannot be shown: {clean(str(error))}")
        except RuntimeError:
            # The connection was closed under it, because nobody waits any more.
            if not self._is_over:
                raise
        except BrokenPipeError:
            # Nobody reads what it prints, as when a pipe is closed on a command that runs here.
            _thread.interrupt_main()


def exit_code_of(job: View, task: View) -> int:
    """The command's own exit code, as a shell would tell it; else that of `job wait`."""
    code: int | None = task["exit_code"]
    if code is None or (code == 0 and job["state"] != "SUCCEEDED"):
        return outcome_of([job])
    if code < 0:
        # It was ended by a signal.
        return SIGNALLED - code
    return min(code, LARGEST_CODE)


def _tell(asker: Asker, job: View, task: View) -> None:
    if job["state"] != "SUCCEEDED":
        why = clean(task["error"] or task["reason"] or job["reason"] or "it did not succeed")
        note(f"job {job['id']} is {job['state']}: {why}")
        note(f"`holdfast task show {job['id']}/0{asker.options}` tells more")


def _cancel(asker: Asker, job: View, reason: str) -> None:
    asker.post("jobs", job["id"], "cancel", body=Reason(reason=reason))
    note(f"job {job['id']} is cancelled")
