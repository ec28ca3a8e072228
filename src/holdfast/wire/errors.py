"""What may go wrong between two programs. Light to import: no library comes with it."""

from holdfast.core.errors import OperatingError


class Unreachable(OperatingError):
    """The server did not answer."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(
            f"the server at {server} did not answer: {why}. Is it running? Start one with "
            "`holdfast serve --data DIR`, or name another with HOLDFAST_SERVER."
        )


class ResultLost(OperatingError):
    """A large result is not as it was stored, or not there: missing, cut short or damaged."""

    def __init__(self, why: str, task: str = "") -> None:
        whose = f"the result of task {task}" if task else "this result"
        super().__init__(f"{whose} is lost: {why}")
        self.why = why

    def of(self, task: str) -> "ResultLost":
        """The same, by whoever knows whose result it is."""
        return ResultLost(self.why, task)
