"""Demand: the rules of ``Demand``, the mistakes that break them, and small channels.

All messages are alike, chunks of any size and barriers; there are no watermarks.  All channels here are pushed: what a
receiver withholds is asked for by a move that the applications here do not have.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from permitflow.flows.demand.core import Demand
from permitflow.flows.messages import Kind
from permitflow_model.demand import SYSTEM, Parameters, State
from permitflow_model.kernel.system import require
from permitflow_model.mistakes.demand import sends_the_newest_first, sends_unrequested
from permitflow_testing import mistakes
from permitflow_testing.adapter import Feature, ReceivedMessage
from permitflow_testing.mistakes import changed_after, changed_before, right
from permitflow_testing.outside import CONSUME, Outside, Perform, World
from permitflow_testing.rules import FEW, Breach, Duty, Graph, Integer, Lacks, Rulebook, rules_in, whole_run_rules
from permitflow_testing.subjects.demand import DemandPair

FULL, OVERLAPPING = Demand(size=2, batch=2), Demand(size=3, batch=2)


class DemandOutside(Outside):
    """Notes: of each message in the channel its number, kind and rows."""

    system: ClassVar[Any] = SYSTEM

    def received(self, world: World, message: int) -> ReceivedMessage:
        """A message as the receiving application gets it."""
        of = {number: (kind, rows) for number, kind, rows in world.notes}
        kind, rows = of.get(message, (Kind.CHUNK, 1))  # only chunks of one row are withdrawn by a mistaken channel
        return ReceivedMessage(kind, message if kind is Kind.CHUNK else 0, rows)

    def offer(self, world: World, hop: int, kind: Kind, rows: int = 0) -> World:
        """Offer a chunk or a barrier."""
        number = world.hops[hop].offered
        others = (note for note in world.notes if note[0] != number)
        return self.act(world, hop, "Offer")._replace(notes=(*others, (number, kind, rows)))

    def withdraw(self, world: World, position: int) -> World:
        """Cancel a send; the messages behind it move up."""
        gone = tuple(world.hops[0].waiting)[position]
        notes = tuple((number - (number > gone), *it) for number, *it in world.notes if number != gone)
        return super().withdraw(world, position)._replace(notes=notes)

    def rebased_notes(self, world: World) -> Any:
        """The notes of the messages that are still in the channel."""
        here = {message for hop in world.hops for queue in (hop.waiting, hop.wire, hop.inbox) for message in queue}
        base = world.hops[-1].consumed
        return tuple(sorted((number - base, *it) for number, *it in world.notes if number in here))

    @staticmethod
    def withdrawal(state: Any, position: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Take back the message and all newer ones, and offer the newer ones again."""
        younger = state.waiting.size() - position - 1
        yield from [("Withdraw", ())] * (younger + 1)
        yield from [("Offer", ())] * younger

    @staticmethod
    def withdraw_action(message: int) -> str:
        """All messages are alike."""
        return "Withdraw"

    @staticmethod
    def robbed(state: State) -> State:
        """One message less may leave."""
        return state._replace(credit=state.credit - 1)

    @staticmethod
    def given_back(state: State, message: int) -> State:
        """One message more may leave soon."""
        return state._replace(requests=state.requests + 1)

    @staticmethod
    def consumed_silently(before: State, after: State) -> State:
        """Nothing is requested for it, now or later."""
        return after._replace(requests=before.requests, unrequested=before.unrequested)


class _Lets(DemandOutside):
    """Lets some messages leave although they may not."""

    def passes(self, message: ReceivedMessage) -> bool:
        """May it?"""
        raise NotImplementedError

    def act(self, world: World, hop: int, action: str, *arguments: int) -> World:
        """One action."""
        state = world.hops[hop]
        oldest = None if state.waiting.is_empty() else self.received(world, state.waiting.head())
        if action == "Send" and oldest is not None and self.passes(oldest):
            sent = super().act(self.with_hop(world, hop, state._replace(credit=1)), hop, action)
            return self.with_hop(sent, hop, sent.hops[hop]._replace(credit=state.credit))
        return super().act(world, hop, action, *arguments)


class _LetsEmptyPass(_Lets):
    """Lets empty chunks pass."""

    def passes(self, message: ReceivedMessage) -> bool:
        """May this message leave?"""
        return message.kind is Kind.CHUNK and not message.rows


