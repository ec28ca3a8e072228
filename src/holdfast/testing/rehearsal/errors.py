"""What a rehearsal says when it cannot go on."""


class NothingLeft(Exception):
    """Somebody waits for what will never come: nothing is due any more, however long time goes on.
    The message says what is unfinished, and why."""


class StillRunning(Exception):
    """The body of a task has not come back in real time. Time is virtual for `time.sleep` and for
    what Holdfast itself waits for; a lock, a queue or a socket takes as long as it takes."""


class NotRehearsed(Exception):
    """Something was asked of a rehearsal that only its test may ask, or only a task."""


class Curtain(BaseException):
    """The test is over: a body that was killed, and so stopped in the middle, is let go at last."""
