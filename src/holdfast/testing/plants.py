"""Mistakes that could have been made, planted to see whether they are caught."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.coordinator import taking
from holdfast.coordinator.deliveries import Deliveries
from holdfast.core.debts import Debts
from holdfast.core.state import State
from holdfast.worker.sinks.file import FileOutlet


def _search_no_ledger() -> None:
    setattr(FileOutlet, FileOutlet._has.__name__, lambda outlet, text, mark: False)


def _key_each_dealing() -> None:
    plain, dealt = Deliveries.idempotency_key, list[int]()

    def key(deliveries: Deliveries, owing: Any) -> str:
        dealt.append(0)
        return f"{plain(deliveries, owing)}:{len(dealt)}"

    setattr(Deliveries, plain.__name__, key)


def _forget_debts() -> None:
    plain = vars(taking)["recover"]

    def forgetful(*args: Any, **words: Any) -> State:
        state: State = plain(*args, **words)
        state.debts = Debts()
        return state

    vars(taking)["recover"] = forgetful


PLANTS: Final[Mapping[str, Callable[[], None]]] = {
    "the ledger is not searched": _search_no_ledger,
    "each dealing has a key of its own": _key_each_dealing,
    "a recovery forgets what is owed": _forget_debts,
}
