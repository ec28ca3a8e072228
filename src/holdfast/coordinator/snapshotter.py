"""The second process: `python -m holdfast.coordinator.snapshotter`, told what to do on stdin."""

import sys

import msgspec

from holdfast.coordinator.snapshotting import Course, make_snapshot


def main() -> int:
    course = msgspec.json.decode(sys.stdin.buffer.read(), type=Course)
    made = make_snapshot(course)
    sys.stdout.buffer.write(msgspec.json.encode(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
