"""XON/XOFF, as of a serial line: a flow without permits, to show that nothing but a flow knows how it works.

The receiver says Off when more than ``value`` rows are in its inbox, and On when no more than half of that are left.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, TypeVar

from google.protobuf.wrappers_pb2 import BoolValue, Int64Value

from permitflow import Kind, Message
from permitflow.flows import seam
from permitflow.flows.recording import ActionTable, Recorder
from permitflow.flows.seam import Flow, Haste, Inbound, Outbound

__all__ = ["AT_ONCE_ROWS", "Switch", "XonXoff"]

T = TypeVar("T")
AT_ONCE_ROWS = 1_024
"""So many rows leave before anybody looks whether Off has come."""


@dataclass(frozen=True, slots=True)
class XonXoff(seam.Parameters):
    """``value``: the rows in the inbox above which the sender is told to stop."""

    value: int


class Wishes(NamedTuple):
    value: int | None = None


class Switch(NamedTuple):
    """May the sender send?"""

    value: bool


class Sender(Outbound[T]):
    """Sends unless it was told to stop."""

    __slots__ = ("_is_on",)

    is_optimistic: ClassVar[bool] = True

    def __init__(self, parameters: XonXoff, *, record: Recorder | None = None) -> None:
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
        self._is_on = feedback.value

    def _may_leave(self, message: Message[T]) -> bool:
        return self._is_on


class Receiver(Inbound[T]):
    """Says Off when it has too much, and On when it has room again."""

    __slots__ = ("_is_on",)

    def __init__(self, parameters: XonXoff, *, record: Recorder | None = None) -> None:
        super().__init__(parameters, record=record)
        self._is_on = True

    @property
    def haste(self) -> int:
        """Is the sender to be switched?"""
        high: int = self.parameters.value
        is_due = self.inbox_rows > high if self._is_on else self.inbox_rows <= high // 2
        return Haste.NOW if is_due else Haste.NONE

    def take_feedback(self, *, residue: bool = True) -> Switch | None:
        if not self.haste:
            return None
        self._is_on = not self._is_on
        return Switch(self._is_on)

    def unsettled(self) -> bool:
        """Nothing is owed at the end."""
        return False


class XonXoffFlow(Flow):
    wishes: ClassVar[type[tuple[Any, ...]]] = Wishes
    feedback: ClassVar[type[tuple[Any, ...]]] = Switch
    table: ClassVar[ActionTable] = ActionTable(
        "xon-xoff", {"sender": {}, "receiver": {}}, {"sender": (), "receiver": ()}
    )
    outbound: ClassVar[type[Outbound[Any]]] = Sender
    inbound: ClassVar[type[Inbound[Any]]] = Receiver

    @property
    def wire(self) -> Any:
        """Standard messages of protobuf: it needs no file of its own."""
        return SimpleNamespace(Parameters=Int64Value, Feedback=BoolValue)

    def complete(self, wishes: Wishes) -> XonXoff:
        """A hundred rows, if nobody says anything."""
        return XonXoff(100 if wishes.value is None else wishes.value)


seam.register(XonXoffFlow(), XonXoff)
