"""Asking a member of a data grid how its partitions stand.

Whatever comes instead of an answer is told as that: what is not known is no harm to the replica.
"""

from holdfast.wire.partitions import ANSWER_BYTES_MAX, read_partitions
from holdfast.wire.service import Probe
from holdfast.wire.servicing import PartitionNews
from holdfast.worker.probing import Unwell, read_http
from holdfast.worker.replica import WHY_BYTES_MAX, Replica
from holdfast.worker.surroundings import redacted


async def ask_partitions(replica: Replica, probe: Probe) -> PartitionNews:
    """What it answers, once."""
    turn_ms = max(probe.period_ms, probe.timeout_ms)
    try:
        port = replica.port_of(probe.port)
        content = await read_http(
            replica.host, port, probe.path, probe.timeout_ms, bytes_max=ANSWER_BYTES_MAX
        )
        return PartitionNews(replica.lease_id, read_partitions(content), turn_ms)
    except Unwell as error:
        why = str(error)
    except ValueError as error:
        why = f"http {probe.path}: {error}"
    except Exception as error:  # noqa: BLE001 - whatever it is, it told nothing
        why = f"http {probe.path}: it could not be asked: {error}"
    secrets = replica.prepared.secrets if replica.prepared else ()
    problem = redacted(why, secrets)[:WHY_BYTES_MAX]
    return PartitionNews(replica.lease_id, turn_ms=turn_ms, problem=problem)
