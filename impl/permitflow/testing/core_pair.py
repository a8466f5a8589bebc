"""The sans-IO core with explicit wires, one method for each action of the specification."""

from collections import deque
from collections.abc import Iterable

from permitflow.protocol.messages import Kind, Message, Offered
from permitflow.protocol.permits import PERMITS, ChannelParameters, PermitReceiver, Permits, PermitSender, held
from permitflow.protocol.recording import ENDS, RecorderFactory
from permitflow.testing.moves import ActionRefused, Divergence
from permitflow_model.kernel.queue import Fifo
from permitflow_model.permit_channel import NO_WATERMARK, State
from permitflow_model.permit_channel import Message as ModelMessage
from permitflow_model.permit_channel import Permits as ModelPermits

__all__ = ["CorePair"]


class CorePair:
    """A ``PermitSender`` and a ``PermitReceiver``; what each message must be is remembered beside them.

    It can be pickled as long as nothing is recorded: that is how a state is kept and tried again.
    """

    def __init__(self, parameters: ChannelParameters, *, tags: int = 1, record: RecorderFactory | None = None) -> None:
        """Chunks and barriers are numbered modulo ``tags`` in what ``observe`` shows."""
        stated = PERMITS.stated(parameters)
        of_sender, of_receiver = (record("channel", end, PERMITS.table, stated) if record else None for end in ENDS)
        self.sender: PermitSender[int] = PermitSender(parameters, record=of_sender)
        self.receiver: PermitReceiver[int] = PermitReceiver(parameters, record=of_receiver)
        self.wire: deque[Message[int]] = deque()
        self.grants: deque[Permits] = deque()
        self._parameters, self._tags = parameters, tags
        self._serial = 0
        self._consumed = 0
        # Serial numbers of what is in the channel or waits, in the order in which it has to be consumed.
        self._due: deque[int] = deque()
        self._due_watermarks: deque[int] = deque()
        self._waiting: list[Offered[int]] = []
        self._watermark = self._heard = -1

    # The application.

    def offer_chunk(self, rows: int) -> None:
        """The application wants to send a chunk."""
        self._waiting.append(self.sender.offer(Kind.CHUNK, self._next(), rows))

    def offer_barrier(self) -> None:
        """The application wants to send a barrier."""
        self._waiting.append(self.sender.offer(Kind.BARRIER, self._next()))

    def offer_watermark(self) -> None:
        """The application announces a watermark."""
        self._serial += 1
        self._watermark = self._serial
        self.sender.offer_watermark(self._serial)

    def withdraw_chunk(self, position: int = -1) -> None:
        """The application gives up waiting with the chunk at this position in the line."""
        self._withdraw(position, Kind.CHUNK)

    def withdraw_barrier(self, position: int = -1) -> None:
        """The application gives up waiting with the barrier at this position in the line."""
        self._withdraw(position, Kind.BARRIER)

    def _withdraw(self, position: int, kind: Kind) -> None:
        if not self._waiting or self._waiting[position].message.kind is not kind:
            raise ActionRefused(f"no {kind.value} waits there")
        offered = self._waiting.pop(position)
        if not self.sender.withdraw(offered):
            raise Divergence(f"the sender does not know {offered.message}, which waits")
        if self.sender.withdraw(offered):
            raise Divergence(f"{offered.message} was withdrawn twice")
        self._due.remove(offered.message.payload)

    # The protocol.

    def send_chunk(self) -> None:
        """The oldest waiting message, a chunk, goes onto the wire."""
        self._send_oldest(Kind.CHUNK)

    def send_barrier(self) -> None:
        """The oldest waiting message, a barrier, goes onto the wire."""
        self._send_oldest(Kind.BARRIER)

    def send_watermark(self) -> None:
        """The pending watermark goes onto the wire."""
        message = self.sender.send_watermark()
        if message.payload != self._watermark:
            raise Divergence(f"watermark {message.payload} was sent, {self._watermark} is the newest")
        self._due_watermarks.append(message.payload)
        self.wire.append(message)

    def _send_oldest(self, kind: Kind) -> None:
        if not self._waiting or self._waiting[0].message.kind is not kind:
            raise ActionRefused(f"no {kind.value} is the oldest that waits")
        message = self.sender.send_oldest()
        due = self._waiting.pop(0).message
        if message != due:
            raise Divergence(f"{message} was sent, {due} is the oldest")
        self.wire.append(message)

    def deliver(self) -> None:
        """The oldest message on the wire arrives."""
        if not self.wire:
            raise ActionRefused("nothing is on the wire")
        self.receiver.deliver(self.wire.popleft())

    def consume(self) -> None:
        """The application takes the oldest message and has consumed it."""
        self.take()
        self.consume_taken()

    def take(self) -> Message[int]:
        """The application takes the oldest message that it has not taken yet; for the specification nothing happens."""
        return self.receiver.take()

    def consume_taken(self) -> None:
        """The application has consumed the oldest message that it took."""
        oldest = self.receiver.inbox[:1]
        self.receiver.consume_many(1)
        returned = self.receiver.take_feedback(residue=False)
        message = oldest[0]
        is_watermark = message.kind is Kind.WATERMARK
        due = (self._due_watermarks if is_watermark else self._due).popleft()
        if message.payload != due:
            raise Divergence(f"{message} was consumed, {due} is due")
        if is_watermark:
            self._heard = due
        else:
            self._consumed += 1
        if returned is not None:
            self.grants.append(returned)

    def flush(self) -> None:
        """The idle receiver returns its residue."""
        returned = self.receiver.take_feedback()
        if returned is None:
            raise ActionRefused("the consumer is not idle, or nothing is left to return")
        self.grants.append(returned)

    def add_permits(self) -> None:
        """The oldest returned permits arrive."""
        if not self.grants:
            raise ActionRefused("no permits are on their way back")
        self.sender.on_feedback(self.grants.popleft())

    # What can be seen.

    def observe(self) -> State:
        """The state of both ends and of the wires, in the specification's terms."""
        pipe = (*self.receiver.inbox, *self.wire, *self.sender.waiting)
        here = [message.payload for message in pipe if message.kind is not Kind.WATERMARK]
        if here != list(self._due):
            raise Divergence(f"chunks and barriers {here} are here in this order, {list(self._due)} are due")
        numbered = self._numbered(pipe)
        before_watermark = self.sender.messages_before_watermark
        arrived, on_wire = len(self.receiver.inbox), len(self.receiver.inbox) + len(self.wire)
        return State(
            offered=(self._consumed + len(here)) % self._tags,
            consumed=self._consumed % self._tags,
            waiting=Fifo(numbered[on_wire:]),
            watermark_pending=NO_WATERMARK if before_watermark is None else before_watermark,
            newest_watermark=(
                "heard" if self._heard == self._watermark else "sent" if before_watermark is None else "pending"
            ),
            permits=ModelPermits(*self.sender.permits),
            wire=Fifo(numbered[arrived:on_wire]),
            inbox=Fifo(numbered[:arrived]),
            unreturned=self.receiver.unreturned,
            grants=Fifo(ModelPermits(*grant) for grant in self.grants),
        )

    def _numbered(self, pipe: Iterable[Message[int]]) -> list[ModelMessage]:
        number = self._consumed
        messages: list[ModelMessage] = []
        for message in pipe:
            messages.append(
                ModelMessage(
                    message.kind.value, number % self._tags, message.rows, max(held(message, self._parameters))
                )
            )
            number += message.kind is not Kind.WATERMARK
        return messages

    def _next(self) -> int:
        self._serial += 1
        self._due.append(self._serial)
        return self._serial
