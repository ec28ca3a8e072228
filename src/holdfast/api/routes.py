"""Everything that can be asked: method, path, who may, what it takes and what it is for.

The table is the one place where a route is declared. Whatever is not in it is not there.
"""

from typing import Final

from msgspec import Struct

from holdfast.api import (
    audit,
    bundles,
    circuits,
    doctor,
    documents,
    effects,
    endpoints,
    events,
    exchange,
    explain,
    health,
    jobs,
    limiting,
    lineage,
    logs,
    metrics,
    operations,
    quarantine,
    questions,
    queues,
    results,
    runtime_changes,
    runtimes,
    schedules,
    stalls,
    tasks,
    tokens,
    transactions,
    watch,
    workers,
)
from holdfast.api.call import Answer, Call, Text
from holdfast.api.contents import BYTES
from holdfast.api.identity import PUBLIC
from holdfast.api.route import PREFIX, Answerer, Route
from holdfast.wire import bodies
from holdfast.wire import operations as bulk
from holdfast.wire import schedules as timetables
from holdfast.wire.exchange import Exchange

__all__ = ["PREFIX", "TABLE", "Route"]

EXCHANGE_BYTES: Final = 8 * 1024 * 1024
BUNDLE_BYTES: Final = 4 * 1024 * 1024 * 1024
RESULT_BYTES: Final = 4 * 1024 * 1024 * 1024
"""More than any server takes: what one does take is the setting of its store."""
CASES: Final = "reason job fingerprint older_than name cursor"
HTML: Final = "text/html; charset=utf-8"


def _get(path: str, scope: str, answer: Answerer, query: str = "", answers: str = "") -> Route:
    told = answers or "application/json"
    return Route("GET", path, scope, answer, query=tuple(query.split()), answers=told)


def _post(
    path: str, scope: str, answer: Answerer, body: type[Struct] | None = None, status: int = 200
) -> Route:
    return Route("POST", path, scope, answer, body, status=status)


async def openapi(call: Call) -> Answer:
    """This interface as an OpenAPI document."""
    return Answer(documents.openapi(TABLE), tagged=True)


async def docs(call: Call) -> Text:
    """This interface as a page."""
    return Text(HTML, documents.page(TABLE))


