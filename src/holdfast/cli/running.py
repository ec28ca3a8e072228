"""`holdfast run`, after its job is submitted: wait, and end as the command ended."""

from holdfast.cli.asking import Asker
from holdfast.cli.errors import INTERRUPTED
from holdfast.cli.output import View, clean, note
from holdfast.cli.waiting import outcome_of, until_ended
from holdfast.wire.bodies import Reason

SIGNALLED = 128
LARGEST_CODE = 255


def follow(asker: Asker, job: View) -> int:
    """The command's own exit code; 130 where the user interrupted it, which cancels it."""
    try:
        # Said in here, so that whoever reads it can interrupt us and be understood.
        note(f"job {job['id']} is submitted; Ctrl-C cancels it")
        with asker.patient() as patient:
            ended = until_ended(patient, job, None)
    except KeyboardInterrupt:
        _cancel(asker, job, "interrupted at the terminal")
        return INTERRUPTED
    except SystemExit:
        # We were told to end, and nobody is left who wants to know.
        _cancel(asker, job, "the one who waited was stopped")
        raise
    task = asker.get("tasks", job["id"], 0)
    _tell_of_output(task)
    _tell(asker, ended, task)
    return exit_code_of(ended, task)


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


def _tell_of_output(task: View) -> None:
    """Where to look for what it printed. One that never began printed nothing."""
    worker = next((each["worker"] for each in reversed(task["attempts"])), None)
    if worker is not None and task["exit_code"] is not None:
        note(f"what it printed is kept by worker {clean(worker)}, in the folder it works in")
