"""Records a stream with a driver's end, both ends of it, as far as the kit sees them.

Only the wire and the answers of the driver's end are seen.  So what it must have done is recorded as late as it is
sure, and what may have come to it is recorded as early as possible: a message has left when it is here, and permits
have come when they are written.  A message has arrived there when the driver hands it over; a residue was returned when
permits come that no batch explains.  What cannot be explained is recorded as it was seen, for the model to refuse.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from permitflow.flows.messages import Kind
from permitflow.flows.recording import ENDS, End, Recorder, RecorderFactory
from permitflow.flows.seam import Parameters
from permitflow_testing.foreign.way import Way


class Noted(NamedTuple):
    """A message, as an event tells it."""

    kind: Kind
    rows: int
    held: tuple[int, ...]
    serial: int = 0
    """The number of the chunk or of the request; 0: it is not known."""


class Recording:
    """Events of both ends of one stream."""

    def __init__(
        self,
        way: type[Way],
        agreed: Parameters,
        at_sender: Iterable[int],
        stream: str,
        records: Iterable[RecorderFactory],
    ) -> None:
        """``at_sender`` is what the sender has at the start; each of ``records`` gets all events."""
        self._way, self._batch = way, way.batch(agreed)
        table, stated = agreed.flow.table, agreed.flow.stated(agreed)
        self._recorders: Mapping[End, list[Recorder]] = {
            end: [record(stream, end, table, stated) for record in records] for end in ENDS
        }
        self._at_sender = [*at_sender]
        self._waiting: list[Noted] = []
        self._before_watermark: list[Noted] = []
        self._given_up: set[int] = set()
        self._wire: deque[Noted] = deque()
        self._inbox: deque[Noted] = deque()
        self._unreturned = self._due = 0

    # At the sender.

    def offered(self, message: Noted) -> None:
        """It is to be sent."""
        if message.kind is Kind.WATERMARK:
            self._before_watermark = [*self._waiting]
        else:
            self._waiting.append(message)
        self._note("sender", self._way.action("Offer", message.kind), message)

    def giving_up(self, serial: int) -> None:
        """It is to be withdrawn, unless it has left."""
        self._given_up.add(serial)

    def withdrawn(self, serial: int) -> None:
        """It was."""
        for message in [message for message in self._waiting if message.serial == serial]:
            self._waiting.remove(message)
            self._note("sender", self._way.action("Withdraw", message.kind), message)

    def sent(self, message: Noted) -> None:
        """It has left."""
        ahead = self._before_watermark
        if message.kind is not Kind.WATERMARK:
            place = next((at for at, one in enumerate(self._waiting) if _is_same(one, message)), None)
            ahead = [] if place is None else self._waiting[:place]
            if place is not None:
                del self._waiting[place]
        for one in ahead:  # the answer that says so may come later
            if one.serial in self._given_up:
                self.withdrawn(one.serial)
        self._at_sender = [here - held for here, held in zip(self._at_sender, message.held, strict=True)]
        self._note("sender", self._way.action("Send", message.kind), message)
        self._wire.append(message)

    def added(self, feedback: tuple[int, ...]) -> None:
        """It has come back."""
        self._at_sender = [here + more for here, more in zip(self._at_sender, feedback, strict=True)]
        self._write("sender", *self._way.added(feedback), tuple(self._at_sender))

    # At the receiver.

    def delivered(self) -> None:
        """The oldest message has arrived."""
        if self._wire:
            self._inbox.append(self._wire.popleft())
            self._note("receiver", "Deliver", self._inbox[-1])

    def consumed(self) -> None:
        """The oldest message that has arrived was consumed."""
        if not self._inbox:
            return
        message = self._inbox.popleft()
        self._unreturned += message.held[0]
        if self._unreturned >= self._batch:
            self._due += self._unreturned
            self._unreturned = 0
        self._note("receiver", "Consume", message)

    def returned(self, feedback: tuple[int, ...]) -> None:
        """Note what was returned; what no batch explains was a residue."""
        residue = feedback[0] - self._due
        self._due = max(0, -residue)
        if residue == self._unreturned > 0 and (flush := self._way.flushed(residue)) is not None:
            self._unreturned = 0
            self._write("receiver", *flush, self._receiver_counters())

    # Events.

    def _receiver_counters(self) -> tuple[int, ...]:
        rows = sum(message.rows for message in self._inbox)
        return self._way.receiver_counters(len(self._inbox), rows, self._unreturned)

    def _note(self, end: End, action: str, message: Noted) -> None:
        counters = tuple(self._at_sender) if end == "sender" else self._receiver_counters()
        self._write(end, action, self._way.arguments(message.rows, message.held), counters)

    def _write(self, end: End, action: str, arguments: tuple[int, ...], counters: tuple[int, ...]) -> None:
        for recorder in self._recorders[end]:
            recorder(action, arguments, counters)


def _is_same(one: Noted, other: Noted) -> bool:
    if one.kind is not other.kind or one.rows != other.rows:
        return False
    return not (one.serial and other.serial) or one.serial == other.serial
