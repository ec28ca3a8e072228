"""What a program holds: an open folder or a server, and functions to run durably there."""

import asyncio
import atexit
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from inspect import signature
from os import PathLike
from typing import Any, ParamSpec, TypeVar

from msgspec import structs

from holdfast.client.backend import Backend
from holdfast.client.bulk import Bulk
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
from holdfast.client.foreseen import Foreseen
from holdfast.client.handles import Handle, Job
from holdfast.client.placing import Keys, Texts
from holdfast.client.schedules import Schedule, check_policies, timing_of
from holdfast.client.tending import Tending
from holdfast.client.ties import Earlier, JobNamed, ties_from
from holdfast.core import commands as c
from holdfast.core.ids import Instant, JobId
from holdfast.core.schedule import ONE, SKIP, Definition
from holdfast.wire.amounts import Duration, duration_ms, text, wall_ms, whole

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")

DEFAULT_GRACE: Duration = 10.0


class Holdfast(Tending, Bulk):
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
        resources: dict[str, float] | None = None,
        require: Texts | None = None,
        prefer: Texts | None = None,
        spread: str | None = None,
        gang: bool | None = None,
        gang_by: str | None = None,
        preempt: bool | None = None,
        concurrency: Keys | None = None,
        after: Earlier | Iterable[Earlier] | None = None,
        on_failed_parent: str | None = None,
        parent: JobNamed | None = None,
        detached: bool = False,
        unique_for: Duration | None = None,
        existing: str | None = None,
        must_fit: bool = False,
        **kwargs: Any,
    ) -> Handle[R]:
        """Run one call, durably. When this returns the call is recorded and will not be lost.

        `key` makes a repeat find the first call instead of making a second one. `bundle` is a
        folder of code for the workers of a server, or what `bundle()` made of one: they look for
        modules there first. The words from `resources` on say where it may run, after what and
        instead of what: see docs/placing.md.
        """
        words = {
            "key": key, "name": name, "delay": delay,
            "not_before": not_before, "deadline": deadline, "pickle": pickle, "bundle": bundle,
            "resources": resources, "require": require, "prefer": prefer, "spread": spread,
            "gang": gang, "gang_by": gang_by, "preempt": preempt, "concurrency": concurrency,
            "after": after, "on_failed_parent": on_failed_parent, "parent": parent,
            "detached": detached or None, "unique_for": unique_for, "existing": existing,
            "must_fit": must_fit or None,
        }  # fmt: skip
        call = self._bundled(single_call(function, args, kwargs, words=words), bundle)
        command = _command(call, words, call.payload, items=(call.payload,))
        feed = self._backend.submit(command, must_fit=must_fit)
        return Handle(self._backend, feed, call.decode)

    def foresee(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Foreseen:
        """What `submit` of the same call would come to: whether it would start now, or every
        reason why not. Nothing is recorded; what would be refused is refused."""
        known = signature(Holdfast.submit).parameters.values()
        names = [each.name for each in known if each.kind is each.KEYWORD_ONLY]
        words = {name: kwargs.pop(name, None) or None for name in names if name != "pickle"}
        words["pickle"] = kwargs.pop("pickle", None)
        call = self._bundled(single_call(function, args, kwargs, words=words), words["bundle"])
        command = _command(call, words, call.payload, items=(call.payload,))
        return self._backend.foresee(command, must_fit=bool(words["must_fit"]))

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
        resources: dict[str, float] | None = None,
        require: Texts | None = None,
        prefer: Texts | None = None,
        spread: str | None = None,
        gang: bool | None = None,
        gang_by: str | None = None,
        preempt: bool | None = None,
        concurrency: Keys | None = None,
        after: Earlier | Iterable[Earlier] | None = None,
        on_failed_parent: str | None = None,
        parent: JobNamed | None = None,
        detached: bool = False,
        unique_for: Duration | None = None,
        existing: str | None = None,
        must_fit: bool = False,
    ) -> Job[R]:
        """Run the function once for each item. Items are taken lazily, in chunks, by a thread that
        stays a window ahead of the workers; leaving waits until all are recorded. Those of a gang
        are taken at once, since it starts whole.

        With a `key`, the same map started again after a crash goes on where its feeding stopped.
        """
        words = {
            "key": key, "name": name, "max_parallel": max_parallel, "delay": delay,
            "max_failed_tasks": max_failed_tasks, "not_before": not_before,
            "deadline": deadline, "pickle": pickle, "bundle": bundle,
            "resources": resources, "require": require, "prefer": prefer, "spread": spread,
            "gang": gang, "gang_by": gang_by, "preempt": preempt, "concurrency": concurrency,
            "after": after, "on_failed_parent": on_failed_parent, "parent": parent,
            "detached": detached or None, "unique_for": unique_for, "existing": existing,
            "must_fit": must_fit or None,
        }  # fmt: skip
        call = self._bundled(map_call(function, words=words), bundle)
        if call.spec.placing.gang:
            whole_gang = tuple(map(call.encode, items))
            command = _command(call, words, *whole_gang, items=whole_gang)
            feed = self._backend.submit(command, must_fit=must_fit)
            return Job(self._backend, feed, call.decode)
        command = _command(call, words, sealed=False)
        return self._map(command, Chunks(items, call.encode, digests=bool(key)), call, must_fit)

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
        resources: dict[str, float] | None = None,
        require: Texts | None = None,
        prefer: Texts | None = None,
        spread: str | None = None,
        gang: bool | None = None,
        gang_by: str | None = None,
        preempt: bool | None = None,
        concurrency: Keys | None = None,
        after: Earlier | Iterable[Earlier] | None = None,
        on_failed_parent: str | None = None,
        parent: JobNamed | None = None,
        detached: bool = False,
        unique_for: Duration | None = None,
        existing: str | None = None,
        must_fit: bool = False,
        **kwargs: Any,
    ) -> Job[R]:
        """Run `function(index, *args, **kwargs)` for every index below `count`: one record, and a
        byte a task, however many there are."""
        words = {
            "key": key, "name": name, "bundle": bundle,
            "resources": resources, "require": require, "prefer": prefer, "spread": spread,
            "gang": gang, "gang_by": gang_by, "preempt": preempt, "concurrency": concurrency,
            "after": after, "on_failed_parent": on_failed_parent, "parent": parent,
            "detached": detached or None, "unique_for": unique_for, "existing": existing,
            "must_fit": must_fit or None,
        }  # fmt: skip
        call = self._bundled(array_call(function, args, kwargs, words=words), bundle)
        counted = whole(count, "count")
        digested = (call.payload, str(count).encode())
        command = _command(call, words, *digested, count=counted, shared=call.payload)
        feed = self._backend.submit(command, must_fit=must_fit)
        return Job(self._backend, feed, call.decode)

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

    def _map(
        self, command: c.SubmitJob, chunks: Chunks, call: Call, must_fit: bool
    ) -> Job[Any]:
        feed = self._backend.submit(command, must_fit=must_fit)
        fed = self._resume(feed.job_id, chunks) if command.key else 0
        if fed < 0:
            return Job(self._backend, feed, call.decode)
        feeder = Feeder(self._backend, feed, chunks, fed)
        with self._feeding:
            self._feeders = [known for known in self._feeders if not known.is_over]
            self._feeders.append(feeder)
        self._start(feeder)
        return Job(self._backend, feed, call.decode, feeder)

    def _start(self, feeder: Feeder) -> None:
        feeder.start()

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


def _command(call: Call, words: Mapping[str, Any], *digested: bytes, **work: Any) -> c.SubmitJob:
    """What is asked for: the call, when, tied to what. A key stands for the call and what is
    `digested` besides."""
    key = text(words["key"], "key")
    return c.SubmitJob(
        spec=call.spec,
        key=key,
        digest=digest_of(call.spec, *digested) if key else b"",
        delay_ms=duration_ms(words.get("delay"), "delay"),
        not_before_wall=Instant(wall_ms(words.get("not_before"), "not_before")),
        deadline_wall=Instant(wall_ms(words.get("deadline"), "deadline")),
        **ties_from(words),
        **work,
    )
