"""The second process: `python -m holdfast.coordinator.second_process`. It is given one errand on
stdin and answers on stdout; what keeps it from answering is the last line on stderr."""

import sys

from holdfast.coordinator.errands import do
from holdfast.core.errors import BrokenInvariant, OperatingError


def main() -> int:
    try:
        answer = do(sys.stdin.buffer.read())
    except (OSError, OperatingError, BrokenInvariant) as error:
        sys.stderr.write(" ".join(f"{error}".split()) or type(error).__name__)
        return 1
    sys.stdout.buffer.write(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
