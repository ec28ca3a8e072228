"""One replica of a service on this worker: its plan with the ports it was given, and how it
stands."""

import os
from pathlib import Path

import msgspec
from msgspec import structs

from holdfast.core.ids import LeaseId
from holdfast.wire.bodies import Command
from holdfast.wire.exchange import ServiceNews
from holdfast.wire.service import Probe, ServicePlan, filled_in, variables_of
from holdfast.wire.servicing import STARTING
from holdfast.worker.errands import Launch
from holdfast.worker.ports import address_of
from holdfast.worker.surroundings import Prepared

ADDRESS_VARIABLE = "HOLDFAST_ADDRESS"
WHY_BYTES_MAX = 500


class Replica:
    """`host` is where others reach it, and where it is asked itself. `pid` leads its group, once it
    is known."""

    def __init__(
        self, lease_id: LeaseId, plan: ServicePlan, host: str, ports: dict[str, int]
    ) -> None:
        self.lease_id = lease_id
        self.plan = plan
        self.host = host
        self.ports = ports
        self.prepared: Prepared | None = None
        self.pid = 0
        self._values = {
            variable: str(ports[name]) for variable, name in variables_of(plan.ports).items()
        }

    @property
    def address(self) -> str:
        """Where it is reached; empty where it has no port."""
        return address_of(self.host, self.port_of("")) if self.ports else ""

    def port_of(self, name: str) -> int:
        """The number of the port of this name; of the first one where none is named."""
        return self.ports[name or self.plan.ports[0]]

    def news(self, state: str = STARTING, why: str = "") -> ServiceNews:
        further = tuple(
            (name, address_of(self.host, self.ports[name])) for name in self.plan.ports[1:]
        )
        return ServiceNews(self.lease_id, state, self.address, why[:WHY_BYTES_MAX], further)

    def command(self) -> bytes:
        """What is run, as the payload of a command."""
        env = {name: self._filled(value) for name, value in self.plan.env.items()}
        if self.ports:
            env |= self._values | {ADDRESS_VARIABLE: self.address}
        argv = [self._filled(word) for word in self.plan.argv]
        return msgspec.msgpack.encode(Command(argv=argv, env=env, cwd=self.plan.cwd))

    def question(self, number: LeaseId, name: str, probe: Probe) -> Launch:
        """What an `exec` probe runs: beside the replica, in its folder and environment. What it
        prints is kept beside what the replica prints, the last time only. `OSError` where there is
        no room for that."""
        if self.prepared is None:
            raise OSError("it has not been started")
        launch = self.prepared.launch
        outputs = Path(os.fsdecode(launch.outputs)) / f"probe-{name}"
        # Of a replica that has run for long, what was kept may have gone to make room.
        outputs.mkdir(mode=0o700, parents=True, exist_ok=True)
        argv = [os.fsencode(self._filled(word)) for word in probe.argv]
        return structs.replace(
            launch, lease_id=number, argv=argv, outputs=os.fsencode(outputs)
        )

    def _filled(self, text: str) -> str:
        return filled_in(text, self._values)
