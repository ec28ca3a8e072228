"""Which jobs a list is about, for whoever asks a server and for whoever looks through jobs."""

from fnmatch import fnmatchcase

from msgspec import Struct

from holdfast.core.job import Job, job_state


class Wanted(Struct, frozen=True, kw_only=True):
    """What is empty is not looked at. `name` is a pattern of * and ?; every label must be there."""

    states: frozenset[str] = frozenset()
    name: str = ""
    namespace: str = ""
    queue: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    def takes(self, job: Job) -> bool:
        spec = job.spec
        if self.namespace and spec.namespace != self.namespace:
            return False
        if self.queue and spec.queue != self.queue:
            return False
        if self.name and not fnmatchcase(spec.name, self.name):
            return False
        if self.labels and not frozenset(self.labels) <= frozenset(spec.labels):
            return False
        # The state is computed, so it is asked for last.
        return not self.states or job_state(job).value in self.states
