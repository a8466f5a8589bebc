"""Where the permits of one class are: five places, which always add up to Buf."""

from collections.abc import Iterable
from typing import NamedTuple

from permitflow_model.permit_channel import NOTHING, Parameters, Permits, State, carried_by, held_by, total

__all__ = ["CLASSES", "PLACES", "Ledger", "classes_used", "ledger_of"]

CLASSES = Permits._fields

PLACES = {
    "permits": "permits at the sender",
    "wire": "data in flight",
    "inbox": "inbox",
    "unreturned": "unreturned",
    "grants": "permits in flight",
}
"""The five terms of ``Conservation``, by the names of the variables that hold them, in the order of their circuit."""


class Ledger(NamedTuple):
    """Permits by place, each by class."""

    permits: Permits
    wire: Permits
    inbox: Permits
    unreturned: Permits
    grants: Permits

    def of_class(self, name: str) -> tuple[int, ...]:
        """The five numbers of one class."""
        return tuple(getattr(place, name) for place in self)


def ledger_of(state: State) -> Ledger:
    """Count the permits of a state with the terms of ``Conservation``."""
    return Ledger(
        permits=state.permits,
        wire=held_by(state.wire),
        inbox=held_by(state.inbox),
        unreturned=NOTHING._replace(rows=state.unreturned),
        grants=carried_by(state.grants),
    )


def classes_used(parameters: Parameters, ledgers: Iterable[Ledger]) -> list[str]:
    """Rows, and those other classes of which a permit ever left the sender."""
    whole = total(parameters)
    used = {"rows"}
    for ledger in ledgers:
        used.update(name for name in CLASSES if getattr(ledger.permits, name) != getattr(whole, name))
        if len(used) == len(CLASSES):
            break
    return [name for name in CLASSES if name in used]