class _LetsBarriersPass(_Lets):
    """Lets barriers pass."""

    def passes(self, message: ReceivedMessage) -> bool:
        """May this message leave?"""
        return message.kind is Kind.BARRIER


class _CountsRows(DemandOutside):
    """Lets no message of more than one row leave."""

    def act(self, world: World, hop: int, action: str, *arguments: int) -> World:
        """One action."""
        waiting = world.hops[hop].waiting
        if action == "Send" and not waiting.is_empty():
            require(self.received(world, waiting.head()).rows <= 1)
        return super().act(world, hop, action, *arguments)


_SEND, _DELIVER, _CONSUME = (right(DemandOutside, name) for name in ("Send", "Deliver", CONSUME))


def _one_more(state: State, parameters: Parameters) -> State:
    sent: State = _SEND(state._replace(credit=state.credit + 1), parameters)
    return sent._replace(credit=sent.credit - 1)


def _with_another(state: State, _: Parameters) -> State:
    require(state.waiting.size() > 1)
    return state


def _requesting(change: Callable[[int], int]) -> dict[str, Perform]:
    def changed(before: State, after: State) -> State:
        return after._replace(requests=before.requests + change(after.requests - before.requests))

    return {CONSUME: changed_after(_CONSUME, changed)}


def _one_by_one(before: State, after: State) -> State:
    return after._replace(requests=before.requests + 1, unrequested=0)


def _too_late(state: State, parameters: Parameters) -> State:
    """A batch is complete with one message more."""
    before = state.unrequested
    is_complete = before >= parameters.batch
    consumed: State = _CONSUME(state._replace(unrequested=0), parameters)
    return consumed._replace(
        requests=state.requests + is_complete * (before + 1), unrequested=0 if is_complete else before + 1
    )


_LOST = {"Deliver": changed_after(_DELIVER, lambda before, after: before._replace(wire=after.wire))}
_FORGOTTEN = {"Withdraw": mistakes.withdraw_and_forget(DemandOutside, "Withdraw")}
_CANCELLED = "A send that was cancelled while it waited"

TABLE = (
    Duty(
        "window",
        "Bounded",
        "No more messages are out than the size, and those that the application holds are among them.",
    ),
    Breach("lets one message more leave", "1", {"Send": _one_more}),
    Breach("lets any number of messages leave", "1", {"Send": sends_unrequested}),
    Duty("sent-when-requested", "Send", "A message leaves at once if it was requested."),
    Breach("keeps a message back until a second one waits", "1", {"Send": changed_before(_SEND, _with_another)}),
    Duty("any-size", "Send", "A chunk is one message, however many rows it has.", "weights"),
    Breach("lets an empty chunk pass", "0 Receive", _LetsEmptyPass),
    Breach("keeps a chunk of several rows back", "2 Receive", _CountsRows),
    Duty("barrier-is-a-message", "Send", "A barrier waits for its turn and for a request, as chunks do.", "barriers"),
    Breach("lets a barrier pass", "1 OfferBarrier", _LetsBarriersPass),
    Duty(
        "requested-when-consumed",
        "Consume",
        "A message is requested again when the application has consumed it, not before.",
    ),
    Breach("sends a request when a message arrives", "1", mistakes.deliver_and_return(DemandOutside)),
    Breach(
        "sends a request when a message is handed over",
        "1 Take Consume",
        mistakes.ReturnsOnHandOver,
        "acknowledgement",
    ),
    Duty("every-message-requested", "Conservation", "Each message that was consumed is requested again."),
    Breach("leaves out a request", "1 Receive", _requesting(lambda count: max(count - 1, 0))),
    Duty("requested-once", "Conservation", "Each message that was consumed is requested again once."),
    Breach("sends a request twice", "1 Receive", _requesting(lambda count: 2 * count)),
    Duty("oldest-leaves-first", "Send", "Messages leave in the order in which they were offered."),
    Breach("lets the newest waiting message leave first", "1 Receive", {"Send": sends_the_newest_first}),
    Duty("withdrawn-never-sent", "Withdraw", f"{_CANCELLED} has sent nothing.", "cancellation"),
    Breach("sends a cancelled message later", "1 WithdrawChunk Receive", {"Withdraw": mistakes.keep_withdrawn}),
    Duty("withdrawn-uses-no-request", "Withdraw", f"{_CANCELLED} uses up no request.", "cancellation"),
    Breach("needs a request for a cancelled message", "1 WithdrawChunk Receive", _FORGOTTEN),
    Duty("refused-changes-nothing", "Send", "What the channel refuses leaves it as it was.", "refusals"),
    Breach("sends a refused message later", "SendChunkNow(1) Receive", mistakes.KeepsRefused),
    Breach("needs a request for a refused message", "SendChunkNow(1) Receive", mistakes.PaysForRefused),
    Duty("exactly-once", "ExactlyOnceInOrder", "Every message that has left is received, once and in order."),
    Breach("loses a message", "1 Receive", _LOST),
    Breach("hands a message over twice", "1 Receive", {"Deliver": mistakes.deliver_twice(DemandOutside)}),
    Breach(
        "puts an arriving message in front",
        "1 Receive",
        {"Deliver": mistakes.deliver_in_front(DemandOutside)},
        agreed=FULL,
    ),
    Duty(
        "batched",
        "RequestsBatched",
        "Consumed messages are requested again as soon as they are a batch, and not before.",
    ),
    Breach(
        "requests each consumed message at once",
        "1 Receive",
        {CONSUME: changed_after(_CONSUME, _one_by_one)},
        agreed=FULL,
    ),
    Breach("requests a batch one message too late", "1 Receive", {CONSUME: _too_late}, agreed=OVERLAPPING),
)
"""The rules with their mistakes, in a channel that lets out one message at a time where nothing else is said."""


