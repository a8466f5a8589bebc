"""The gate: recorded runs as behaviours of ``InputGate``, and its ends beside the model.

``judge_gate`` judges all inputs of a gate together.  One stream alone is judged as the only input of a gate: then the
model knows neither the others' share of the pool nor whether they had reached the barrier.

The model moves one row at a time, and borrows one credit at a time; the implementation moves chunks and lends shares.
So a recorded event is as many steps as it has rows.  A backlog told behind data is a part of that data in the model.
The implementation also announces a backlog if there is exclusive credit, or credit that is not enough for a chunk.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from permitflow.protocol.gate import (
    GATE_ACTIONS,
    Backlog,
    Gate,
    GateParameters,
    GateReceiver,
    GateSender,
    Grant,
)
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.recording import ENDS, End
from permitflow.testing.moves import ActionRefused, Divergence, Move
from permitflow.testing.subjects import UNLIMITED, Explanation, Subject
from permitflow.tracing.events import Event
from permitflow.tracing.reader import ChannelTrace
from permitflow_model.input_gate import (
    RESUME,
    REVOKE,
    SYSTEM,
    Channel,
    Item,
    Parameters,
    State,
    content_in,
    data_here,
    valid_credit,
)
from permitflow_model.kernel.family import family
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.replay import Path, Refused, Replay, Starved, World, replay
from permitflow_model.kernel.system import Disabled, Step

__all__ = ["SUBJECT", "GateEnds", "GateExplanation", "judge_gate", "model_parameters"]

_ENDS = 2


def model_parameters(parameters: GateParameters) -> Parameters:
    """The specification's constants for a real gate, with epochs and offers without end."""
    return Parameters(
        inputs=parameters.inputs,
        exclusive=parameters.exclusive,
        floating=parameters.floating,
        backlog=UNLIMITED,
        epochs=0,
    )


class GateExplanation:
    """Explains the events of all inputs, in the order in which one process recorded them; or those of one input."""

    def __init__(self, parameters: Parameters, inputs: Mapping[str, int], *, keep_path: bool = False) -> None:
        """``inputs``: by the recorded names of the streams, the model's names of the channels; else it is the first."""
        self.parameters = parameters
        self._inputs = inputs
        self._keep_path = keep_path

    def start(self) -> World[State]:
        """Where every run begins."""
        return World(SYSTEM.initial(self.parameters))

    def perform(self, world: World[State], event: Event) -> Sequence[World[State]]:
        """The world to which the event leads.

        Raises:
            Refused: the model cannot do that, or counts otherwise.
            Starved: nothing has arrived yet.
        """
        name = self._inputs.get(event.channel, 0)
        state, path = world
        if event.action == "AnnounceBacklog":
            state = self._announced(state, name, *event.arguments)
        for action in self._steps(state.channels.get(name), event):
            arguments = () if action == "Align" else (name,)
            try:
                state = SYSTEM.perform(action, state, self.parameters, *arguments)
            except KeyError:
                raise Refused(f"the specification has no action {action!r}") from None
            except Disabled:
                waits = SYSTEM.action(action).is_arrival
                raise (Starved if waits else Refused)(f"{action}{arguments} is impossible in {state}") from None
            if self._keep_path:
                path = Path(Step(action, arguments, state), path, event)
        counted = _counters(state.channels.get(name), event)
        if counted != event.counters:
            raise Refused(f"its end counts {event.counters} afterwards, but it must have {counted}")
        return (World(state, path),)

    def is_at_rest(self, world: World[State]) -> bool:
        """Does nothing wait, and is nothing in flight?"""
        return not SYSTEM.can_move(world.state, self.parameters)

    def allowed(self, world: World[State]) -> list[str]:
        """The names of the actions by which the protocol can go on."""
        steps = SYSTEM.successors(world.state, self.parameters)
        return [step.action for step in steps if not SYSTEM.action(step.action).is_environment]

    def _steps(self, channel: Channel, event: Event) -> Sequence[str]:
        numbers = event.arguments
        match event.action:
            case "Hear":
                granted, resume, _ = numbers
                return ("Hear",) * (resume + (granted > 0))
            case "Deliver":
                data, barriers, _, _ = numbers
                return ("Deliver",) * (data + barriers)
            case "DeliverBacklog":
                backlog, returned = numbers
                is_told_alone = not channel.wire.is_empty() and channel.wire.head()[::2] == ("backlog", backlog)
                if returned:
                    raise Refused("the model withdraws nothing")
                return ("Deliver",) * is_told_alone
            case "Align":
                return ("Align",) if channel.blocked else ()
            case "Abort":
                return ("Align",) if self.parameters.inputs == 1 else ("Abort",)
            case "ConsumeNewerBarrier" | "ConsumeOlderBarrier" if self.parameters.inputs == 1:
                return ("ConsumeBarrier", "Align")[: 1 + (event.action == "ConsumeOlderBarrier")]
            case "ConsumeEnd" | "AnnounceBacklog":
                return ()
            case "OfferData" | "SendData" | "ConsumeData" | "Borrow":
                return (event.action,) * numbers[0]
            case _:
                return (event.action,)

    def _announced(self, state: State, name: int, backlog: int) -> State:
        """The state after an announcement, unless data have told the same."""
        channel = state.channels.get(name)
        if backlog == channel.told:
            return state
        if channel.stopped or backlog != content_in(channel.waiting).data:
            raise Refused(f"backlog {backlog} must not be announced in {state}")
        told = Item("backlog", channel.waiting.head().epoch if backlog else channel.epoch, backlog)
        changed = channel._replace(told=backlog, wire=channel.wire.push(told))
        return state._replace(channels=state.channels.put(name, changed))

    def broken(self, world: World[State]) -> list[str]:
        """The names of the invariants that do not hold."""
        return SYSTEM.broken_invariants(world.state, self.parameters)


