"""Giving staged files their names, after their commits and in the order of them.

It may be told to do so again, and finds out whether it has: a receipt is put beside the staged
file first. A staged file that is gone while its receipt is there has got its name; the receipt
goes when the coordinator knows.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from holdfast.wire.delivery import Bounced, Delivery, Parcel, Staged
from holdfast.worker.leftovers import RECEIPT
from holdfast.worker.staging import decode_staged, sync_folder

Outcome = Bounced | None


class Misplaced(Exception):
    """A file that did not get its name. `is_final`: and never will. `is_elsewhere`: not here."""

    def __init__(self, told: str, *, is_final: bool = False, is_elsewhere: bool = False) -> None:
        super().__init__(told)
        self.is_final = is_final
        self.is_elsewhere = is_elsewhere


def place_files(parcel: Parcel, *, is_own: bool) -> list[tuple[Delivery, Outcome]]:
    """Each delivery with what became of it; None for well. `is_own`: the place is surely ours, so
    that what is not there is nowhere."""
    outcomes: list[tuple[Delivery, Outcome]] = []
    stuck: set[str] = set()
    for delivery in parcel.deliveries:
        if delivery.key in stuck:
            told = "it waits for an earlier file of the same name"
            outcomes.append((delivery, Bounced(delivery.name, told, is_untried=True)))
            continue
        try:
            place(decode_staged(delivery.body), delivery.key, is_own=is_own)
        except Misplaced as error:
            bounced = Bounced(
                delivery.name, str(error), is_final=error.is_final, is_elsewhere=error.is_elsewhere
            )
        except OSError as error:
            bounced = Bounced(delivery.name, f"{delivery.key} cannot be put in place: {error}")
        else:
            outcomes.append((delivery, None))
            continue
        stuck.add(delivery.key)
        outcomes.append((delivery, bounced))
    return outcomes


def place(
    staged: Staged, target: str, *, is_own: bool, reached: Callable[[str], None] = lambda step: None
) -> None:
    """Give a staged file its name, once. `reached` is told each step, for tests that stop there."""
    receipt = staged.temporary + RECEIPT
    try:
        size = os.lstat(staged.temporary).st_size
    except FileNotFoundError:
        if os.path.lexists(receipt):
            # It was done before; whoever did it may not have seen it onto the disk.
            sync_folder(os.path.dirname(target))
            return
        told = f"the staged file of {target} is gone: {staged.temporary}"
        raise Misplaced(told, is_final=is_own, is_elsewhere=not is_own) from None
    if size != staged.size:
        told = f"the staged file of {target} has {size} bytes, not the {staged.size} of its commit"
        raise Misplaced(told, is_final=is_own, is_elsewhere=not is_own)
    os.close(os.open(receipt, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    reached("receipt")
    if staged.exclusive:
        _link_once(staged.temporary, target)
        reached("linked")
        os.unlink(staged.temporary)
    else:
        os.replace(staged.temporary, target)
    reached("renamed")
    sync_folder(os.path.dirname(target))
    reached("synced")


def forget_receipts(bodies: Iterable[bytes]) -> None:
    """The coordinator knows that these have their names."""
    for body in bodies:
        with suppress(OSError):
            os.unlink(decode_staged(body).temporary + RECEIPT)


def _link_once(temporary: str, target: str) -> None:
    try:
        os.link(temporary, target)
    except FileExistsError:
        if os.path.samefile(temporary, target):
            return
        # Nothing has been done, and a receipt would say so.
        with suppress(OSError):
            os.unlink(temporary + RECEIPT)
        told = f"{target} is there already, and this file was to be new"
        raise Misplaced(told, is_final=True) from None

