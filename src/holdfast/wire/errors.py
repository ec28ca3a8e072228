"""What may go wrong between two programs. Light to import: no library comes with it."""

from holdfast.core.errors import OperatingError


class Unreachable(OperatingError):
    """The server did not answer."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(
            f"the server at {server} did not answer: {why}. Is it running? Start one with "
            "`holdfast serve --data DIR`, or name another with HOLDFAST_SERVER."
        )
