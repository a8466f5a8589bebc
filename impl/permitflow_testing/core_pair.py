"""The two ends of a flow with explicit wires, moved step by step: the sans-IO core beside its model.

``FlowPair`` is the common part of all flows; a flow's own pair has a method for each action of its specification, and
expresses its state in the specification's terms.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from permitflow.flows.messages import Kind, Message, Offered
from permitflow.flows.recording import ENDS, RecorderFactory
from permitflow.flows.seam import Parameters
from permitflow_model.kernel.queue import Fifo
from permitflow_testing.moves import ActionRefused, Divergence


class FlowPair:
    """An ``Outbound`` and an ``Inbound``, and the messages that are due.

    It can be pickled unless it records: pickles keep states, so that several moves can be tried from one state.
    """

    def __init__(self, parameters: Parameters, *, tags: int = 1, record: RecorderFactory | None = None) -> None:
        """Observed messages, except watermarks, are numbered modulo ``tags``."""
        flow = parameters.flow
        stated = flow.stated(parameters)
        of_sender, of_receiver = (record("channel", end, flow.table, stated) if record else None for end in ENDS)
        self.sender: Any = flow.outbound(parameters, record=of_sender)
        self.receiver: Any = flow.inbound(parameters, record=of_receiver)
        self.wire: deque[Message[int]] = deque()
        self.feedback: deque[Any] = deque()
        self._tags = tags
        self._serial = 0
        self._consumed = 0
        # Serial numbers of the messages that wait or are in the channel, in the order of their consumption.
        self._due: deque[int] = deque()
        self._due_watermarks: deque[int] = deque()
        self._waiting: list[Offered[int]] = []
        self.watermark = self.heard = -1
        """The newest watermark announced, and the newest consumed."""

    # The application.

    def put_in_line(self, kind: Kind, rows: int = 0) -> None:
        """Offer a chunk or a barrier."""
        self._serial += 1
        self._due.append(self._serial)
        self._waiting.append(self.sender.offer(kind, self._serial, rows))

    def offer_watermark(self) -> None:
        """Announce a watermark."""
        self._serial += 1
        self.watermark = self._serial
        self.sender.offer_watermark(self._serial)

    def take_back(self, position: int = -1, kind: Kind | None = None) -> None:
        """Withdraw the message at this position in the line, by default the newest; it must be of this kind."""
        if not self._waiting or kind not in (None, self._waiting[position].message.kind):
            raise ActionRefused("no such message waits there")
        offered = self._waiting.pop(position)
        if not self.sender.withdraw(offered):
            raise Divergence(f"the sender does not know {offered.message}, which waits")
        if self.sender.withdraw(offered):
            raise Divergence(f"{offered.message} was withdrawn twice")
        self._due.remove(offered.message.payload)

    # The protocol.

    def leave(self, kind: Kind | None = None) -> None:
        """Put the oldest waiting message, which must be of this kind, onto the wire."""
        if not self._waiting or kind not in (None, self._waiting[0].message.kind):
            raise ActionRefused("no such message is the oldest that waits")
        message = self.sender.send_oldest()
        due = self._waiting.pop(0).message
        if message != due:
            raise Divergence(f"{message} was sent, {due} is the oldest")
        self.wire.append(message)

    def send_watermark(self) -> None:
        """Put the pending watermark onto the wire."""
        message = self.sender.send_watermark()
        if message.payload != self.watermark:
            raise Divergence(f"watermark {message.payload} was sent, {self.watermark} is the newest")
        self._due_watermarks.append(message.payload)
        self.wire.append(message)

    def deliver(self) -> None:
        """Deliver the oldest message on the wire."""
        if not self.wire:
            raise ActionRefused("nothing is on the wire")
        self.receiver.deliver(self.wire.popleft())

    def consume(self) -> None:
        """Take and consume the oldest message."""
        self.take()
        self.consume_taken()

    def take(self) -> Message[int]:
        """Take the oldest message that was not taken yet; this is not a step of the specification."""
        message: Message[int] = self.receiver.take()
        return message

    def consume_taken(self) -> None:
        """Consume the oldest taken message."""
        oldest = self.receiver.inbox[:1]
        self.receiver.consume_many(1)
        returned = self.receiver.take_feedback(residue=False)
        message = oldest[0]
        is_watermark = message.kind is Kind.WATERMARK
        due = (self._due_watermarks if is_watermark else self._due).popleft()
        if message.payload != due:
            raise Divergence(f"{message} was consumed, {due} is due")
        if is_watermark:
            self.heard = due
        else:
            self._consumed += 1
        if returned is not None:
            self.feedback.append(returned)

    def answer(self) -> None:
        """Deliver the oldest feedback."""
        if not self.feedback:
            raise ActionRefused("no feedback is on its way")
        self.sender.on_feedback(self.feedback.popleft())

    # Observations.

    def numbered(self) -> Iterator[list[tuple[Message[int], int]]]:
        """The messages in the inbox, on the wire and in line, each with its number.

        Raises:
            Divergence: the messages are not the offered ones in their order.
        """
        places = (self.receiver.inbox, self.wire, self.sender.waiting)
        here = [message.payload for place in places for message in place if message.kind is not Kind.WATERMARK]
        if here != list(self._due):
            raise Divergence(f"messages {here} are here in this order, {list(self._due)} are due")
        number = self._consumed
        for place in places:
            messages: list[tuple[Message[int], int]] = []
            for message in place:
                messages.append((message, number % self._tags))
                number += message.kind is not Kind.WATERMARK
            yield messages

    def observe(self) -> Any:
        """The state of both ends and of the wires, in the specification's terms.

        Raises:
            Divergence: the messages are not the offered ones in their order.
        """
        raise NotImplementedError

    @property
    def offered_number(self) -> int:
        """The number of the next message that is offered."""
        return (self._consumed + len(self._due)) % self._tags

    @property
    def consumed_number(self) -> int:
        """The number of the next message that is consumed."""
        return self._consumed % self._tags


class NumberedPair(FlowPair):
    """The ends of a flow that treats chunks of any size and barriers alike: its messages are numbers."""

    def offer(self) -> None:
        """Offer a message: chunks and barriers in turn."""
        kind, rows = ((Kind.CHUNK, 5), (Kind.CHUNK, 0), (Kind.BARRIER, 0))[self.offered_number % 3]
        self.put_in_line(kind, rows)

    withdraw = FlowPair.take_back

    def send(self) -> None:
        """Send the oldest message, if the sender may."""
        self.leave()

    def queues(self) -> dict[str, Any]:
        """The variables that all of these specifications have."""
        inbox, wire, waiting = (Fifo([number for _, number in place]) for place in self.numbered())
        return {
            "offered": self.offered_number,
            "consumed": self.consumed_number,
            "waiting": waiting,
            "wire": wire,
            "inbox": inbox,
        }
