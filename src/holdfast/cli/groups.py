"""The nouns of the command line and what can be done with each."""

from holdfast.cli.lazy import LazyCommands

job = LazyCommands(
    {
        "list": ("holdfast.cli.jobs:list_jobs", "List jobs, newest first."),
        "show": ("holdfast.cli.jobs:show_job", "Show one job, or several."),
        "explain": ("holdfast.cli.explaining:explain_job", "Say why a job is where it is."),
        "wait": ("holdfast.cli.waiting:wait", "Wait until jobs have ended."),
        "cancel": ("holdfast.cli.deciding:cancel_job", "Stop jobs."),
        "retry": ("holdfast.cli.deciding:retry_job", "Send failed tasks back, budgets anew."),
        "logs": ("holdfast.cli.joblogs:job_logs", "Print what its tasks have printed."),
        "get": ("holdfast.cli.jobs:list_jobs", ""),
        "describe": ("holdfast.cli.jobs:show_job", ""),
    },
    name="job",
    help="List jobs, show them, wait for them, stop them.\n\n"
    "JOB is an id, the beginning of one, `last`, `all`, or numbers such as 1-10 or 1-10:2.",
)

task = LazyCommands(
    {
        "list": ("holdfast.cli.tasks:list_tasks", "List the tasks of one job."),
        "show": ("holdfast.cli.tasks:show_task", "Show tasks with all their attempts."),
        "explain": ("holdfast.cli.explaining:explain_task", "Say why a task is where it is."),
        "history": ("holdfast.cli.explaining:history", "Show all that happened to a task."),
        "logs": ("holdfast.cli.joblogs:task_logs", "Print what a task has printed."),
        "cancel": ("holdfast.cli.deciding:cancel_task", "Stop tasks; their job goes on."),
        "retry": ("holdfast.cli.deciding:retry_task", "Send failed tasks back, budgets anew."),
        "reschedule": ("holdfast.cli.deciding:reschedule", "Move when waiting tasks may begin."),
        "force": ("holdfast.cli.quarantine_orders:force", "Move one by hand, for a reason."),
        "get": ("holdfast.cli.tasks:list_tasks", ""),
        "describe": ("holdfast.cli.tasks:show_task", ""),
    },
    name="task",
    help="List the tasks of a job, show one with its attempts, stop or move it.\n\n"
    "Tasks are written JOB/3, JOB/3-7 or JOB/0-9:2.",
)

worker = LazyCommands(
    {
        "start": ("holdfast.cli.worker_start:start", "Work for a server, here."),
        "deliver": ("holdfast.cli.worker_deliver:deliver", ""),
        "list": ("holdfast.cli.fleet:list_workers", "List the workers of a server."),
        "show": ("holdfast.cli.fleet:show_worker", "Show one worker and what it holds."),
        "cordon": ("holdfast.cli.fleet:cordon", "Give a worker nothing more."),
        "uncordon": ("holdfast.cli.fleet:uncordon", "Give a worker work again."),
        "drain": ("holdfast.cli.fleet:drain", "Cordon a worker and ask back what waits there."),
        "token": ("holdfast.cli.tokens:worker_token", "Let workers elsewhere in: what to paste."),
        "get": ("holdfast.cli.fleet:list_workers", ""),
        "describe": ("holdfast.cli.fleet:show_worker", ""),
    },
    name="worker",
    help="Start workers, look at them, take them out of service.",
)

token = LazyCommands(
    {
        "create": ("holdfast.cli.tokens:create", "Make a token and print it, once."),
        "list": ("holdfast.cli.tokens:list_tokens", "List the tokens that open something."),
        "revoke": ("holdfast.cli.tokens:revoke", "Have tokens open nothing any more."),
    },
    name="token",
    help="Decide who may ask a server for what.",
)

