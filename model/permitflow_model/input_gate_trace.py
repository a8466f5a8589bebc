"""The gate's recorded events as steps of ``InputGate``; once something is taken back, of ``WithdrawingGate``.

The model moves one row at a time, and borrows one credit at a time; the implementation moves chunks and lends shares.
So a recorded event is as many steps as it has rows; they are made at once where all of them are possible.  A backlog
that is told together with data is a part of that data in the model.  The implementation also announces a backlog if
there is exclusive credit, or credit that is not enough for a chunk.

A message withdrawn from the middle is withdrawn with those behind it, which are offered again.  Which of several it was
is not recorded: each is an explanation.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Protocol

from permitflow_model.input_gate import SYSTEM
from permitflow_model.input_gate_credit import Channel, Item, Parameters, State, content_in
from permitflow_model.input_gate_runs import RUNS_AFTER_WITHDRAWALS, ItemRuns, runs_in
from permitflow_model.kernel.guards import false_guard
from permitflow_model.kernel.replay import Path, RecordedStep, Refused, Starved, World
from permitflow_model.kernel.system import Disabled, Step
from permitflow_model.withdrawing_gate import SYSTEM as WITHDRAWING

Moves = Sequence[tuple[str, tuple[int, ...], int]]
"""Each an action, its arguments but for the name of the channel, and how many times."""

Lines = Sequence[tuple[Item, int]]
"""As of ``ItemRuns``."""


class TraceEvent(RecordedStep, Protocol):
    """An event of one input."""

    @property
    def channel(self) -> str:
        """The input's recorded name."""
        ...

    @property
    def end(self) -> str:
        """Where it happened: sender or receiver."""
        ...


