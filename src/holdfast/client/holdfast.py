"""The embedded Holdfast: a folder, and functions to run durably."""

import inspect
from collections.abc import Callable, Iterable
from datetime import datetime
from hashlib import blake2b
from typing import Any, ParamSpec, TypeVar

import msgspec

from holdfast.client.amounts import Duration, duration_ms, wall_ms
from holdfast.client.errors import Refused
from holdfast.client.feed import JobFeed
from holdfast.client.feeder import MAX_PAYLOAD_BYTES, Chunks, Feeder, too_large
from holdfast.client.handles import Decode, Handle, Job
from holdfast.client.local import Local
from holdfast.client.task import Options, options_of
from holdfast.core import commands as c
from holdfast.core.ids import Instant, JobId
from holdfast.core.spec import JobSpec
from holdfast.worker.functions import plain, reference, resolve
from holdfast.worker.payloads import decode_result, encode_call, pickled_target

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")

RESERVED = ("key", "name", "delay", "not_before", "deadline", "pickle")
DEFAULT_GRACE: Duration = 10.0


class Holdfast:
    """An open folder. Use it as a context manager, so that leaving it is orderly."""

    def __init__(self, local: Local, grace: Duration = DEFAULT_GRACE) -> None:
        self._local = local
        self._grace_ms = duration_ms(grace, "grace")
        self._feeders: list[Feeder] = []

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
        **kwargs: Any,
    ) -> Handle[R]:
        """Run one call, durably. When this returns the call is recorded and will not be lost.

        `key` makes a repeat find the first call instead of making a second one.
        """
        options = _chosen(function, pickle)
        _check_reserved(function, options)
        payload = encode_call(args, kwargs, pickle=options.pickle)
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise too_large(len(payload))
        spec = _spec(function, options, "function", name)
        job_id = self._submit(spec, key, (payload,), delay, not_before, deadline)
        return Handle(self._local, self._watch(job_id), _decoder(function, pickle=options.pickle))

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
    ) -> Job[R]:
        """Run the function once for each item. Items are taken lazily, in chunks.

        With a `key`, the same map started again after a crash goes on where its feeding stopped.
        """
        options = _chosen(function, pickle)
        if max_parallel is not None:
            options = msgspec.structs.replace(options, max_parallel=max_parallel)
        if max_failed_tasks is not None:
            options = msgspec.structs.replace(options, max_failed_tasks=max_failed_tasks)
        spec = _spec(function, options, "function", name)
        chunks = Chunks(
            items, lambda item: encode_call((item,), pickle=options.pickle), digests=bool(key)
        )
        decode = _decoder(function, pickle=options.pickle)
        digest = _digest(spec)
        command = c.SubmitJob(
            job_id=self._local.job_id(),
            spec=spec,
            key=key or "",
            digest=digest,
            sealed=False,
            delay_ms=duration_ms(delay, "delay"),
            not_before_wall=Instant(wall_ms(not_before, "not_before")),
            deadline_wall=Instant(wall_ms(deadline, "deadline")),
        )
        return self._map(command, chunks, decode)

    def array(
        self,
        function: Callable[..., R],
        count: int,
        /,
        *args: Any,
        key: str | None = None,
        name: str | None = None,
        pickle: bool | None = None,
        **kwargs: Any,
    ) -> Job[R]:
        """Run `function(index, *args, **kwargs)` for every index below `count`: one record, and a
        byte a task, however many there are."""
        if count < 1:
            raise Refused("invalid", f"an array needs at least one task, not {count}")
        options = _chosen(function, pickle)
        spec = _spec(function, options, "array", name)
        shared = encode_call(args, kwargs)
        if len(shared) > MAX_PAYLOAD_BYTES:
            raise too_large(len(shared))
        command = c.SubmitJob(
            job_id=self._local.job_id(),
            spec=spec,
            key=key or "",
            digest=_digest(spec, shared, str(count).encode()) if key else b"",
            count=count,
            shared=shared,
        )
        job_id = JobId(self._local.execute(command))
        return Job(self._local, self._watch(job_id), _decoder(function, pickle=options.pickle))

    def job(self, job_id: str) -> Job[Any]:
        """A job that was submitted before, in this run of the program or an earlier one."""
        feed = self._watch(JobId(job_id))
        spec = self._local.call(lambda coordinator: coordinator.state.jobs[JobId(job_id)].spec)
        return Job(self._local, feed, _decoder_of_spec(spec))

    # Looking after it.

    def retry(self, job_id: str, *indices: int) -> int:
        """Send quarantined tasks back with fresh budgets; how many went."""
        command = c.RetryTasks(job_id=JobId(job_id), indices=tuple(indices))  # type: ignore[arg-type]
        return int(self._local.execute(command))

    # Leaving.

    def close(self) -> None:
        """Feed what is being fed, stop granting, wait a grace, release the rest."""
        for feeder in self._feeders:
            feeder.finish()
        self._local.close(self._grace_ms)

    def abort(self) -> None:
        """Leave without waiting for feeders: what is not recorded was never acknowledged."""
        for feeder in self._feeders:
            feeder.stop()
        self._local.close(self._grace_ms)

    def __enter__(self) -> "Holdfast":
        self._local.check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    async def __aenter__(self) -> "Holdfast":
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.__exit__(kind, *rest)

    # How it is done.

    def _submit(
        self,
        spec: JobSpec,
        key: str | None,
        items: tuple[bytes, ...],
        delay: Duration | None,
        not_before: datetime | None,
        deadline: datetime | None,
    ) -> JobId:
        command = c.SubmitJob(
            job_id=self._local.job_id(),
            spec=spec,
            key=key or "",
            digest=_digest(spec, *items) if key else b"",
            items=items,
            delay_ms=duration_ms(delay, "delay"),
            not_before_wall=Instant(wall_ms(not_before, "not_before")),
            deadline_wall=Instant(wall_ms(deadline, "deadline")),
        )
        return JobId(self._local.execute(command))

    def _map(self, command: c.SubmitJob, chunks: Chunks, decode: Decode) -> Job[Any]:
        job_id = JobId(self._local.execute(command))
        feed = self._watch(job_id)
        if job_id == command.job_id:
            fed = 0
        else:
            fed = self._resume(job_id, chunks)
            if fed < 0:
                return Job(self._local, feed, decode)
        feeder = Feeder(self._local, feed, chunks, fed)
        self._feeders.append(feeder)
        feeder.start()
        return Job(self._local, feed, decode, feeder)

    def _resume(self, job_id: JobId, chunks: Chunks) -> int:
        """How many items the job has already; -1 where it is sealed and needs none."""

        def ask(coordinator: Any) -> tuple[int, bytes, bool]:
            job = coordinator.state.jobs[job_id]
            return job.count, job.digest, job.sealed

        count, digest, sealed = self._local.call(ask)
        found = chunks.skip(count)
        if found < count or (count and chunks.digest() != digest):
            raise Refused(
                "key_reused",
                f"job {job_id} under this key was fed other items: its first {count} differ",
            )
        return -1 if sealed else count

    def _watch(self, job_id: JobId) -> JobFeed:
        feed = JobFeed(job_id)
        if not self._local.call(lambda coordinator: coordinator.watchers.add(feed)):
            raise Refused("not_found", f"there is no job {job_id} in {self._local.path}")
        return feed