circuit = LazyCommands(
    {
        "list": ("holdfast.cli.circuits:list_circuits", "List circuits that are not at rest."),
        "open": ("holdfast.cli.circuits:open_circuit", "Give nothing out for a function or sink."),
        "close": ("holdfast.cli.circuits:close_circuit", "Give everything out again."),
        "get": ("holdfast.cli.circuits:list_circuits", ""),
    },
    name="circuit",
    help="See which functions and sinks failed so often that they rest; open and close them.\n\n"
    "A circuit is named function/MODULE:NAME or sink/NAME.",
)

limit = LazyCommands(
    {
        "list": ("holdfast.cli.limits:list_limits", "List limits and how much is in use."),
        "show": ("holdfast.cli.limits:show_limit", "Show one limit."),
        "set": ("holdfast.cli.limits:set_limit", "Bound a namespace, a user or a key."),
        "clear": ("holdfast.cli.limits:clear", "Bound them no more."),
        "get": ("holdfast.cli.limits:list_limits", ""),
        "describe": ("holdfast.cli.limits:show_limit", ""),
    },
    name="limit",
    help="Bound how much a namespace, a user or a key has running, and starts.\n\n"
    "A limit is named namespace/NAME, user/NAME or key/NAME.",
)

schedule = LazyCommands(
    {
        "create": ("holdfast.cli.schedules:create", "Have a command run again and again."),
        "list": ("holdfast.cli.timetables:list_schedules", "List schedules, by name."),
        "show": ("holdfast.cli.timetables:show", "Show schedules and when they come next."),
        "next": ("holdfast.cli.timetables:coming", "Show the next instants of a schedule."),
        "pause": ("holdfast.cli.schedules:pause", "Begin nothing more by the clock."),
        "resume": ("holdfast.cli.schedules:resume", "Go on with the next instant from now."),
        "run": ("holdfast.cli.schedules:run", "Run a schedule's command now."),
        "backfill": ("holdfast.cli.schedules:backfill", "Run instants of the past."),
        "delete": ("holdfast.cli.schedules:delete", "Remove schedules; what runs goes on."),
        "get": ("holdfast.cli.timetables:list_schedules", ""),
        "describe": ("holdfast.cli.timetables:show", ""),
    },
    name="schedule",
    help="Have commands run again and again: by a cron expression in a time zone, or every so "
    "often.",
)

runtime = LazyCommands(
    {
        "list": ("holdfast.cli.runtimes:list_runtimes", "List class runtimes, by name."),
        "show": ("holdfast.cli.runtimes:show", "Show why a runtime is up, or is not."),
        "events": ("holdfast.cli.runtimes:events", "Show what was told about a runtime."),
        "schema": ("holdfast.cli.schemas:schema", "Print what a manifest may say, for editors."),
        "wait": ("holdfast.cli.runtime_waiting:wait", "Wait until runtimes are available."),
        "delete": ("holdfast.cli.runtimes:delete", "Take runtimes down."),
        "get": ("holdfast.cli.runtimes:list_runtimes", ""),
        "describe": ("holdfast.cli.runtimes:show", ""),
    },
    name="runtime",
    help="Look at class runtimes: functions that are declared by `holdfast apply` and kept up. "
    "Wait for them, take them down.",
)

effect = LazyCommands(
    {
        "list": ("holdfast.cli.effects:list_effects", "List what is owed, and why it still is."),
        "show": ("holdfast.cli.effects:show_effect", "Show one with its body and its tries."),
        "retry": ("holdfast.cli.effects:retry", "Have them tried again, budgets anew."),
        "discard": ("holdfast.cli.effects:discard", "Give them up, for a reason."),
        "get": ("holdfast.cli.effects:list_effects", ""),
        "describe": ("holdfast.cli.effects:show_effect", ""),
    },
    name="effect",
    help="Look at what commits owe: effects for sinks, staged files, blocks; retry what is parked, "
    "or give it up.\n\nAn effect is written JOB/INDEX.N, such as 12/3.0.",
)

audit = LazyCommands(
    {
        "list": ("holdfast.cli.audits:list_entries", "List who did what, and why."),
        "export": ("holdfast.cli.audits:export", "Write the trail to a file, line by line."),
        "verify": ("holdfast.cli.audits:verify", "Check that nobody changed it."),
        "head": ("holdfast.cli.audits:show_head", "Print the head of the log's chain."),
        "get": ("holdfast.cli.audits:list_entries", ""),
    },
    name="audit",
    help="See who did what and why; take the trail away as a file, and check that it is whole.",
)