class DemandRules(Rulebook):
    """Windows and batches of a few messages."""

    outside = DemandOutside
    pair = DemandPair
    rules = (
        *rules_in(TABLE, SYSTEM.module, Demand(size=1)),
        *whole_run_rules(SYSTEM.module, withdraw="Withdraw"),
    )
    not_modelled = frozenset({Feature.WATERMARKS})
    used_by_pairs = frozenset({Feature.CANCELLATION})
    unit = "requests"
    plain = Demand(size=3, batch=1)  # so that all of it has room again once everything is consumed

    def model(
        self, agreed: Demand, sizes: Sequence[int], *, waiters: int, tags: int = 1, lacks: Lacks = frozenset()
    ) -> Parameters:
        """A window of messages is out; ``FEW`` tags are as many as messages can be in the channel."""
        return Parameters(
            size=agreed.size,
            batch=agreed.batch,
            initial=agreed.initial,
            waiters=waiters,
            withdrawals=True,
            tags=waiters + agreed.size + 1 if tags == FEW else tags,
        )

    def graphs(self, lacks: Lacks, hops: int) -> list[Graph]:
        """Chunks of two sizes, and barriers, in the first channel; chunks of one size in the other."""
        plain = lacks | self.not_modelled | {Feature.WEIGHTS, Feature.BARRIERS}
        if hops > 1:
            return [Graph(FULL, (1,), plain | {Feature.REFUSALS})]
        first = Graph(FULL, (1,) if Feature.WEIGHTS in lacks else (0, 2), lacks | self.not_modelled)
        return [first, Graph(OVERLAPPING, (1,), plain)]

    def left_out(self, lacks: Lacks) -> list[str]:
        """A pair need not be able to withdraw."""
        return ["RequestWithheld", *(["Withdraw"] if Feature.CANCELLATION in lacks else [])]

    def drawn(self, integer: Integer, lacks: Lacks, hops: int) -> tuple[Demand, tuple[int, ...]]:
        """Chunks of several sizes."""
        return _any_channel(integer), (1,) if Feature.WEIGHTS in lacks else (0, 1, integer(2, 100))

    def drawn_pair(self, integer: Integer) -> tuple[Demand, tuple[int, ...]]:
        """The model knows no sizes."""
        return _any_channel(integer), (1,)

    def of_a_run(self, lacks: Lacks, *, is_observed: bool) -> tuple[Demand, tuple[int, ...]]:
        """Chunks of several sizes; a small window for a run that is only observed."""
        return Demand(size=2 if is_observed else 8), (1,) if Feature.WEIGHTS in lacks else (0, 1, 5)


def _any_channel(integer: Integer) -> Demand:
    """Any small window and batch."""
    size = integer(1, 4)
    return Demand(size=size, batch=integer(1, size))


RULEBOOK = DemandRules()