def _chosen(function: Callable[..., Any], pickle: bool | None) -> Options:
    options = options_of(function)
    return options if pickle is None else msgspec.structs.replace(options, pickle=pickle)


def _check_reserved(function: Callable[..., Any], options: Options) -> None:
    """A word that both submit and the function use would go to the wrong one: say so instead."""
    try:
        parameters = inspect.signature(plain(function)).parameters
    except (TypeError, ValueError):
        return
    clash = [word for word in RESERVED if word in parameters]
    if clash:
        raise TypeError(
            f"{plain(function).__name__} has a parameter {clash[0]!r}, which submit() uses "
            "itself; pass it by position through map(), or rename it"
        )


def _spec(
    function: Callable[..., Any], options: Options, kind: str, name: str | None
) -> JobSpec:
    inner = plain(function)
    if options.pickle:
        return options.spec("pickle", pickled_target(inner), name or inner.__name__)
    return options.spec(kind, reference(function), name or inner.__name__)


def _decoder(function: Callable[..., Any], *, pickle: bool) -> Decode:
    annotation = getattr(plain(function), "__annotations__", {}).get("return", Any)
    if isinstance(annotation, str):
        try:
            annotation = inspect.get_annotations(plain(function), eval_str=True).get("return", Any)
        except Exception:  # noqa: BLE001 - a hint that cannot be read is no hint
            annotation = Any
    return lambda data: decode_result(data, annotation, pickle=pickle)


def _decoder_of_spec(spec: JobSpec) -> Decode:
    """For a job found again: by its function's hints where the function can be found."""
    if spec.kind == "pickle":
        return lambda data: decode_result(data, pickle=True)
    try:
        return _decoder(resolve(spec.target), pickle=False)
    except Exception:  # noqa: BLE001 - results can be read without the code that made them
        return decode_result


def _digest(spec: JobSpec, *parts: bytes) -> bytes:
    """What a key stands for: the same call gives the same digest."""
    digest = blake2b(msgspec.msgpack.encode(spec), digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()