def _counters(channel: Channel, event: Event) -> tuple[int, ...]:
    if event.end == "sender":
        return channel.credit, int(channel.stopped)
    inbox = content_in(channel.inbox)
    return inbox.data, channel.free, channel.borrowed, inbox.barriers + channel.blocked


def judge_gate(
    events: Sequence[Event], parameters: GateParameters, inputs: Sequence[str]
) -> Replay[World[State], Event]:
    """Are these events of one process, of both ends of all inputs, a behaviour of the specification?

    ``inputs`` are the names of the recorded streams; events of other streams are left out.
    """
    names = {channel: name for name, channel in enumerate(inputs)}
    explanation = GateExplanation(model_parameters(parameters), names)
    return replay(explanation, explanation.start(), [[event for event in events if event.channel in names]])


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


def _explanation(parameters: Parameters, ends: frozenset[End], keep_path: bool) -> Explanation:
    if len(ends) < _ENDS:
        raise ValueError("both ends must have been recorded: one end's events do not determine the other's")
    return GateExplanation(parameters, {}, keep_path=keep_path)


def _parameters(channel: ChannelTrace) -> Parameters:
    stated = GateParameters(**channel.parameters)  # type: ignore[arg-type]  # it looks at the types itself
    return replace(model_parameters(stated), inputs=1)


def _places(state: State) -> dict[str, int]:
    channel = state.channels.get(0)
    return {
        "credit": valid_credit(channel),
        "data": data_here(channel),
        "free": channel.free,
        "pool": state.pool,
    }


def _in_words(state: State) -> str:
    """The variables of the only channel that differ from those of an idle one."""
    idle, channel = SYSTEM.initial(Parameters(inputs=1, exclusive=0, floating=0, backlog=1)), state.channels.get(0)
    pairs = zip(channel._fields, channel, idle.channels.get(0), strict=True)
    return ", ".join([f"pool {state.pool}", *(f"{name} {value}" for name, value, usual in pairs if value != usual)])


def _rows_of(event: Event) -> int:
    names = GATE_ACTIONS.actions[event.end][event.action]
    return event.arguments[names.index("data")] if "data" in names else 0


SUBJECT = Subject(
    table=GATE_ACTIONS,
    system=SYSTEM,
    parameters=_parameters,
    explanation=_explanation,
    rows_of=_rows_of,
    amount_of=_rows_of,
    consumes={"sender": "SendData", "receiver": "ConsumeData"},
    state_in_words=_in_words,
    places=_places,
    unit="rows of credit",
    place_in_words={
        "credit": "at the sender or on its way there",
        "data": "with data",
        "free": "to be granted",
        "pool": "in the pool",
    },
    waiting=lambda state: [1] * content_in(state.channels.get(0).waiting).data,
)
