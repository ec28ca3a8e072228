"""Requests about what commits owe. Each names entries; what is settled already is passed over."""

from holdfast.core.command import Command
from holdfast.core.owed import DebtName
from holdfast.core.spec import CircuitPolicy


class ConfirmDeliveries(Command, frozen=True, kw_only=True):
    """These entries have been delivered, or their blocks were left."""

    names: tuple[DebtName, ...]


class FailDelivery(Command, frozen=True, kw_only=True):
    """A try to deliver an entry failed. The next comes after `delay_ms`, unless `most_tries` were
    made or no further one can help (`is_final`): then the entry is parked. `circuit` says after how
    many failures in a row its sink is given nothing for a while."""

    name: DebtName
    error: str
    most_tries: int
    delay_ms: int
    is_final: bool = False
    circuit: CircuitPolicy = CircuitPolicy()


class ParkEffects(Command, frozen=True, kw_only=True):
    """Nobody can deliver these entries: an operator has to look."""

    names: tuple[DebtName, ...]
    error: str


class RetryEffects(Command, frozen=True, kw_only=True):
    """An operator has these entries tried again at once, each with a fresh budget."""

    names: tuple[DebtName, ...]


class DiscardEffects(Command, frozen=True, kw_only=True):
    """An operator gives these entries up, for a reason."""

    names: tuple[DebtName, ...]
    reason: str


OWED_COMMANDS: tuple[type[Command], ...] = (
    ConfirmDeliveries,
    FailDelivery,
    ParkEffects,
    RetryEffects,
    DiscardEffects,
)
