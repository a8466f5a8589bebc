"""XON/XOFF, as of a serial line: a flow of one's own, which is registered and then known like those of the library.

The receiver says Off when more than ``high_rows`` are in its inbox, and On when no more than half of that are left.  So
nothing bounds what is on its way: ``flows/squelch`` of the library is this one with proved headroom.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from permitflow import Kind, Message
from permitflow.flows import seam
from permitflow.flows.recording import ActionTable, Recorder
from permitflow.flows.seam import Flow, Inbound, Outbound, Urgency, require_whole

__all__ = ["AT_ONCE_ROWS", "Switch", "XonXoff"]

T = TypeVar("T")
AT_ONCE_ROWS = 1_024
"""This many rows leave before anybody looks whether Off has come."""


@dataclass(frozen=True, slots=True)
class XonXoff(seam.Parameters):
    """Parameters of the flow."""

    high_rows: int = 100
    """The rows in the inbox above which the sender is told to stop."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work.

        Raises:
            InvalidParametersError: one is below 1.
        """
        require_whole(self, {"high_rows": 1})


class Switch(NamedTuple):
    """May the sender send?"""

    is_on: bool


class Sender(Outbound[T]):
    """Sends unless it was told to stop."""

    __slots__ = ("_is_on",)

    is_optimistic: ClassVar[bool] = True

    def __init__(self, parameters: XonXoff, *, record: Recorder | None = None) -> None:
        """The sender may send."""
        super().__init__(parameters, record=record)
        self._is_on = True

    @property
    def room_rows(self) -> int:
        """As many as leave at once."""
        return AT_ONCE_ROWS if self._is_on else 0

    def admits(self, rows: Sequence[int]) -> int:
        """All, or none."""
        return len(rows) if self._is_on else 0

    def lack(self, kind: Kind, rows: Sequence[int] = ()) -> str:
        """The receiver has said so."""
        return f"the {kind.value} has to wait: the receiver has said Off"

    def on_feedback(self, feedback: Switch) -> None:
        """Go on, or stop."""
        self._is_on = feedback.is_on

    def _may_leave(self, message: Message[T]) -> bool:
        return self._is_on


class Receiver(Inbound[T]):
    """Says Off when it has too much, and On when it has room again."""

    __slots__ = ("_is_on",)

    def __init__(self, parameters: XonXoff, *, record: Recorder | None = None) -> None:
        """Nothing has arrived."""
        super().__init__(parameters, record=record)
        self._is_on = True

    @property
    def urgency(self) -> int:
        """Is the sender to be switched?"""
        high: int = self.parameters.high_rows
        is_due = self.inbox_rows > high if self._is_on else self.inbox_rows <= high // 2
        return Urgency.NOW if is_due else Urgency.NONE

    def take_feedback(self, *, residue: bool = True) -> Switch | None:
        """The switch that is due."""
        if not self.urgency:
            return None
        self._is_on = not self._is_on
        return Switch(self._is_on)

    def unsettled(self) -> bool:
        """Nothing is owed at the end."""
        return False


class XonXoffFlow(Flow):
    """The flow of ``XonXoff``.  Its agreement is the inherited one: the smaller number wins, for both ends."""

    feedback: ClassVar[type[tuple[Any, ...]]] = Switch
    table: ClassVar[ActionTable] = ActionTable(
        "xon-xoff", {"sender": {}, "receiver": {}}, {"sender": (), "receiver": ()}
    )
    outbound: ClassVar[type[Outbound[Any]]] = Sender
    inbound: ClassVar[type[Inbound[Any]]] = Receiver

    @property
    def wire(self) -> Any:
        """Its messages in protobuf: ``Parameters`` and ``Feedback``."""
        from . import xon_xoff_pb2

        return xon_xoff_pb2


seam.register(XonXoffFlow(), XonXoff)
