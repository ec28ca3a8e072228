"""Settings: from a flag, else the environment, else a file, else the default.

Files are read in this order, the first that names a setting wins: `./holdfast.toml` (or
`[tool.holdfast]` in `./pyproject.toml`), the user's `config.toml`, `/etc/holdfast/config.toml`.
`HOLDFAST_CONFIG` names one file to read instead of all of them. A key that nobody knows is a
mistake and is told with the file it stands in.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from holdfast.cli.errors import USAGE, Trouble

SINKS: Final = "sinks"
"""A section of its own kind: a table for each sink."""
SYSTEM_FILE: Final = Path("/etc/holdfast/config.toml")
PROJECT_FILE: Final = "holdfast.toml"
WORDS: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


class Setting(Struct, frozen=True):
    """`variable` is an environment name beside the general one (`HOLDFAST_SERVER__LISTEN`).
    `reloads`: a server takes a change of it up on SIGHUP, without being started again."""

    key: str
    kind: type
    default: Any
    about: str
    variable: str = ""
    reloads: bool = False

    def variables(self) -> tuple[str, ...]:
        general = "HOLDFAST_" + self.key.upper().replace(".", "__")
        return (self.variable, general) if self.variable else (general,)


def _live(key: str, kind: type, default: Any, about: str, variable: str = "") -> Setting:
    return Setting(key, kind, default, about, variable, reloads=True)


SETTINGS: Final = (
    Setting("client.server", str, "", "the server: a URL, or unix:PATH", "HOLDFAST_SERVER"),
    Setting("client.token_file", str, "", "the file that holds the token", "HOLDFAST_TOKEN_FILE"),
    Setting("client.ca_file", str, "", "whom to trust beside the system", "HOLDFAST_CA_FILE"),
    Setting("client.namespace", str, "default", "where jobs are submitted", "HOLDFAST_NAMESPACE"),
    Setting("client.output", str, "", "how answers are shown", "HOLDFAST_OUTPUT"),
    Setting("client.strict", bool, False, "be told of a repeat as an error", "HOLDFAST_STRICT"),
    Setting("server.data_dir", str, "", "the folder that is served", "HOLDFAST_DATA_DIR"),
    Setting("server.listen", str, "127.0.0.1:7700", "where to listen"),
    Setting("server.workers", int, 0, "how many workers to start beside the server"),
    Setting("server.lease_term", str, "15s", "how long a lease lives without renewal"),
    _live("server.token_file", str, "", "where the administrator's token is, or is written"),
    _live("server.tls_cert", str, "", "the certificate of the server"),
    _live("server.tls_key", str, "", "the key of that certificate"),
    Setting("server.insecure", bool, False, "allow other machines to connect without TLS"),
    _live("server.hosts", list, (), "other names this server is called by"),
    _live("server.rate", float, 5_000.0, "requests a second that one token may make"),
    Setting("server.access_log", bool, False, "log every request"),
    _live("server.history", str, "256Mi", "how much log is kept to look back on"),
    _live("server.archive", str, "", "where older log is moved; empty: it is deleted"),
    _live("server.keep_finished", int, 10_000, "how many finished jobs stay at hand"),
    _live("server.aging", str, "10m", "how long work waits to be a step more urgent; 0s: never"),
    _live(
        "server.cordon_after", int, 5,
        "cordon a worker that fails so many tasks which then go well elsewhere; 0: never",
    ),
    _live("server.strict", bool, False, "refuse a command that repeats what was done before"),
    _live("server.stall_timeout", str, "10m", "how long something may hang; 0s: never looked for"),
    _live("server.stall_recovery", str, "auto", "auto ends what hangs, ask waits for approval"),
    _live("server.stall_delay", str, "60s", "how long a task waits after an attempt that hung"),
    _live("server.jobs", int, 5_000_000, "how many jobs there may be before more are refused"),
    _live("server.followers", int, 100, "how many may follow the log at once"),
    _live("server.output_all", str, "1Gi", "how much of what tasks print is kept in all"),
    _live(
        "server.output_attempt", str, "8Mi",
        "how much of what one attempt prints is kept, half of it for each stream",
    ),
    _live("server.check_interval", str, "15m", "how often everything is checked; 0s: never"),
    _live(
        "server.on_violation", str, "tell",
        "what a check that found something wrong leads to: tell says so, stop stops serving",
    ),
    _live(
        "server.disk_low", str, "",
        "below so much free disk no more work is taken; empty: 5 % of it or 1Gi, the lesser",
    ),
    _live(
        "server.disk_stop", str, "",
        "below so much only what runs may end; empty: 1 % of it or 64Mi, the lesser",
    ),
    _live("server.result_size", str, "1Gi", "how large the result of a task may be"),
    _live("server.bundle_size", str, "64Mi", "how large one bundle of code may be"),
    _live("server.bundles_size", str, "4Gi", "how large all bundles may be together"),
    Setting("worker.name", str, "", "what the worker is called; empty: the host and a few letters"),
    Setting("worker.slots", int, 0, "how many tasks run at once; 0: one a processor and more"),
    Setting("worker.cpus", float, None, "processors to give out; unset: all"),
    Setting("worker.memory", str, "", "memory to give out; empty: all"),
    Setting("worker.gpus", int, 0, "GPUs to give out"),
    Setting("worker.resources", list, (), "named resources to give out, each NAME=N"),
    Setting("worker.attributes", list, (), "what to know about this worker, each KEY=VALUE"),
    Setting("worker.pickle", bool, False, "run pickled functions too"),
    Setting("worker.pass_env", list, (), "variables that commands get from the environment"),
    Setting("worker.secrets", str, "", "the folder of files that `secret:NAME` refers to"),
    Setting("worker.outputs", list, (), "folders that functions may stage files into; none: any"),
    Setting("worker.scratch", str, "", "where commands work; empty: the state folder"),
    Setting("worker.cgroup", str, "", "a control group (v2) for commands; empty: its own"),
    Setting("worker.bundles", str, "", "where bundles are unpacked; empty: the cache folder"),
    Setting("worker.bundles_size", str, "4Gi", "how much of them is kept"),
    Setting("worker.advertise", str, "", "where its services are reached; empty: it is found out"),
    Setting("worker.drain_timeout", str, "30s", "how long a leaving worker waits for what runs"),
    Setting("worker.exit_when_drained", bool, False, "end when an operator has drained it"),
    Setting("worker.connect_timeout", str, "10s", "how long the server may be away at the start"),
    _live("log.level", str, "info", "debug, info, warning or error", "HOLDFAST_LOG_LEVEL"),
    _live("log.format", str, "text", "text or json", "HOLDFAST_LOG_FORMAT"),
)  # fmt: skip
KNOWN: Final = {setting.key: setting for setting in SETTINGS}


class Found(Struct, frozen=True):
    """A value and where it was found."""

    value: Any
    source: str


class Config:
    """What the environment and the files say."""

    def __init__(self, environment: Mapping[str, str], files: list[tuple[Path, Any]]) -> None:
        self._environment = environment
        self._files = [(path, dict(_flat(path, tree))) for path, tree in files]
        # By file, and read only where they are used: `sinks_of` in `cli/sinks.py`.
        self.sinks = [(path, _sinks(path, tree)) for path, tree in files]

    def find(self, key: str, flag: Any = None) -> Found:
        """The value of a setting, from the nearest place that has one."""
        setting = KNOWN[key]
        if flag is not None and flag != ():
            return Found(flag, "the command line")
        for variable in setting.variables():
            text = self._environment.get(variable)
            if text:
                return Found(_read(setting, text, variable), variable)
        for path, values in self._files:
            if key in values:
                return Found(_checked(setting, values[key], path), str(path))
        return Found(setting.default, "the default")

    def get(self, key: str, flag: Any = None) -> Any:
        return self.find(key, flag).value

    def section(self, name: str, flags: Mapping[str, Any]) -> dict[str, Any]:
        """All settings of a section by their last names, the flags of the command first."""
        prefix = f"{name}."
        names = [key.removeprefix(prefix) for key in KNOWN if key.startswith(prefix)]
        return {each: self.get(prefix + each, flags.get(each)) for each in names}


def load_config(
    environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Config:
    """The settings of this process, read anew."""
    known = os.environ if environment is None else environment
    files = [(path, tree) for path in _places(known, folder or Path()) if (tree := _tree(path))]
    return Config(known, files)


def _places(environment: Mapping[str, str], folder: Path) -> Iterator[Path]:
    named = environment.get("HOLDFAST_CONFIG")
    if named:
        if not Path(named).is_file():
            raise Trouble(f"HOLDFAST_CONFIG names {named}, which is not there", USAGE)
        yield Path(named)
        return
    yield folder / PROJECT_FILE
    yield folder / "pyproject.toml"
    base = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    yield Path(base) / "holdfast" / "config.toml"
    yield SYSTEM_FILE


def _tree(path: Path) -> dict[str, Any]:
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        if path.name == "pyproject.toml":
            return {}  # It belongs to somebody else, and may be anything.
        raise Trouble(f"{path} cannot be read: {error}", USAGE) from error
    if path.name == "pyproject.toml":
        tools = tree.get("tool", {})
        tree = tools.get("holdfast", {}) if isinstance(tools, dict) else {}
    return tree


def _sinks(path: Path, tree: Mapping[str, Any]) -> Mapping[str, Any]:
    told = tree.get(SINKS, {})
    if not isinstance(told, dict):
        raise Trouble(f"{path}: {SINKS} must be tables, such as [{SINKS}.ledger]", USAGE)
    return told


def _flat(path: Path, tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for section, values in tree.items():
        if section == SINKS:
            continue
        if not isinstance(values, dict):
            raise Trouble(f"{path}: unknown setting {section!r}", USAGE)
        for name, value in values.items():
            key = f"{section}.{name}"
            if key not in KNOWN:
                near = [known for known in KNOWN if known.startswith(f"{section}.")]
                told = f"; there are {', '.join(near)}" if near else ""
                raise Trouble(f"{path}: unknown setting {key!r}{told}", USAGE)
            yield key, value


KINDS: Final = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list of texts",
}


def _checked(setting: Setting, value: Any, path: Path) -> Any:
    """What a file says, where it is of the right kind."""
    kind = setting.kind
    fits = isinstance(value, (int, float) if kind is float else kind)
    if kind is list:
        fits = fits and all(isinstance(each, str) for each in value)
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise Trouble(f"{path}: {setting.key} = {value!r} must be {KINDS[kind]}", USAGE)
    return tuple(value) if kind is list else kind(value)


def _read(setting: Setting, text: str, variable: str) -> Any:
    """What a variable says. The texts of a list have commas between them."""
    kind = setting.kind
    if kind is str:
        return text
    if kind is list:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    word = text.strip().lower()
    if kind is bool and word in WORDS:
        return WORDS[word]
    try:
        if kind is not bool:
            return kind(word)
    except ValueError:
        pass
    raise Trouble(f"{variable}={text!r} must be {KINDS[kind]}", USAGE)
