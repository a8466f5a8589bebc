"""All ends of a gate with explicit wires, beside the model."""

from collections import deque
from typing import Any, Literal

from permitflow import GateParameters, Kind, Message
from permitflow.flows.gate.core import Backlog, Gate, GateReceiver, GateSender, Grant
from permitflow.flows.messages import Offered
from permitflow.flows.recording import ENDS
from permitflow.tracing import Event
from permitflow_model.input_gate_credit import RESUME, REVOKE, Channel, Item, State, opened
from permitflow_model.kernel.family import family
from permitflow_model.kernel.queue import Fifo
from permitflow_testing import ActionRefused, Divergence
from permitflow_testing.moves import Move


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
        self._epochs, self._sent = [0] * parameters.inputs, [0] * parameters.inputs
        self._offered: list[list[Offered[int]]] = [[] for _ in self.senders]
        self._closed: set[int] = set()
        self._lost: set[int] = set()

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
        self._offered[name].append(self.senders[name].offer(Kind.CHUNK, self._epochs[name], 1))

    def offer_barrier(self, name: int) -> None:
        """Offer a barrier; its payload is its number."""
        self.offer_newer_barrier(name, 0)

    def offer_newer_barrier(self, name: int, skipped: int) -> None:
        """Offer a barrier, and leave some out."""
        number = self._epochs[name] + skipped
        self._epochs[name] = number + 1
        self._offered[name].append(self.senders[name].offer(Kind.BARRIER, number))

    def withdraw_data(self, name: int) -> None:
        """Take back the newest message, a chunk."""
        self._withdraw(name, Kind.CHUNK)

    def withdraw_barrier(self, name: int) -> None:
        """Take back the newest message, a barrier: the epoch goes on that it would have ended."""
        self._withdraw(name, Kind.BARRIER)
        self._epochs[name] = self._sent[name]
        for message in self.senders[name].waiting:
            self._epochs[name] = message.payload + (message.kind is Kind.BARRIER)

    def _withdraw(self, name: int, kind: Kind) -> None:
        waiting = self.senders[name].waiting
        if not waiting or waiting[-1].kind is not kind:
            raise ActionRefused(f"no {kind.value} is the newest that waits")
        assert self.senders[name].withdraw(self._offered[name].pop())

    def offer_end(self, name: int) -> None:
        """End the stream of an input."""
        if name in self._closed:
            raise ActionRefused("it has ended")
        self._closed.add(name)

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
        self._offered[name].pop(0)
        if kind is Kind.BARRIER:
            self._sent[name] = message.payload + 1
        believed, word = sender.announced, sender.take_announcement()
        if word is None or word.backlog > believed:  # told together with the data
            self._wires[name].append((message, _item(message, sender.announced), word))
        else:
            self._wires[name].append((message, _item(message, believed), None))
            self._tell(name, word)

    def announce_backlog(self, name: int) -> None:
        """Tell the backlog alone, or with credit that is given back."""
        is_over = name in self._lost or self.receivers[name].is_over
        self._tell(name, None if is_over else self.senders[name].take_announcement())

    return_credit, send_and_tell = announce_backlog, send_data

    def _tell(self, name: int, word: Backlog | None) -> None:
        if word is None:
            raise ActionRefused("there is nothing to announce")
        kind: Literal["backlog", "return"] = "return" if word.returned else "backlog"
        self._wires[name].append((None, Item(kind, self._sent[name], word.backlog), word))

    def add_credit(self, name: int) -> None:
        """Let credit arrive at the sender."""
        if not self._grants[name] or self._grants[name][0] <= RESUME:
            raise ActionRefused("credit is not the oldest on its way")
        self.senders[name].on_feedback(Grant(credit=self._grants[name].popleft()))

    def resume_consumption(self, name: int) -> None:
        """Tell the sender to go on."""
        if not self._grants[name]:
            if self.receivers[name].resume_due is None:
                raise ActionRefused("nothing is on its way")
            self._collect(name)
        if self._grants[name][0] > RESUME:
            raise ActionRefused("the word to resume is not the oldest on its way")
        self.senders[name].on_feedback(Grant(resume=True, revoke=self._grants[name].popleft() == REVOKE))

    # The gate.

    def deliver(self, name: int) -> None:
        """Deliver the oldest message of a wire, with what was told behind it."""
        if not self._wires[name]:
            raise ActionRefused("nothing is on the wire")
        message, item, word = self._wires[name].popleft()
        if message is not None:
            self.receivers[name].deliver(message)
            self._inboxes[name].append(item)
        if word is not None:
            self.receivers[name].on_announcement(word)

    deliver_or_return = deliver

    def consume_data(self, name: int) -> None:
        """Consume the oldest chunk of an input."""
        self._consume(name, Kind.CHUNK)

    def consume_barrier(self, name: int) -> None:
        """Consume the barrier of an input; the gate looks at its number."""
        self._consume(name, Kind.BARRIER)

    consume_newer_barrier = consume_older_barrier = consume_barrier

    def consume_end(self, name: int) -> None:
        """Consume the end of an input, which is behind all else."""
        here = self.receivers[name].is_blocked or self._wires[name] or self._inboxes[name]
        if name not in self._closed or here or not self.senders[name].may_end or self.receivers[name].is_over:
            raise ActionRefused("no end is the oldest here")
        self._require_going_on()
        self.gate.end_input(self.receivers[name])

    def lose_input(self, name: int) -> None:
        """Lose an input, with all that is on its way."""
        if self.receivers[name].is_over:
            raise ActionRefused("it is over")
        self._closed.add(name)
        self._lost.add(name)
        self.receivers[name].drop()
        self.senders[name].withdraw_all()
        for queue in self._wires[name], self._inboxes[name], self._grants[name]:
            queue.clear()

    def _require_going_on(self) -> None:
        if self.gate.has_failed:
            raise ActionRefused("a gate that has failed consumes nothing")

    def _consume(self, name: int, kind: Kind) -> None:
        receiver = self.receivers[name]
        self._require_going_on()
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
        gate = self.gate
        newest = -1 if gate.last is None else gate.last
        epoch = newest + 1 if gate.pending is None else gate.pending
        return State(channels=channels, pool=gate.pool, epoch=epoch, failed=gate.has_failed)

    def _channel(self, name: int) -> Channel:
        sender, receiver = self.senders[name], self.receivers[name]
        if name in self._lost:
            lost = opened(0)._replace(blocked=receiver.is_blocked, free=receiver.free, borrowed=receiver.borrowed)
            return lost._replace(closed=True, over=receiver.is_over)
        word: tuple[int, ...] = () if receiver.resume_due is None else (REVOKE if receiver.resume_due else RESUME,)
        return Channel(
            epoch=self._epochs[name],
            sent=self._sent[name],
            waiting=Fifo([_item(message, 0) for message in sender.waiting]),
            stopped=sender.is_stopped,
            announced=sender.announced,
            credit=sender.credit,
            # Credit that is given back together is one message for each in the model.
            wire=Fifo(
                [
                    item
                    for _, item, word in self._wires[name]
                    for _ in range(word.returned if word and item.kind == "return" else 1)
                ]
            ),
            inbox=Fifo(self._inboxes[name]),
            blocked=receiver.is_blocked,
            released=receiver.is_released,
            # Of an input that is over nobody asks any more what it required: the model keeps it.
            required=sender.announced if receiver.is_over else receiver.required,
            free=receiver.free,
            borrowed=receiver.borrowed,
            grants=Fifo([*self._grants[name], *word]),
            closed=name in self._closed,
            over=receiver.is_over,
        )


def _item(message: Message[int], backlog: int) -> Item:
    """The payload of data is their epoch, that of a barrier its number."""
    return Item("data" if message.kind is Kind.CHUNK else "barrier", message.payload, backlog)
