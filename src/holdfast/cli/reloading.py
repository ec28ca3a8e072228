"""What `holdfast serve` was told, and what SIGHUP makes of it when it has changed.

Flags, variables and files are read the same way both times, so a server that took a change up
stands where one that was started anew would stand. Either all that can be taken up is, or, where
anything is wrong, nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, structs

from holdfast.api.credentials import Admission
from holdfast.api.limits import Limits
from holdfast.api.listening import parse_address
from holdfast.api.plan import Adjust, Plan
from holdfast.cli.config import KNOWN, load_config
from holdfast.cli.errors import USAGE, Trouble, say
from holdfast.cli.loglines import check_log_lines, log_to_stderr
from holdfast.cli.sinks import sinks_of
from holdfast.coordinator.output import Quota
from holdfast.coordinator.settings import ON_VIOLATION, RECOVERIES, Settings, one_of
from holdfast.core.errors import OperatingError
from holdfast.wire.amounts import duration_ms, size_bytes
from holdfast.wire.archives import LIMITS
from holdfast.wire.contents import INLINE_BYTES, RESULT_BYTES_MAX
from holdfast.wire.sinks import AnySink
from holdfast.wire.token_files import usual_token_file

SHORTEST_TERM_MS: Final = 1_000
STREAMS_OF_AN_ATTEMPT: Final = 2

ADMITTED: Final = {
    "new": "a new token was written to {}",
    "adopted": "the token in {} opens this log from now on",
    "foreign": "the token in {} does not open this log, which has other administrators",
}


class Chosen(Struct, frozen=True, kw_only=True):
    """All settings of a server by key, and the plan they make. `flags` outlive the files."""

    flags: Mapping[str, Any]
    values: Mapping[str, Any]
    plan: Plan


def choose(flags: Mapping[str, Any]) -> Chosen:
    """What flags, variables and files say now. A mistake is told and nothing is begun."""
    config = load_config()
    told = config.section("server", flags)
    values = {f"server.{name}": value for name, value in told.items()}
    values.update({f"log.{name}": value for name, value in config.section("log", {}).items()})
    sinks = {found.name: found.sink for found in sinks_of(config)}
    check_log_lines(values)
    try:
        return Chosen(flags=flags, values=values, plan=_plan(told, sinks))
    except ValueError as error:
        raise Trouble(str(error), USAGE) from None


def _plan(told: Mapping[str, Any], sinks: Mapping[str, AnySink]) -> Plan:
    address = parse_address(told["listen"])
    term_ms = duration_ms(told["lease_term"], "--lease-term")
    if term_ms < SHORTEST_TERM_MS:
        raise ValueError("--lease-term must be at least 1s, or healthy workers lose their work.")
    _check_certificate(told)
    if not address.is_local and not told["tls_cert"] and not told["insecure"]:
        raise ValueError(
            f"{told['listen']} can be reached from other machines, who could read every token on "
            "the way. Add --tls-cert and --tls-key, or --insecure if the network is yours alone."
        )
    token_file = Path(told["token_file"]) if told["token_file"] else usual_token_file()
    return Plan(
        address=address,
        token_file=token_file.absolute(),
        term_ms=term_ms,
        settings=_settings(told, sinks),
        output=Quota(
            all_bytes=_size(told, "output_all", least=1),
            stream_bytes=_size(told, "output_attempt", least=2) // STREAMS_OF_AN_ATTEMPT,
        ),
        workers=_number(told, "workers"),
        tls_cert=told["tls_cert"],
        tls_key=told["tls_key"],
        hosts=tuple(told["hosts"]),
        limits=Limits(
            per_second=_number(told, "rate", least=1),
            jobs=_number(told, "jobs", least=1),
            followers=_number(told, "followers"),
        ),
        access_log=told["access_log"],
    )


def _settings(told: Mapping[str, Any], sinks: Mapping[str, AnySink]) -> Settings:
    bundle_bytes = _size(told, "bundle_size", least=1)
    if bundle_bytes > LIMITS.archive_bytes:
        raise ValueError("server.bundle_size: no bundle is larger than 64Mi")
    result_bytes = _size(told, "result_size", least=INLINE_BYTES)
    if result_bytes > RESULT_BYTES_MAX:
        raise ValueError("server.result_size: no result is larger than 1Gi")
    return Settings(
        history_bytes=_size(told, "history"),
        archive=Path(told["archive"]) if told["archive"] else None,
        keep_finished=_number(told, "keep_finished"),
        aging_ms=duration_ms(told["aging"], "--aging"),
        cordon_after=_number(told, "cordon_after"),
        stall_ms=duration_ms(told["stall_timeout"], "--stall-timeout"),
        stall_recovery=one_of(told["stall_recovery"], RECOVERIES, "--stall-recovery"),
        stall_delay_ms=duration_ms(told["stall_delay"], "--stall-delay"),
        check_ms=duration_ms(told["check_interval"], "--check-interval"),
        on_violation=one_of(told["on_violation"], ON_VIOLATION, "--on-violation"),
        disk_low=_size(told, "disk_low") if told["disk_low"] else None,
        disk_stop=_size(told, "disk_stop") if told["disk_stop"] else None,
        result_bytes=result_bytes,
        bundle_bytes=bundle_bytes,
        bundles_bytes=_size(told, "bundles_size", least=1),
        strict=told["strict"],
        sinks=sinks,
    )


def _check_certificate(told: Mapping[str, Any]) -> None:
    cert, key = told["tls_cert"], told["tls_key"]
    if bool(cert) != bool(key):
        raise ValueError("--tls-cert and --tls-key go together.")
    for file in filter(None, (cert, key)):
        if not Path(file).is_file():
            raise ValueError(f"there is no file {file}.")


def _size(told: Mapping[str, Any], name: str, least: int = 0) -> int:
    size = size_bytes(told[name], f"server.{name}")
    if size < least:
        raise ValueError(f"server.{name}={told[name]!r} is too little")
    return size


def _number(told: Mapping[str, Any], name: str, least: int = 0) -> Any:
    # Compared this way round, what is no number is refused as well.
    if not told[name] >= least:
        raise ValueError(f"server.{name} = {told[name]!r} must be at least {least}")
    return told[name]


class Reloading:
    """SIGHUP: settings are read again, taken up where that can be done, and told of."""

    def __init__(self, chosen: Chosen) -> None:
        self._started = chosen
        self._chosen = chosen

    async def __call__(self, adjust: Adjust) -> None:
        try:
            fresh = choose(self._chosen.flags)
            admission = await adjust(self._possible(fresh))
        except (Trouble, OperatingError, OSError) as error:
            say(f"holdfast: settings stay as they were: {error}")
            return
        log_to_stderr(fresh.values)
        say("\n".join(self._told(fresh, admission)))
        self._chosen = fresh

    def _possible(self, fresh: Chosen) -> Plan:
        """The new plan, but for whether it speaks TLS: a door is opened once."""
        here = self._started.plan
        if bool(here.tls_cert) == bool(fresh.plan.tls_cert):
            return fresh.plan
        return structs.replace(fresh.plan, tls_cert=here.tls_cert, tls_key=here.tls_key)

    def _told(self, fresh: Chosen, admission: Admission) -> list[str]:
        lines, later = [], []
        for key, value in fresh.values.items():
            if self._reloads(key, fresh):
                before = self._chosen.values[key]
                if value != before:
                    lines.append(f"holdfast: {key} is {_shown(value)} now, was {_shown(before)}")
            elif value != self._started.values[key]:
                later.append(f"{key} = {_shown(value)}")
        lines += self._told_sinks(fresh)
        if admission.how in ADMITTED:
            lines.append(f"holdfast: {ADMITTED[admission.how].format(admission.path)}")
        if later:
            lines.append(f"holdfast: needs a restart to be taken up: {', '.join(later)}")
        return ["holdfast: settings were read again", *lines]

    def _told_sinks(self, fresh: Chosen) -> list[str]:
        before, now = self._chosen.plan.settings.sinks, fresh.plan.settings.sinks
        names = (*now, *sorted(before.keys() - now.keys()))
        changed = [name for name in names if before.get(name) != now.get(name)]
        told = {
            name: "gone: what is owed there waits" if name not in now
            else f"{'new' if name not in before else 'changed'}: {now[name]!r}"
            for name in changed
        }  # fmt: skip
        return [f"holdfast: sink {name} is {what}" for name, what in told.items()]

    def _reloads(self, key: str, fresh: Chosen) -> bool:
        if key in ("server.tls_cert", "server.tls_key"):
            return bool(self._started.plan.tls_cert) == bool(fresh.plan.tls_cert)
        return KNOWN[key].reloads


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "nothing"
    return str(value) if value != "" else "nothing"