class GateExplanation:
    """Explains the events of all inputs, in the order in which one process recorded them; or those of one input."""

    def __init__(self, parameters: Parameters, inputs: Mapping[str, int], *, keep_path: bool = False) -> None:
        """``inputs``: by the recorded names of the streams, the model's names of the channels; else it is the first."""
        self.system = SYSTEM
        self.parameters = parameters
        self._inputs = inputs
        self._keep_path = keep_path

    def start(self) -> World[State]:
        """Where every run begins; with queues whose sums are remembered."""
        state = SYSTEM.initial(self.parameters)
        return World(state._replace(channels=state.channels.map(_with_sums)))

    def perform(self, world: World[State], event: TraceEvent) -> Sequence[World[State]]:
        """The world to which the event leads.

        Raises:
            Refused: the model cannot do that, or counts otherwise.
            Starved: nothing has arrived yet.
        """
        self._follow(world)
        name = self._inputs.get(event.channel, 0)
        state = world.state
        if state.failed and event.end == "sender" and state.channels.get(name).over:
            return (world,)  # what was lost is withdrawn and forgotten by both ends
        if event.action == "AnnounceBacklog":
            world = world._replace(state=self._announced(state, name, *event.arguments))
        if not event.action.startswith("Withdraw"):
            return (self._behind(world, name, event, self._steps(state.channels.get(name), event)),)
        world = world._replace(noted="withdrawn")
        self._follow(world)
        found, told = [], Refused("nothing of the kind waits")
        for moves in self._withdrawals(state.channels.get(name), event):
            try:
                found.append(self._behind(world, name, event, moves))
            except Refused as error:  # this one cannot have been it
                told = error
        if not found:
            raise told
        return found

    def _follow(self, world: World[State]) -> None:
        """Judge by the model in which messages are taken back, once one was."""
        if world.noted:
            self.system = WITHDRAWING

    def _behind(self, world: World[State], name: int, event: TraceEvent, moves: Moves) -> World[State]:
        """The world to which these steps lead."""
        state, path, noted = world
        for action, more, times in moves:
            arguments = () if action == "Align" else (name, *more)
            try:
                for count in [1] * times if self._keep_path and times >= 0 else [times]:
                    state = self.after(action, state, arguments, count)
                    if self._keep_path:
                        path = Path(Step(action, arguments, state), path, event)
            except KeyError:
                raise Refused(f"the specification has no action {action!r}") from None
            except Disabled as error:
                # The end is behind all that its sender does.
                waits = self.system.action(action).is_arrival or action == "ConsumeEnd"
                raise (Starved if waits else Refused)(f"{action}{arguments}: {false_guard(error)}") from None
        counted = _counters(state.channels.get(name), event)
        if counted != event.counters:
            raise Refused(f"its end counts {event.counters} afterwards, but it must have {counted}")
        return World(state, path, noted)

    def after(self, action: str, state: State, arguments: tuple[int, ...], times: int) -> State:
        """The state behind this many steps."""
        if times < 0:
            raise Refused(f"{action} cannot be done {times} times")
        if times > 1 and action in RUNS_AFTER_WITHDRAWALS:
            try:
                return RUNS_AFTER_WITHDRAWALS[action](state, self.parameters, arguments[0], times)
            except Disabled:
                pass  # the model says which step is impossible
        for _ in range(times):
            state = self.system.perform(action, state, self.parameters, *arguments)
        return state

    def is_at_rest(self, world: World[State]) -> bool:
        """Does nothing wait, and is nothing in flight?"""
        self._follow(world)
        return not self.system.can_move(world.state, self.parameters)

    def allowed(self, world: World[State]) -> list[str]:
        """The names of the actions by which the protocol can go on."""
        self._follow(world)
        return [
            action.name
            for action in self.system.actions
            if not action.is_environment
            and action.by_some(world.state, partial(self.system.is_enabled, action.name, world.state, self.parameters))
        ]

    @property
    def _is_alone(self) -> bool:
        """Is it one input, without the others of its gate?  Then barriers are only counted."""
        return self.parameters.inputs == 1 and self.parameters.skip == 0

    def _steps(self, channel: Channel, event: TraceEvent) -> Moves:
        if event.action in _ROWS:
            action = "SendAndTell" if event.action == "SendData" and self.system is not SYSTEM else event.action
            return ((action, (), event.arguments[0]),)
        if event.action == "OfferBarrier":
            newer = 0 if self._is_alone else event.arguments[0] - channel.epoch
            if newer < 0:
                raise Refused(f"barrier {event.arguments[0]} follows barrier {channel.epoch - 1}: numbers must grow")
            return [("OfferNewerBarrier", (newer,), 1)] if newer else [("OfferBarrier", (), 1)]
        return [(action, (), times) for action, times in self._plain_steps(channel, event)]

    def _plain_steps(self, channel: Channel, event: TraceEvent) -> Sequence[tuple[str, int]]:
        numbers = event.arguments
        match event.action:
            case "Deliver":
                data, barriers, _, _ = numbers
                return ((self._deliver, data + barriers),)
            case "DeliverBacklog":
                backlog, returned = numbers
                if returned:
                    if not all(item.kind == "return" for item in islice(channel.wire, max(0, returned))):
                        raise Refused(f"{returned} credit is not the oldest on its way back")
                    return ((self._deliver, returned),)
                if not channel.wire.is_empty() and channel.wire.head()[::2] == ("backlog", backlog):
                    return ((self._deliver, 1),)
                if channel.required == backlog:
                    return ()  # data have told it
                if channel.wire.is_empty():
                    raise Starved(f"backlog {backlog} was not told yet")
                raise Refused(f"backlog {backlog} is not the oldest message on its way")
            case "ReturnCredit":
                return (("ReturnCredit", numbers[0]),)
            case "Align":
                return (("Align", 1),) if channel.blocked else ()
            case "AbortAlignment" if self._is_alone:
                return (("Align", 1),)
            case "AbortAlignment":
                if channel.blocked:
                    raise Refused("an input is freed, but no newer barrier came and no input was lost")
                return ()
            case "ConsumeNewerBarrier" | "ConsumeOlderBarrier" if self._is_alone:
                return (("ConsumeBarrier", 1), ("Align", 1))[: 1 + (event.action == "ConsumeOlderBarrier")]
            case "ConsumeEnd":
                return (("ConsumeEnd", 1),) if channel.closed else (("OfferEnd", 1), ("ConsumeEnd", 1))
            case "AnnounceBacklog":
                return ()
            case _:
                return ((event.action, 1),)

    @property
    def _deliver(self) -> str:
        return "Deliver" if self.system is SYSTEM else "DeliverOrReturn"

    def _withdrawals(self, channel: Channel, event: TraceEvent) -> Iterator[Moves]:
        """What waits from the withdrawn message on is taken back, newest first; what is behind it is offered again."""
        waiting = runs_in(channel.waiting).lines()
        kind, count = ("data", event.arguments[0]) if event.action == "WithdrawData" else ("barrier", 1)
        for place, (line, length) in reversed([*enumerate(waiting)]):
            if line.kind == kind and length >= count:
                ahead, behind = waiting[:place], waiting[place + 1 :]
                taken = [(_WITHDRAWING[item.kind], (), many) for item, many in reversed(behind)]
                yield [*taken, (event.action, (), count), *self._offered(channel, ahead, behind)]

    def _offered(self, channel: Channel, ahead: Lines, behind: Lines) -> Moves:
        """Offer what is behind; barriers keep their numbers, where these count."""
        due = channel.sent
        for item, _ in ahead:
            due = item.epoch + (item.kind == "barrier")
        moves: list[tuple[str, tuple[int, ...], int]] = []
        for item, many in behind:
            if item.kind == "data":
                moves.append(("OfferData", (), many))
                continue
            newer = 0 if self._is_alone else item.epoch - due
            moves.append(("OfferNewerBarrier", (newer,), 1) if newer else ("OfferBarrier", (), 1))
            due += newer + 1
        return moves

    def _announced(self, state: State, name: int, backlog: int) -> State:
        """The state after an announcement, unless data have told the same."""
        channel = state.channels.get(name)
        if backlog == channel.announced:
            return state
        if channel.stopped:
            raise Refused(f"backlog {backlog} must not be announced: its sender is stopped behind a barrier")
        if backlog != (waits := content_in(channel.waiting).data):
            raise Refused(f"backlog {backlog} must not be announced: data of {waits} waits")
        told = Item("backlog", channel.sent, backlog)
        changed = channel._replace(announced=backlog, wire=channel.wire.push(told))
        return state._replace(channels=state.channels.put(name, changed))

    def broken(self, world: World[State]) -> list[str]:
        """The names of the invariants that do not hold."""
        self._follow(world)
        return self.system.broken_invariants(world.state, self.parameters)


_ROWS = frozenset(("OfferData", "SendData", "ConsumeData", "Borrow"))
"""Events that are as many steps as they have rows."""

_WITHDRAWING = {"data": "WithdrawData", "barrier": "WithdrawBarrier"}


def _with_sums(channel: Channel) -> Channel:
    return channel._replace(waiting=ItemRuns(), wire=ItemRuns(), inbox=ItemRuns())


def _counters(channel: Channel, event: TraceEvent) -> tuple[int, ...]:
    if event.end == "sender":
        return channel.credit, int(channel.stopped)
    inbox = content_in(channel.inbox)
    return inbox.data, channel.free, channel.borrowed, inbox.barriers + channel.blocked
