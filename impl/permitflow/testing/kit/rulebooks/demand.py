"""Demand: the rules of ``Demand``, the mistakes that break them, and small channels.

The specification's messages are numbers; it treats chunks of any size and barriers alike, and has no watermarks.  All
channels here are pushed: what a receiver withholds is asked for by a move that the applications here do not have.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from permitflow.protocol.demand import Demand
from permitflow.testing.kit import mistakes
from permitflow.testing.kit.adapter import Feature
from permitflow.testing.kit.mistakes import changed_after, changed_before, right, send_from
from permitflow.testing.kit.numbered import CountsRows, LetsBarriersPass, LetsEmptyPass, NumberedOutside
from permitflow.testing.kit.outside import CONSUME, Outside, Perform
from permitflow.testing.kit.rules import FEW, Graph, Integer, Lacks, Mistake, Rule, Rulebook, whole_run_rules
from permitflow.testing.moves import Move
from permitflow.testing.subjects.demand import DemandPair
from permitflow_model.demand import SYSTEM, Parameters, State
from permitflow_model.kernel.system import require


class DemandOutside(NumberedOutside):
    """As many messages may leave as were requested."""

    system: ClassVar[Any] = SYSTEM
    room: ClassVar[str] = "credit"

    @staticmethod
    def given_back(state: State, message: int) -> State:
        """A request for one more is on its way."""
        return state._replace(requests=state.requests + 1)

    @staticmethod
    def consumed_silently(before: State, after: State) -> State:
        """Nothing is requested for it."""
        return after._replace(requests=before.requests, unrequested=before.unrequested)


# The rules.

_SEND, _DELIVER, _CONSUME = (right(DemandOutside, name) for name in ("Send", "Deliver", CONSUME))
ONES, TWOS = (Move("OfferChunk", (1,)),), (Move("OfferChunk", (2,)),)
TAKE, DONE_WITH, RECEIVE, BARRIER = Move("Take"), Move("Consume"), Move("Receive"), Move("OfferBarrier")
_SENT_AND_READ = (*ONES, RECEIVE)
_GIVEN_UP = (*ONES, Move("WithdrawChunk"), RECEIVE)
_NOW = (Move("SendChunkNow", (1,)), RECEIVE)
_NONE: Lacks = frozenset()
_BARRIERS, _WEIGHTS = frozenset({Feature.BARRIERS}), frozenset({Feature.WEIGHTS})
_CANCELLATION, _REFUSALS = frozenset({Feature.CANCELLATION}), frozenset({Feature.REFUSALS})
SINGLY, FULL, OVERLAPPING = Demand(size=1), Demand(size=2, batch=2), Demand(size=3, batch=2)


def _it(
    name: str,
    moves: tuple[Move, ...],
    actions: dict[str, Perform] | None = None,
    *,
    agreed: Demand = SINGLY,
    outside: type[Outside] = Outside,
    needs: Lacks = _NONE,
) -> Mistake:
    return Mistake(name, agreed, moves, actions or {}, outside, needs)


def _rule(name: str, statement: str, operator: str, needs: Lacks, *mistakes: Mistake) -> Rule:
    return Rule(SYSTEM.module, name, statement, operator, needs, mistakes)


def _requests(change: Callable[[int], int]) -> dict[str, Perform]:
    """Requests another number of messages for a batch."""
    changed = changed_after(
        _CONSUME,
        lambda before, after: after._replace(requests=before.requests + change(after.requests - before.requests)),
    )
    return {CONSUME: changed}


def _one_by_one(before: State, after: State) -> State:
    return after._replace(requests=before.requests + 1, unrequested=0)


def _too_late(state: State, parameters: Parameters) -> State:
    """A batch is complete with one message more."""
    before = state.unrequested
    if before < parameters.batch:
        consumed: State = _CONSUME(state._replace(unrequested=0), parameters)
        return consumed._replace(requests=state.requests, unrequested=before + 1)
    consumed = _CONSUME(state._replace(unrequested=0), parameters)
    return consumed._replace(requests=state.requests + before + 1, unrequested=0)


_LOST = {"Deliver": changed_after(_DELIVER, lambda before, after: before._replace(wire=after.wire))}


def _one_more(state: State, parameters: Parameters) -> State:
    after: State = _SEND(state._replace(credit=state.credit + 1), parameters)
    return after._replace(credit=after.credit - 1)


def _with_another(state: State, _: Parameters) -> State:
    require(state.waiting.size() > 1)
    return state


RULES = (
    # Messages are requested.
    _rule(
        "window",
        "No more messages are out than the size, and those that the application holds are among them.",
        "Bounded",
        _NONE,
        _it("lets one message more leave than was requested", ONES, {"Send": _one_more}),
        _it(
            "lets any number of messages leave",
            ONES,
            {"Send": changed_before(_SEND, lambda state, _: state._replace(credit=1))},
        ),
    ),
    _rule(
        "sent-when-requested",
        "A message leaves at once if it was requested.",
        "Send",
        _NONE,
        _it("keeps a message back until a second one waits", ONES, {"Send": changed_before(_SEND, _with_another)}),
    ),
    _rule(
        "any-size",
        "A chunk is one message, however many rows it has.",
        "Send",
        _WEIGHTS,
        _it("lets an empty chunk pass unrequested", (Move("OfferChunk", (0,)), RECEIVE), outside=LetsEmptyPass),
        _it("keeps a chunk of several rows back", (*TWOS, RECEIVE), outside=CountsRows),
    ),
    _rule(
        "barrier-is-a-message",
        "A barrier waits for its turn and for a request, as chunks do.",
        "Send",
        _BARRIERS,
        _it("lets a barrier pass unrequested", (*ONES, BARRIER), outside=LetsBarriersPass),
    ),
    _rule(
        "requested-when-consumed",
        "A message is requested again when the application has consumed it, not before.",
        "Consume",
        _NONE,
        _it("requests more when a message arrives", ONES, mistakes.deliver_and_return(DemandOutside)),
        _it(
            "requests more when a message is handed over",
            (*ONES, TAKE, DONE_WITH),
            outside=mistakes.ReturnsOnHandOver,
            needs=frozenset({Feature.ACKNOWLEDGEMENT}),
        ),
    ),
    _rule(
        "batched",
        "Consumed messages are requested again as soon as they are a batch, and not before.",
        "RequestsBatched",
        _NONE,
        _it(
            "requests each consumed message at once",
            _SENT_AND_READ,
            {CONSUME: changed_after(_CONSUME, _one_by_one)},
            agreed=FULL,
        ),
        _it("requests a batch one message too late", _SENT_AND_READ, {CONSUME: _too_late}, agreed=OVERLAPPING),
    ),
    _rule(
        "every-message-requested",
        "Each message that was consumed is requested again.",
        "Conservation",
        _NONE,
        _it("requests one message less than a batch", _SENT_AND_READ, _requests(lambda batch: max(0, batch - 1))),
    ),
    _rule(
        "requested-once",
        "Each message that was consumed is requested again once.",
        "Conservation",
        _NONE,
        _it("requests a batch twice", _SENT_AND_READ, _requests(lambda batch: 2 * batch)),
    ),
    # Order.
    _rule(
        "oldest-leaves-first",
        "Messages leave in the order in which they were offered.",
        "Send",
        _NONE,
        _it(
            "lets the newest waiting message leave first",
            _SENT_AND_READ,
            {"Send": send_from(_SEND, lambda line, _: len(line) - 1)},
        ),
    ),
    _rule(
        "exactly-once",
        "Every message that has left is received, once and in order.",
        "ExactlyOnceInOrder",
        _NONE,
        _it("loses a message", _SENT_AND_READ, _LOST),
        _it("hands a message over twice", _SENT_AND_READ, {"Deliver": mistakes.deliver_twice(DemandOutside)}),
        _it(
            "puts an arriving message in front",
            _SENT_AND_READ,
            {"Deliver": mistakes.deliver_in_front(DemandOutside)},
            agreed=FULL,
        ),
    ),
    # Sends are given up.
    _rule(
        "withdrawn-never-sent",
        "A send that was cancelled while it waited has sent nothing.",
        "Withdraw",
        _CANCELLATION,
        _it("sends a cancelled message later", _GIVEN_UP, {"Withdraw": mistakes.keep_withdrawn}),
    ),
    _rule(
        "withdrawn-uses-no-request",
        "A send that was cancelled while it waited uses up no request.",
        "Withdraw",
        _CANCELLATION,
        _it(
            "uses a request up for a cancelled message",
            _GIVEN_UP,
            {"Withdraw": mistakes.withdraw_and_forget(DemandOutside, "Withdraw")},
        ),
    ),
    _rule(
        "refused-changes-nothing",
        "What the channel refuses leaves it as it was.",
        "Send",
        _REFUSALS,
        _it("sends a refused message later", _NOW, outside=mistakes.KeepsRefused),
        _it("uses a request up for a refused message", _NOW, outside=mistakes.PaysForRefused),
    ),
)


class DemandRules(Rulebook):
    """All of the above, for windows and batches of a few messages."""

    outside = DemandOutside
    pair = DemandPair
    rules = (*RULES, *whole_run_rules(SYSTEM.module, withdraw="Withdraw"))
    unit = "requests"
    plain = Demand(size=3, batch=1)  # so that all of it has room again once everything is consumed
    not_modelled = frozenset({Feature.WATERMARKS})
    used_by_pairs = _CANCELLATION

    def model(
        self, agreed: Demand, sizes: Sequence[int], *, waiters: int, tags: int = 1, lacks: Lacks = frozenset()
    ) -> Parameters:
        """The specification's constants."""
        return Parameters(
            size=agreed.size,
            batch=agreed.batch,
            initial=agreed.initial,
            waiters=waiters,
            withdrawals=True,
            tags=waiters + agreed.size + 1 if tags == FEW else tags,
        )

    def graphs(self, lacks: Lacks, hops: int) -> list[Graph]:
        """Full and overlapping batches; chunks of two sizes, and barriers."""
        if hops > 1:
            lacks |= _WEIGHTS | _REFUSALS | _BARRIERS
        lacks |= self.not_modelled
        two = Graph(FULL, (1,) if Feature.WEIGHTS in lacks else (0, 2), lacks)
        return [two] if hops > 1 else [two, Graph(OVERLAPPING, (1,), lacks | _WEIGHTS | _BARRIERS)]

    def pair_graphs(self, lacks: Lacks) -> list[Graph]:
        """The same batches."""
        return [Graph(agreed, (1,), lacks, waiters=2) for agreed in (FULL, OVERLAPPING)]

    def left_out(self, lacks: Lacks) -> list[str]:
        """A pair need not be able to withdraw, and here nobody has to ask."""
        return ["Ask", *(["Withdraw"] if Feature.CANCELLATION in lacks else [])]

    def drawn(self, integer: Integer, lacks: Lacks, hops: int) -> tuple[Demand, tuple[int, ...]]:
        """Any small window and batch, and chunks of several sizes."""
        size = integer(1, 4)
        return Demand(size=size, batch=integer(1, size)), (
            (1,) if Feature.WEIGHTS in lacks else (0, 1, integer(2, 100))
        )

    def drawn_pair(self, integer: Integer) -> tuple[Demand, tuple[int, ...]]:
        """The model knows no sizes."""
        size = integer(1, 4)
        return Demand(size=size, batch=integer(1, size)), (1,)

    def of_a_run(self, lacks: Lacks, *, is_observed: bool) -> tuple[Demand, tuple[int, ...]]:
        """Chunks of several sizes."""
        return Demand(size=2 if is_observed else 8), (1,) if Feature.WEIGHTS in lacks else (0, 1, 5)


RULEBOOK = DemandRules()
