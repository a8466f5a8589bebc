"""The gate: recorded runs as behaviours of ``InputGate``.

``judge_gate`` judges all inputs of a gate together.  One stream alone is judged as the only input of a gate: then the
model knows neither the others' share of the pool nor whether they had reached the barrier.

The model moves one row at a time, and borrows one credit at a time; the implementation moves chunks and lends shares.
So a recorded event is as many steps as it has rows.  A backlog
that is told together with data is a part of that data in the model.
The implementation also announces a backlog if there is exclusive credit, or credit that is not enough for a chunk.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from permitflow.flows.gate.core import GATE_ACTIONS, GateParameters
from permitflow.flows.recording import End
from permitflow.tracing.events import Event
from permitflow.tracing.reader import RecordedChannel
from permitflow_model.input_gate import SYSTEM, Channel, Item, Parameters, State, content_in, data_here, valid_credit
from permitflow_model.kernel.guards import false_guard
from permitflow_model.kernel.queue import SummedFifo
from permitflow_model.kernel.replay import Path, Refused, Replay, Starved, World, replay
from permitflow_model.kernel.system import Disabled, Step
from permitflow_testing.subjects import UNLIMITED, Explanation, Subject, require_both

_Move = tuple[str, tuple[int, ...]]
"""An action, and its arguments but for the name of the channel."""


def model_parameters(parameters: GateParameters) -> Parameters:
    """The specification's constants for a real gate, with numbers and offers without end."""
    return Parameters(
        inputs=parameters.inputs,
        exclusive=parameters.exclusive,
        floating=parameters.floating,
        backlog=UNLIMITED,
        epochs=0,
        skip=UNLIMITED,
        ends=True,
        losses=True,
    )


class GateExplanation:
    """Explains the events of all inputs, in the order in which one process recorded them; or those of one input."""

    def __init__(self, parameters: Parameters, inputs: Mapping[str, int], *, keep_path: bool = False) -> None:
        """``inputs``: by the recorded names of the streams, the model's names of the channels; else it is the first."""
        self.parameters = parameters
        self._inputs = inputs
        self._keep_path = keep_path

    def start(self) -> World[State]:
        """Where every run begins; with queues whose sums are remembered."""
        state = SYSTEM.initial(self.parameters)
        return World(state._replace(channels=state.channels.map(_with_sums)))

    def perform(self, world: World[State], event: Event) -> Sequence[World[State]]:
        """The world to which the event leads.

        Raises:
            Refused: the model cannot do that, or counts otherwise.
            Starved: nothing has arrived yet.
        """
        name = self._inputs.get(event.channel, 0)
        state, path = world
        if state.failed and state.channels.get(name).over and event.end == "sender":
            return (world,)  # what was lost is withdrawn and forgotten by both ends
        if event.action == "AnnounceBacklog":
            state = self._announced(state, name, *event.arguments)
        for action, more in self._steps(state.channels.get(name), event):
            arguments = () if action == "Align" else (name, *more)
            try:
                state = SYSTEM.perform(action, state, self.parameters, *arguments)
            except KeyError:
                raise Refused(f"the specification has no action {action!r}") from None
            except Disabled as error:
                # The end is behind all that its sender does.
                waits = SYSTEM.action(action).is_arrival or action == "ConsumeEnd"
                raise (Starved if waits else Refused)(f"{action}{arguments}: {false_guard(error)}") from None
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
        return [
            action.name
            for action in SYSTEM.actions
            if not action.is_environment
            for name in action.performers(world.state)
            if SYSTEM.is_enabled(action.name, world.state, self.parameters, *name)
        ]

    @property
    def _is_alone(self) -> bool:
        """Is it one input, without the others of its gate?  Then barriers are only counted."""
        return self.parameters.inputs == 1 and self.parameters.skip == 0

    def _steps(self, channel: Channel, event: Event) -> Sequence[_Move]:
        """The actions, and their arguments but for the name of the channel."""
        if event.action == "OfferBarrier":
            newer = 0 if self._is_alone else event.arguments[0] - channel.epoch
            if newer < 0:
                raise Refused(f"barrier {event.arguments[0]} follows barrier {channel.epoch - 1}: numbers must grow")
            return [("OfferNewerBarrier", (newer,))] if newer else [("OfferBarrier", ())]
        return [(action, ()) for action in self._plain_steps(channel, event)]

    def _plain_steps(self, channel: Channel, event: Event) -> Sequence[str]:
        numbers = event.arguments
        match event.action:
            case (
                "OfferData" | "SendData" | "ConsumeData" | "Borrow"
            ):  # the usual ones first: they are compared in order
                return (event.action,) * numbers[0]
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
            case "AbortAlignment" if self._is_alone:
                return ("Align",)
            case "AbortAlignment":
                if channel.blocked:
                    raise Refused("an input is freed, but no newer barrier came and no input was lost")
                return ()
            case "ConsumeNewerBarrier" | "ConsumeOlderBarrier" if self._is_alone:
                return ("ConsumeBarrier", "Align")[: 1 + (event.action == "ConsumeOlderBarrier")]
            case "ConsumeEnd":
                return ("ConsumeEnd",) if channel.closed else ("OfferEnd", "ConsumeEnd")
            case "AnnounceBacklog":
                return ()
            case _:
                return (event.action,)

    def _announced(self, state: State, name: int, backlog: int) -> State:
        """The state after an announcement, unless data have told the same."""
        channel = state.channels.get(name)
        if backlog == channel.announced:
            return state
        if channel.stopped or backlog != content_in(channel.waiting).data:
            raise Refused(f"backlog {backlog} must not be announced in {state}")
        told = Item("backlog", channel.sent, backlog)
        changed = channel._replace(announced=backlog, wire=channel.wire.push(told))
        return state._replace(channels=state.channels.put(name, changed))

    def broken(self, world: World[State]) -> list[str]:
        """The names of the invariants that do not hold."""
        return SYSTEM.broken_invariants(world.state, self.parameters)


def _with_sums(channel: Channel) -> Channel:
    waiting, wire, inbox = (SummedFifo[Item]() for _ in range(3))
    return channel._replace(waiting=waiting, wire=wire, inbox=inbox)


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


def _explanation(parameters: Parameters, ends: frozenset[End], keep_path: bool) -> Explanation:
    require_both(ends)
    return GateExplanation(parameters, {}, keep_path=keep_path)


def _parameters(channel: RecordedChannel) -> Parameters:
    stated = GateParameters(**channel.parameters)  # type: ignore[arg-type]  # it looks at the types itself
    return replace(model_parameters(stated), inputs=1, skip=0)


def _places(state: State) -> dict[str, int]:
    channel = state.channels.get(0)
    return {"credit": valid_credit(channel), "data": data_here(channel), "free": channel.free, "pool": state.pool}


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
