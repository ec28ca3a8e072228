"""`holdfast worker deliver`: the process that delivers effects for a server, which starts it."""

import os
import socket
import sys
import time
from typing import Any

import click
import uvloop

from holdfast.cli.asking import find_server
from holdfast.cli.errors import Trouble, say
from holdfast.cli.options import server_options
from holdfast.cli.worker_signals import Told
from holdfast.cli.worker_start import (
    EXCHANGE,
    UNREACHABLE,
    Waker,
    monotonic_ms,
    rejection,
)  # fmt: skip
from holdfast.core.ids import WorkerId
from holdfast.version import VERSION
from holdfast.wire.delivery import SERVER
from holdfast.wire.exchange import Capacity, Exchange, Hello, Reply
from holdfast.wire.http_async import AsyncHttp, Rejected, Server, Unreachable
from holdfast.worker.agent import Agent
from holdfast.worker.delivering_process import ProcessDeliverer
from holdfast.worker.parcels import Parcels
from holdfast.worker.remote import Remote, Terms
from holdfast.worker.threads import ThreadExecutor


@click.command(hidden=True)
@server_options
@click.option("--ca-file", default="", metavar="FILE", help="Whom to trust beside the system.")
@click.option("--name", required=True, metavar="NAME", help="What it is called.")
def deliver(name: str, ca_file: str, **flags: Any) -> int:
    """Deliver the effects of sinks that are delivered from the server. It runs no task."""
    asked = find_server(flags["server"], flags["token_file"], dict(os.environ))
    server = Server(url=asked.url.value, token=asked.token.value, ca_file=ca_file)
    if os.getcwd() not in sys.path:
        # Functions are found as a program started here would find them.
        sys.path.insert(0, os.getcwd())
    return uvloop.run(_work(server, WorkerId(name)))


async def _work(server: Server, name: WorkerId) -> int:
    waker = Waker()
    # Files are for those whose own they are: a server may share a machine with strangers.
    deliverer = ProcessDeliverer(waker, monotonic_ms)
    agent = Agent(
        name,
        int(time.time() * 1_000),
        ThreadExecutor(0, waker, monotonic_ms),
        Capacity(0, 0, 0, 0),
        hello=Hello(socket.gethostname(), os.getpid(), VERSION, delivers=(SERVER,)),
        parcels=Parcels(deliverer),
    )
    http = AsyncHttp(server)

    async def carry(exchange: Exchange, answer_s: float) -> Reply:
        return await http.post(EXCHANGE, exchange, Reply, answer_s=answer_s)

    def tell(line: str) -> None:
        say(f"holdfast: {name}: {line}")

    terms = Terms(greeting="effects are delivered from here")
    remote = Remote(agent, carry, clock_ms=monotonic_ms, tell=tell, terms=terms)
    waker.wake = remote.wake
    told = Told(remote, tell)
    try:
        await remote.work()
    except Unreachable as error:
        raise Trouble(str(error), UNREACHABLE) from None
    except Rejected as error:
        raise rejection(error, server.url) from None
    finally:
        await http.close()
    return told.exit_code