TABLE: Final[tuple[Route, ...]] = (
    Route(
        "POST", "/exchange", "worker", exchange.exchange, Exchange,
        most_bytes=EXCHANGE_BYTES, keyed=False,
    ),
    _get("/livez", PUBLIC, health.livez),
    _get("/readyz", PUBLIC, health.readyz, "verbose"),
    _get("/healthz", PUBLIC, health.readyz, "verbose"),
    _get("/version", "read", health.version),
    _get("/metrics", "read", metrics.metrics, answers="text/plain"),
    _get("/doctor", "read", doctor.show),
    Route("POST", "/doctor/repair", "admin", doctor.repair, bodies.Repairs, keyed=False),
    Route("POST", "/doctor/check", "operator", doctor.check, keyed=False),
    _get("/openapi.json", "read", openapi),
    _get("/docs", "read", docs, answers="text/html"),
    Route(
        "POST", "/jobs", "submit", jobs.submit, bodies.Submit, status=201, query=("dry_run",),
    ),
    _get("/jobs", "read", jobs.list_jobs, "state name label namespace queue limit cursor"),
    _get("/jobs/{id}", "read", jobs.show, "wait"),
    _post("/jobs/{id}/items", "submit", jobs.add_items, bodies.Items),
    _post("/jobs/{id}/seal", "submit", jobs.seal, bodies.Seal),
    _post("/jobs/{id}/alive", "submit", jobs.alive),
    _post("/jobs/{id}/cancel", "cancel", jobs.cancel, bodies.Reason),
    _post("/jobs/{id}/retry", "operator", jobs.retry, bodies.Retries),
    _get("/jobs/{id}/explain", "read", explain.explain_job, "level"),
    _get("/explain/summary", "read", explain.summary),
    _get("/jobs/{id}/tasks", "read", tasks.list_tasks, "state limit cursor"),
    _get("/jobs/{id}/outcomes", "read", tasks.outcomes, "indices"),
    _get("/tasks/{job}/{index}", "read", tasks.show),
    Route("GET", "/tasks/{job}/{index}/result", "read", results.get, answers=BYTES),
    _get("/tasks/{job}/{index}/explain", "read", explain.explain_task, "level"),
    _get("/tasks/{job}/{index}/history", "read", tasks.history),
    _post("/tasks/{job}/{index}/cancel", "cancel", tasks.cancel, bodies.Reason),
    _post("/tasks/{job}/{index}/reschedule", "operator", tasks.reschedule, bodies.Reschedule),
    _post("/tasks/{job}/{index}/force", "operator", quarantine.force, bodies.Force),
    _get("/quarantine", "read", quarantine.list_cases, f"{CASES} limit"),
    _get("/quarantine/groups", "read", quarantine.list_groups, CASES),
    _get("/quarantine/stats", "read", quarantine.stats, CASES),
    _post("/quarantine/retry", "operator", quarantine.retry, bodies.ChosenCases),
    _post("/quarantine/purge", "operator", quarantine.purge, bodies.ChosenCases),
    _get("/quarantine/{job}/{index}", "read", quarantine.show),
    _get("/effects", "read", effects.list_effects, "state sink job kind limit cursor"),
    _get("/effects/{job}/{entry}", "read", effects.show),
    _post("/effects/retry", "operator", effects.retry, bodies.ChosenEffects),
    _post("/effects/discard", "operator", effects.discard, bodies.ChosenEffects),
    _get("/stalls", "read", stalls.list_stalls, "kind limit cursor"),
    _post("/stalls/approve", "operator", stalls.approve, bodies.ChosenStalls),
    _post("/operations", "cancel", operations.begin, bulk.NewOperation),
    _get("/operations", "read", operations.list_operations),
    _get("/operations/{id}", "read", operations.show, "wait"),
    _post("/operations/{id}/undo", "operator", operations.undo, bulk.Undo),
    _post("/operations/{id}/resume", "cancel", operations.resume),
    _get("/workers", "read", workers.list_workers),
    _get("/workers/{name}", "read", workers.show),
    _post("/workers/{name}/cordon", "operator", workers.cordon, bodies.Reason),
    _post("/workers/{name}/uncordon", "operator", workers.uncordon, bodies.Reason),
    _post("/workers/{name}/drain", "operator", workers.drain, bodies.Reason),
    _get("/leases", "read", workers.leases, "limit cursor"),
    _get("/transactions", "read", transactions.list_transactions, "limit cursor"),
    _get(
        "/audit", "read", audit.list_entries,
        "operator command job task since until refused limit cursor",
    ),
    _get("/audit/head", "read", audit.head),
    _get("/audit/export", "read", audit.export, "first last", audit.CONTENT_TYPE),
    Route("POST", "/query", "admin", questions.query, bodies.Query, keyed=False),
    _get("/query/export", "admin", questions.export, "at", questions.SQLITE),
    _get("/diff", "admin", questions.diff, "from to"),
    _get("/events", "read", events.follow, "since", "text/event-stream"),
    _get("/queues", "read", queues.list_queues),
    _post("/queues/{name}/pause", "operator", queues.pause, bodies.Reason),
    _post("/queues/{name}/resume", "operator", queues.resume, bodies.Reason),
    _get("/log", "read", lineage.show),
    _post("/log/resume", "operator", lineage.resume, bodies.Reason),
    _post("/log/compact", "admin", lineage.compacted, bodies.Reason),
    _get("/circuits", "read", circuits.list_circuits),
    _post("/circuits/{kind}/{name}/open", "operator", circuits.open_circuit, bodies.Reason),
    _post("/circuits/{kind}/{name}/close", "operator", circuits.close_circuit, bodies.Reason),
    _get("/limits", "read", limiting.list_limits),
    _get("/limits/{scope}/{name}", "read", limiting.show),
    Route("PUT", "/limits/{scope}/{name}", "operator", limiting.set_limit, bodies.NewLimit),
    Route("PATCH", "/limits/{scope}/{name}", "operator", limiting.change, bodies.NewLimit),
    Route("DELETE", "/limits/{scope}/{name}", "operator", limiting.clear),
    _get("/schedules", "read", schedules.list_schedules, "namespace"),
    _post("/schedules", "submit", schedules.create, timetables.NewSchedule, 201),
    _get("/schedules/{name}", "read", schedules.show),
    Route("PUT", "/schedules/{name}", "operator", schedules.replace, timetables.Timetable),
    Route("DELETE", "/schedules/{name}", "operator", schedules.remove),
    _get("/schedules/{name}/next", "read", schedules.next_instants, "count"),
    _post("/schedules/{name}/pause", "operator", schedules.pause, bodies.Reason),
    _post("/schedules/{name}/resume", "operator", schedules.resume, bodies.Reason),
    _post("/schedules/{name}/run", "submit", schedules.run, bodies.Reason, 201),
    _post("/schedules/{name}/backfill", "submit", schedules.backfill, timetables.Range),
    _get("/runtimes", "read", runtimes.list_runtimes, "label limit cursor"),
    Route(
        "POST", "/runtimes", "operator", runtimes.apply,
        status=201, query=("dry_run",), takes="application/json", schema=documents.MANIFEST,
    ),
    _get("/runtimes/{name}", "read", runtimes.show, "wait version"),
    Route(
        "PUT", "/runtimes/{name}", "operator", runtimes.replace,
        status=201, takes="application/json", schema=documents.MANIFEST,
    ),
    Route("DELETE", "/runtimes/{name}", "operator", runtimes.remove),
    _get("/runtimes/{name}/events", "read", runtimes.events),
    _get("/watch/runtimes", "read", runtime_changes.watch, "name since", "text/event-stream"),
    _get("/endpoints", "read", endpoints.list_endpoints, "name prefix"),
    Route("PUT", "/endpoints/{name}", "worker", endpoints.register, bodies.NewEndpoint),
    Route(
        "DELETE", "/endpoints/{name}", "worker", endpoints.remove,
        query=("job_id", "index", "lease_id", "worker", "incarnation"),
    ),
    Route(
        "PUT", "/bundles/{digest}", "submit", bundles.put,
        most_bytes=BUNDLE_BYTES, status=201, raw=True,
    ),
    Route("HEAD", "/bundles/{digest}", "read", bundles.look, answers=BYTES, also="worker"),
    Route("GET", "/bundles/{digest}", "read", bundles.get, answers=BYTES, also="worker"),
    Route(
        "PUT", "/results/{digest}", "worker", results.put,
        most_bytes=RESULT_BYTES, status=201, raw=True,
    ),
    Route("HEAD", "/results/{digest}", "worker", results.look, answers=BYTES),
    _get("/tokens", "admin", tokens.list_tokens),
    _post("/tokens", "admin", tokens.issue, bodies.NewToken, 201),
    Route("DELETE", "/tokens/{id}", "admin", tokens.revoke),
    *logs.ROUTES,
    _get("/watch", "read", watch.listen, answers="application/x-holdfast-watch"),
    _post("/watch/{stream}", "read", watch.add, bodies.Watch),
)  # fmt: skip
