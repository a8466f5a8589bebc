"""All ends of a gate with explicit wires, beside the model."""

from collections import deque
from typing import Any

from permitflow.protocol.gate import Backlog, Gate, GateParameters, GateReceiver, GateSender, Grant
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.recording import ENDS
from permitflow.testing.moves import ActionRefused, Divergence, Move
from permitflow.tracing.events import Event
from permitflow_model.input_gate import RESUME, REVOKE, Channel, Item, State
from permitflow_model.kernel.family import family
from permitflow_model.kernel.queue import Fifo

__all__ = ["GateEnds"]


class GateEnds:
    """All ends of a gate with explicit wires, moved step by step; chunks have one row.

    The gate lends by itself: Borrow is no move.
    """

    def __init__(self, parameters: GateParameters) -> None:
        """Nothing has been offered."""
        self.events: list[Event] = []
        """What the ends have reported, in order."""
        self.gate = Gate(parameters)
        self.senders: list[GateSender[int]] = []
        self.receivers: list[GateReceiver[int]] = []
        for name in range(parameters.inputs):
            of_sender, of_receiver = (self._recorder(str(name), end) for end in ENDS)
            self.senders.append(GateSender(parameters, record=of_sender))
            self.receivers.append(GateReceiver(parameters, record=of_receiver, gate=self.gate))
        self._wires: list[deque[tuple[Message[int] | None, Item, Backlog | None]]]
        self._wires = [deque() for _ in self.senders]
        self._inboxes: list[deque[Item]] = [deque() for _ in self.senders]
        self._grants: list[deque[int]] = [deque() for _ in self.senders]
        self._epochs = [0] * parameters.inputs

    def _recorder(self, channel: str, end: Any) -> Any:
        def record(action: str, arguments: tuple[int, ...], counters: tuple[int, ...]) -> None:
            self.events.append(Event(channel, end, 0, action, arguments, None, counters))

        return record

    def attempt(self, move: Move) -> None:
        """Make a move; what the ends refuse changes nothing.

        Raises:
            ActionRefused, WouldBlock, ProtocolError: they refuse.
        """
        getattr(self, move.method)(*move.arguments)

    # The applications and the senders.

    def offer_data(self, name: int) -> None:
        """Offer a chunk."""
        self.senders[name].offer(Kind.CHUNK, self._epochs[name], 1)

    def offer_barrier(self, name: int) -> None:
        """Offer a barrier; its number is the epoch that it begins."""
        self._epochs[name] += 1
        self.senders[name].offer(Kind.BARRIER, self._epochs[name])

    def send_data(self, name: int) -> None:
        """Send the oldest chunk, and tell the backlog behind it."""
        self._send(name, Kind.CHUNK)

    def send_barrier(self, name: int) -> None:
        """Send the oldest barrier."""
        self._send(name, Kind.BARRIER)

    def _send(self, name: int, kind: Kind) -> None:
        sender = self.senders[name]
        if not sender.waiting or sender.waiting[0].kind is not kind:
            raise ActionRefused(f"no {kind.value} is the oldest that waits")
        message = sender.send_oldest()
        word = sender.take_announcement()
        self._wires[name].append((message, _item(message, sender.told), word))

    def announce_backlog(self, name: int) -> None:
        """Tell the backlog alone."""
        sender = self.senders[name]
        word = sender.take_announcement()
        if word is None:
            raise ActionRefused("there is nothing to announce")
        self._wires[name].append(
            (None, _item(sender.waiting[0], 0)._replace(kind="backlog", backlog=word.backlog), word)
        )

    def hear(self, name: int) -> None:
        """Let the sender hear one word, or credit."""
        if not self._grants[name]:
            if self.receivers[name].word_due is None:
                raise ActionRefused("nothing is on its way")
            self._collect(name)
        grant = self._grants[name].popleft()
        self.senders[name].on_feedback(Grant(credit=grant) if grant > 0 else Grant(resume=True, revoke=grant == REVOKE))

    # The gate.

    def deliver(self, name: int) -> None:
        """Deliver the oldest message of a wire, with the announcement behind it."""
        if not self._wires[name]:
            raise ActionRefused("nothing is on the wire")
        message, item, word = self._wires[name].popleft()
        if message is not None:
            self.receivers[name].deliver(message)
            self._inboxes[name].append(item)
        if word is not None:
            self.receivers[name].on_announcement(word)

    def consume_data(self, name: int) -> None:
        """Consume the oldest chunk of an input."""
        self._consume(name, Kind.CHUNK)

    def consume_barrier(self, name: int) -> None:
        """Consume the barrier of an input."""
        self._consume(name, Kind.BARRIER)

    def _consume(self, name: int, kind: Kind) -> None:
        receiver = self.receivers[name]
        if not receiver.inbox or receiver.inbox[0].kind is not kind:
            raise ActionRefused(f"no {kind.value} is the oldest here")
        (message,) = receiver.receive_many(1)
        due = self._inboxes[name].popleft()
        if _item(message, due.backlog) != due:
            raise Divergence(f"{message} was consumed, {due} is due")

    def grant(self, name: int) -> None:
        """Grant all free credit of an input."""
        if not self.receivers[name].free or self.receivers[name].is_released:
            raise ActionRefused("there is no free credit")
        self._collect(name)

    def _collect(self, name: int) -> None:
        said = self.receivers[name].take_feedback()
        if said is None:
            raise ActionRefused("nothing is due")
        if said.resume:
            self._grants[name].append(REVOKE if said.revoke else RESUME)
        if said.credit:
            self._grants[name].append(said.credit)

    def align(self) -> None:
        """Resume all."""
        self.gate.align()

    # Observations.

    def observe(self) -> State:
        """The state of all ends and wires, in the specification's terms."""
        channels = family(self._channel(0), len(self.senders))
        for name in range(1, len(self.senders)):
            channels = channels.put(name, self._channel(name))
        return State(channels=channels, pool=self.gate.pool, epoch=self.gate.alignments)

    def _channel(self, name: int) -> Channel:
        sender, receiver = self.senders[name], self.receivers[name]
        word: tuple[int, ...] = () if receiver.word_due is None else (REVOKE if receiver.word_due else RESUME,)
        return Channel(
            epoch=self._epochs[name],
            waiting=Fifo([_item(message, 0) for message in sender.waiting]),
            stopped=sender.is_stopped,
            told=sender.told,
            credit=sender.credit,
            wire=Fifo([item for _, item, _ in self._wires[name]]),
            inbox=Fifo(self._inboxes[name]),
            blocked=receiver.is_blocked,
            released=receiver.is_released,
            wanted=receiver.wanted,
            free=receiver.free,
            borrowed=receiver.borrowed,
            grants=Fifo([*self._grants[name], *word]),
        )


def _item(message: Message[int], backlog: int) -> Item:
    """Data have the epoch that they are in; a barrier has the one that it ends."""
    if message.kind is Kind.CHUNK:
        return Item("data", message.payload, backlog)
    return Item("barrier", message.payload - 1, backlog)
