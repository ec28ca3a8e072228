"""What a program holds: an open folder or a server, and functions to run durably there."""

import asyncio
import atexit
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from os import PathLike
from typing import Any, ParamSpec, TypeVar

from msgspec import structs

from holdfast.client.backend import Backend
from holdfast.client.bundles import Bundle, target_inside
from holdfast.client.calls import (
    Call,
    array_call,
    decoder_of,
    digest_of,
    map_call,
    single_call,
)
from holdfast.client.errors import Refused
from holdfast.client.feeder import Chunks, Feeder
from holdfast.client.handles import Handle, Job
from holdfast.client.schedules import Schedule, check_policies, timing_of
from holdfast.core import commands as c
from holdfast.core.ids import Index, Instant, JobId, parse_task_name
from holdfast.core.schedule import ONE, SKIP, Definition
from holdfast.core.transactions import Transaction
from holdfast.wire.amounts import Duration, duration_ms, text, wall_ms, whole

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")

DEFAULT_GRACE: Duration = 10.0


class Holdfast:
    """An open folder, or a connection to a server. Use it as a context manager, so that leaving
    it is orderly."""

    def __init__(self, backend: Backend, grace_ms: int) -> None:
        self._backend = backend
        self._grace_ms = grace_ms
        self._feeders: list[Feeder] = []
        # Maps may be started by several threads, and leaving waits for every one.
        self._feeding = threading.Lock()
        # Leaving the program without leaving the folder first is made good, as far as it can be.
        # This keeps an open folder alive until it is left, as its threads and its lock are.
        atexit.register(self.abort)

    # Asking for work.

    def submit(
        self,
        function: Callable[..., R],
        /,
        *args: Any,
        key: str | None = None,
        name: str | None = None,
        delay: Duration | None = None,
        not_before: datetime | None = None,
        deadline: datetime | None = None,
        pickle: bool | None = None,
        bundle: str | PathLike[str] | Bundle | None = None,
        **kwargs: Any,
    ) -> Handle[R]:
        """Run one call, durably. When this returns the call is recorded and will not be lost.

        `key` makes a repeat find the first call instead of making a second one. `bundle` is a
        folder of code for the workers of a server, or what `bundle()` made of one: they look for
        modules there first.
        """
        words = {
            "key": key, "name": name, "delay": delay,
            "not_before": not_before, "deadline": deadline, "pickle": pickle, "bundle": bundle,
        }  # fmt: skip
        call = self._bundled(single_call(function, args, kwargs, words=words), bundle)
        command = c.SubmitJob(
            spec=call.spec,
            key=text(key, "key"),
            digest=digest_of(call.spec, call.payload) if key else b"",
            items=(call.payload,),
            delay_ms=duration_ms(delay, "delay"),
            not_before_wall=Instant(wall_ms(not_before, "not_before")),
            deadline_wall=Instant(wall_ms(deadline, "deadline")),
        )
        return Handle(self._backend, self._backend.submit(command), call.decode)

    async def submit_async(
        self, function: Callable[..., R], /, *args: Any, **kwargs: Any
    ) -> Handle[R]:
        """`submit` without holding up the event loop while the call is being written."""
        return await asyncio.to_thread(lambda: self.submit(function, *args, **kwargs))

    def map(
        self,
        function: Callable[[A], R],
        items: Iterable[A],
        *,
        key: str | None = None,
        name: str | None = None,
        max_parallel: int | None = None,
        max_failed_tasks: int | None = None,
        delay: Duration | None = None,
        not_before: datetime | None = None,
        deadline: datetime | None = None,
        pickle: bool | None = None,
        bundle: str | PathLike[str] | Bundle | None = None,
    ) -> Job[R]:
        """Run the function once for each item. Items are taken lazily, in chunks, by a thread that
        stays a window ahead of the workers; leaving waits until all are recorded.

        With a `key`, the same map started again after a crash goes on where its feeding stopped.
        """
        call = map_call(
            function,
            name=name,
            pickle=pickle,
            max_parallel=max_parallel,
            max_failed_tasks=max_failed_tasks,
        )
        call = self._bundled(call, bundle)
        command = c.SubmitJob(
            spec=call.spec,
            key=text(key, "key"),
            digest=digest_of(call.spec) if key else b"",
            sealed=False,
            delay_ms=duration_ms(delay, "delay"),
            not_before_wall=Instant(wall_ms(not_before, "not_before")),
            deadline_wall=Instant(wall_ms(deadline, "deadline")),
        )
        return self._map(command, Chunks(items, call.encode, digests=bool(key)), call)

    async def map_async(
        self, function: Callable[[A], R], items: Iterable[A], **options: Any
    ) -> Job[R]:
        """`map` without holding up the event loop while the job is being written."""
        return await asyncio.to_thread(lambda: self.map(function, items, **options))

    def array(
        self,
        function: Callable[..., R],
        count: int,
        /,
        *args: Any,
        key: str | None = None,
        name: str | None = None,
        bundle: str | PathLike[str] | Bundle | None = None,
        **kwargs: Any,
    ) -> Job[R]:
        """Run `function(index, *args, **kwargs)` for every index below `count`: one record, and a
        byte a task, however many there are."""
        words = {"key": key, "name": name, "bundle": bundle}
        call = self._bundled(array_call(function, args, kwargs, words=words), bundle)
        command = c.SubmitJob(
            spec=call.spec,
            key=text(key, "key"),
            digest=digest_of(call.spec, call.payload, str(count).encode()) if key else b"",
            count=whole(count, "count"),
            shared=call.payload,
        )
        return Job(self._backend, self._backend.submit(command), call.decode)

    def bundle(self, folder: str | PathLike[str]) -> Bundle:
        """Bring a folder of code to the server, once for many calls: `submit(…, bundle=…)`."""
        return self._backend.bundle(folder)

    def schedule(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        cron: str | None = None,
        every: Duration | None = None,
        zone: str = "UTC",
        missed: str = ONE,
        overlap: str = SKIP,
        start: datetime | None = None,
        replace: bool = False,
        pickle: bool | None = None,
        bundle: str | PathLike[str] | Bundle | None = None,
        **kwargs: Any,
    ) -> Schedule:
        """Run a call again and again: by a `cron` expression read in `zone`, or `every` so often.

        `missed` says what becomes of instants that passed while nobody was there (`skip`, `one`,
        `all`), `overlap` of one that comes while the run before goes on (`allow`, `skip`,
        `replace`). The same schedule again changes nothing, so a program may say it at every
        start; another under the same name is refused unless `replace`. An argument that is
        `holdfast.scheduled_at` is given each run as the instant it is for.
        """
        words = {
            "cron": cron, "every": every, "start": start, "pickle": pickle, "bundle": bundle,
            "name": None,
        }  # fmt: skip
        timing = timing_of(cron, every, zone)
        check_policies(missed, overlap)
        call = single_call(function, args, kwargs, words=words, caller="schedule")
        call = self._bundled(call, bundle)
        definition = Definition(
            timing=timing, spec=call.spec, items=(call.payload,), missed=missed, overlap=overlap
        )
        self._backend.schedules.set(
            text(name, "name"), definition, start=wall_ms(start, "start"), replace=replace
        )
        return self.find_schedule(name)

    # Finding and tending it.

    def find_schedule(self, name: str) -> Schedule:
        """A schedule by its name; whether there is one shows when it is asked for something."""
        return Schedule(self._backend.schedules, name, self.job)

    def schedules(self) -> list[Schedule]:
        """All schedules, by name."""
        return [self.find_schedule(view["name"]) for view in self._backend.schedules.known()]

    def job(self, job_id: str) -> Job[Any]:
        """A job that was submitted before, in this run of the program or an earlier one."""
        found = self._backend.find(JobId(str(job_id)))
        return Job(self._backend, found.feed, decoder_of(found.kind, found.target))

    def retry(self, job_id: str, *indices: int) -> int:
        """Send quarantined tasks back with fresh budgets; how many went."""
        chosen = tuple(Index(whole(index, "index")) for index in indices)
        return self._backend.retry(JobId(str(job_id)), chosen)

    def reschedule(
        self, task_id: str, *, delay: Duration | None = None, not_before: datetime | None = None
    ) -> None:
        """Move a waiting task: to after `delay`, or to a calendar instant; neither means now."""
        job_id, index = _parsed(task_id)
        self._backend.reschedule(
            job_id,
            index,
            delay_ms=duration_ms(delay, "delay"),
            not_before_wall=wall_ms(not_before, "not_before"),
        )

    def cancel(self, task_id: str, reason: str = "") -> bool:
        """Stop one task (`JOB/INDEX`); its job goes on. False when it had ended already."""
        job_id, index = _parsed(task_id)
        return self._backend.cancel_task(job_id, index, reason)

    def transactions(self, limit: int = 100) -> list[Transaction]:
        """What happened last, oldest first: each accepted command with what it made true."""
        return self._backend.transactions(limit)

    def refusals(self) -> dict[str, int]:
        """How often something was refused since the coordinator began, by reason code."""
        return self._backend.refusals()

    # Leaving.

    def close(self) -> None:
        """Feed what is being fed; then let the folder go, with a grace for what runs and the rest
        released, or the server, where everything goes on."""
        if self._backend.is_foreign():
            return
        try:
            for feeder in self._feeders:
                feeder.finish()
        except BaseException:
            # Interrupted while feeding: leave at once what would have been waited for.
            self.abort()
            raise
        self._leave()

    def abort(self) -> None:
        """Leave without waiting for feeders: what is not recorded was never acknowledged."""
        if not self._backend.is_foreign():
            for feeder in self._feeders:
                feeder.stop()
            self._leave()

    def __enter__(self) -> "Holdfast":
        self._backend.check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    async def __aenter__(self) -> "Holdfast":
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        await asyncio.to_thread(self.__exit__, kind)

    def __repr__(self) -> str:
        return f"<holdfast {self._backend.describe()}>"

    # How it is done.

    def _leave(self) -> None:
        atexit.unregister(self.abort)
        self._backend.close(self._grace_ms)

    def _bundled(self, call: Call, bundle: str | PathLike[str] | Bundle | None) -> Call:
        """The same call with its code brought along."""
        if bundle is None:
            return call
        known = bundle if isinstance(bundle, Bundle) else self._backend.bundle(bundle)
        target = target_inside(call.spec.target, known)
        spec = structs.replace(call.spec, bundle=known.digest, target=target)
        return structs.replace(call, spec=spec)

    def _map(self, command: c.SubmitJob, chunks: Chunks, call: Call) -> Job[Any]:
        feed = self._backend.submit(command)
        fed = self._resume(feed.job_id, chunks) if command.key else 0
        if fed < 0:
            return Job(self._backend, feed, call.decode)
        feeder = Feeder(self._backend, feed, chunks, fed)
        with self._feeding:
            self._feeders = [known for known in self._feeders if not known.is_over]
            self._feeders.append(feeder)
        feeder.start()
        return Job(self._backend, feed, call.decode, feeder)

    def _resume(self, job_id: JobId, chunks: Chunks) -> int:
        """How many items the job has already; -1 where it is sealed and needs none."""
        known = self._backend.fed(job_id)
        found = chunks.skip(known.count)
        same = found == known.count and (not known.count or chunks.digest() == known.digest)
        # A job that was stopped never took all its items; it is the same job all the same.
        if not same or (known.sealed and not known.stopped and chunks.has_more()):
            raise Refused(
                "key_reused",
                f"job {job_id} under this key was fed other items; use another key",
            )
        return -1 if known.sealed else known.count


def _parsed(task_id: str) -> tuple[JobId, Index]:
    parsed = parse_task_name(task_id)
    if parsed is None:
        raise Refused("invalid", f"{task_id!r} is not a task; write JOB/INDEX, such as 12/0")
    return parsed