operation = LazyCommands(
    {
        "list": ("holdfast.cli.operations:list_operations", "List what was done to many at once."),
        "show": ("holdfast.cli.operations:show_operation", "Show one, and how far it got."),
        "undo": ("holdfast.cli.operations:undo", "Take back what has not begun since."),
        "resume": ("holdfast.cli.operations:resume", "Go on with one that was cut off."),
        "get": ("holdfast.cli.operations:list_operations", ""),
        "describe": ("holdfast.cli.operations:show_operation", ""),
    },
    name="operation",
    help="Look at what was done to many jobs or tasks by one request, and take it back.",
)

quarantine = LazyCommands(
    {
        "list": ("holdfast.cli.quarantine:list_cases", "List it, the same failures together."),
        "show": ("holdfast.cli.quarantine:show_case", "Show why a task is there, and its errors."),
        "stats": ("holdfast.cli.quarantine:stats", "Count it by reason, function and worker."),
        "retry": ("holdfast.cli.quarantine_orders:retry", "Send tasks back; one as a canary."),
        "purge": ("holdfast.cli.quarantine_orders:purge", "Give tasks up, for a reason."),
        "get": ("holdfast.cli.quarantine:list_cases", ""),
        "describe": ("holdfast.cli.quarantine:show_case", ""),
    },
    name="quarantine",
    help="Look at the tasks that wait for you: those that spent a budget or were put aside. Send "
    "them back, or give them up.",
)

stall = LazyCommands(
    {
        "list": ("holdfast.cli.stalls:list_stalls", "List what hangs, and since when."),
        "show": ("holdfast.cli.stalls:show_stall", "Show one stall and what to do about it."),
        "approve": ("holdfast.cli.stalls:approve", "End attempts that hang, by their budgets."),
        "get": ("holdfast.cli.stalls:list_stalls", ""),
        "describe": ("holdfast.cli.stalls:show_stall", ""),
    },
    name="stall",
    help="Look at what hangs: attempts that tell nothing, leases that are too old, work that waits "
    "beside free room, ties that cannot settle, sinks where nothing arrives.",
)

queue = LazyCommands(
    {
        "list": ("holdfast.cli.queues:list_queues", "List queues and what waits in them."),
        "pause": ("holdfast.cli.queues:pause", "Give nothing more of a queue out."),
        "resume": ("holdfast.cli.queues:resume", "Give a queue out again."),
    },
    name="queue",
    help="Look at queues, pause and resume them.",
)

config = LazyCommands(
    {"show": ("holdfast.cli.settings:show", "Show settings and where each comes from.")},
    name="config",
    help="Look at the settings of this place.",
)

log = LazyCommands(
    {
        "verify": ("holdfast.cli.logs:verify", "Check every byte and what it adds up to."),
        "dump": ("holdfast.cli.logs:dump", "Print the events of a log."),
        "stats": ("holdfast.cli.logs:stats", "Measure a log."),
        "snapshot": ("holdfast.cli.logs:snapshot", "Make a snapshot now."),
        "fork": ("holdfast.cli.lineages:fork", "Make a new log that ends at a moment of this."),
        "salvage": ("holdfast.cli.lineages:salvage", "Make a new log of a damaged one."),
        "compact": ("holdfast.cli.compacting:compact", "Snapshot now, and drop what may go."),
        "archive": ("holdfast.cli.compacting:archive", "Put old history aside."),
        "upgrade": ("holdfast.cli.compacting:upgrade", "Say which releases wrote a log."),
        "resume": ("holdfast.cli.lineages:resume", "Let a forked or salvaged log work."),
    },
    name="log",
    help="Verify, dump or measure a log; snapshot it, fork it, salvage it.\n\n"
    "DIR is the data folder; it may be named by --data or the environment as well.",
)
