"""Stop and wait: the rules of ``StopAndWait``, the mistakes that break them, and the one small channel there is.

The specification's messages are numbers; it treats chunks of any size and barriers alike, and has no watermarks.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from permitflow.protocol.stop_and_wait import StopAndWait
from permitflow.testing.kit import mistakes
from permitflow.testing.kit.adapter import Feature
from permitflow.testing.kit.mistakes import changed_after, changed_before, right, send_from
from permitflow.testing.kit.numbered import CountsRows, LetsBarriersPass, LetsEmptyPass, NumberedOutside
from permitflow.testing.kit.outside import CONSUME, Outside, Perform
from permitflow.testing.kit.rules import FEW, Graph, Integer, Lacks, Mistake, Rule, Rulebook, whole_run_rules
from permitflow.testing.moves import Move
from permitflow.testing.subjects.stop_and_wait import StopAndWaitPair
from permitflow_model.kernel.system import require
from permitflow_model.stop_and_wait import SYSTEM, Parameters, State


class StopAndWaitOutside(NumberedOutside):
    """One message may leave, or none."""

    system: ClassVar[Any] = SYSTEM
    room: ClassVar[str] = "free"

    @staticmethod
    def given_back(state: State, message: int) -> State:
        """An answer is on its way."""
        return state._replace(answers=state.answers + 1)

    @staticmethod
    def consumed_silently(before: State, after: State) -> State:
        """None is."""
        return after._replace(answers=before.answers)


# The rules.

_SEND, _DELIVER, _CONSUME = (right(StopAndWaitOutside, name) for name in ("Send", "Deliver", CONSUME))
ONES = (Move("OfferChunk", (1,)),)
TAKE, DONE_WITH, RECEIVE, BARRIER = Move("Take"), Move("Consume"), Move("Receive"), Move("OfferBarrier")
_SENT_AND_READ = (*ONES, RECEIVE)
_GIVEN_UP = (*ONES, Move("WithdrawChunk"), RECEIVE)
_NOW = (Move("SendChunkNow", (1,)), RECEIVE)
_NONE: Lacks = frozenset()
_BARRIERS, _WEIGHTS = frozenset({Feature.BARRIERS}), frozenset({Feature.WEIGHTS})
_CANCELLATION, _REFUSALS = frozenset({Feature.CANCELLATION}), frozenset({Feature.REFUSALS})


def _it(
    name: str,
    moves: tuple[Move, ...],
    actions: dict[str, Perform] | None = None,
    *,
    outside: type[Outside] = Outside,
    needs: Lacks = _NONE,
) -> Mistake:
    return Mistake(name, StopAndWait(), moves, actions or {}, outside, needs)


def _rule(name: str, statement: str, operator: str, *mistakes: Mistake, needs: Lacks = _NONE) -> Rule:
    return Rule(SYSTEM.module, name, statement, operator, needs, mistakes)


def _answers(change: Callable[[int], int]) -> dict[str, Perform]:
    """Gives another number of answers to a message."""
    changed = changed_after(_CONSUME, lambda before, after: after._replace(answers=before.answers + change(1)))
    return {CONSUME: changed}


_LOST = {"Deliver": changed_after(_DELIVER, lambda before, after: before._replace(wire=after.wire))}


def _two_at_a_time(state: State, parameters: Parameters) -> State:
    after: State = _SEND(state._replace(free=state.free + 1), parameters)
    return after._replace(free=after.free - 1)


def _with_another(state: State, _: Parameters) -> State:
    require(state.waiting.size() > 1)
    return state


RULES = (
    # A message is out.
    _rule(
        "one-at-a-time",
        "A message waits while another one is out: the application never holds more than one.",
        "Bounded",
        _it("lets a second message leave while one is out", ONES, {"Send": _two_at_a_time}),
        _it(
            "lets any number of messages leave while one is out",
            ONES,
            {"Send": changed_before(_SEND, lambda state, _: state._replace(free=1))},
        ),
    ),
    _rule(
        "sent-when-free",
        "A message leaves at once if none is out.",
        "Send",
        _it("keeps a message back until a second one waits", ONES, {"Send": changed_before(_SEND, _with_another)}),
    ),
    _rule(
        "any-size",
        "A chunk is one message, however many rows it has.",
        "Send",
        _it(
            "lets an empty chunk pass while a message is out",
            (Move("OfferChunk", (0,)), RECEIVE),
            outside=LetsEmptyPass,
        ),
        _it("keeps a chunk of several rows back", (Move("OfferChunk", (2,)), RECEIVE), outside=CountsRows),
        needs=_WEIGHTS,
    ),
    _rule(
        "barrier-is-a-message",
        "A barrier waits for its turn and for the answer, as chunks do.",
        "Send",
        _it("lets a barrier pass while a message is out", (*ONES, BARRIER), outside=LetsBarriersPass),
        needs=_BARRIERS,
    ),
    # It is answered.
    _rule(
        "answered-when-consumed",
        "A message is answered when the application has consumed it, not before.",
        "Consume",
        _it("answers a message when it arrives", ONES, mistakes.deliver_and_return(StopAndWaitOutside)),
        _it(
            "answers a message when it is handed over",
            (*ONES, TAKE, DONE_WITH),
            outside=mistakes.ReturnsOnHandOver,
            needs=frozenset({Feature.ACKNOWLEDGEMENT}),
        ),
    ),
    _rule(
        "every-message-answered",
        "Each message that was consumed is answered.",
        "Conservation",
        _it("leaves a message without an answer", _SENT_AND_READ, _answers(lambda one: one - 1)),
    ),
    _rule(
        "answered-once",
        "Each message that was consumed is answered once.",
        "Conservation",
        _it("answers a message twice", _SENT_AND_READ, _answers(lambda one: one + 1)),
    ),
    # Order.
    _rule(
        "oldest-leaves-first",
        "Messages leave in the order in which they were offered.",
        "Send",
        _it(
            "lets the newest waiting message leave first",
            _SENT_AND_READ,
            {"Send": send_from(_SEND, lambda line, _: len(line) - 1)},
        ),
    ),
    _rule(
        "exactly-once",
        "Every message that has left is received, once.",
        "ExactlyOnceInOrder",
        _it("loses a message", _SENT_AND_READ, _LOST),
        _it("hands a message over twice", _SENT_AND_READ, {"Deliver": mistakes.deliver_twice(StopAndWaitOutside)}),
    ),
    # Sends are given up.
    _rule(
        "withdrawn-never-sent",
        "A send that was cancelled while it waited has sent nothing.",
        "Withdraw",
        _it("sends a cancelled message later", _GIVEN_UP, {"Withdraw": mistakes.keep_withdrawn}),
        needs=_CANCELLATION,
    ),
    _rule(
        "withdrawn-needs-no-answer",
        "A send that was cancelled while it waited is not waited for.",
        "Withdraw",
        _it(
            "waits for the answer to a cancelled message",
            _GIVEN_UP,
            {"Withdraw": mistakes.withdraw_and_forget(StopAndWaitOutside, "Withdraw")},
        ),
        needs=_CANCELLATION,
    ),
    _rule(
        "refused-changes-nothing",
        "What the channel refuses leaves it as it was.",
        "Send",
        _it("sends a refused message later", _NOW, outside=mistakes.KeepsRefused),
        _it("waits for the answer to a refused message", _NOW, outside=mistakes.PaysForRefused),
        needs=_REFUSALS,
    ),
)


class StopAndWaitRules(Rulebook):
    """All of the above; there are no parameters to choose."""

    outside = StopAndWaitOutside
    pair = StopAndWaitPair
    rules = (*RULES, *whole_run_rules(SYSTEM.module, withdraw="Withdraw"))
    unit = "answers"
    plain = StopAndWait()
    not_modelled = frozenset({Feature.WATERMARKS})
    used_by_pairs = _CANCELLATION

    def model(
        self, agreed: StopAndWait, sizes: Sequence[int], *, waiters: int, tags: int = 1, lacks: Lacks = frozenset()
    ) -> Parameters:
        """The specification's constants."""
        return Parameters(waiters=waiters, withdrawals=True, tags=waiters + 2 if tags == FEW else tags)

    def graphs(self, lacks: Lacks, hops: int) -> list[Graph]:
        """Chunks of two sizes, and barriers."""
        if hops > 1:
            lacks |= _WEIGHTS | _REFUSALS | _BARRIERS
        return [Graph(StopAndWait(), (1,) if Feature.WEIGHTS in lacks else (0, 2), lacks | self.not_modelled)]

    def pair_graphs(self, lacks: Lacks) -> list[Graph]:
        """Three messages wait at most."""
        return [Graph(StopAndWait(), (1,), lacks, waiters=3)]

    def left_out(self, lacks: Lacks) -> list[str]:
        """A pair need not be able to withdraw."""
        return ["Withdraw"] if Feature.CANCELLATION in lacks else []

    def drawn(self, integer: Integer, lacks: Lacks, hops: int) -> tuple[StopAndWait, tuple[int, ...]]:
        """Chunks of several sizes."""
        return StopAndWait(), (1,) if Feature.WEIGHTS in lacks else (0, 1, integer(2, 100))

    def drawn_pair(self, integer: Integer) -> tuple[StopAndWait, tuple[int, ...]]:
        """The model knows no sizes."""
        return StopAndWait(), (1,)

    def of_a_run(self, lacks: Lacks, *, is_observed: bool) -> tuple[StopAndWait, tuple[int, ...]]:
        """Chunks of several sizes."""
        return StopAndWait(), (1,) if Feature.WEIGHTS in lacks else (0, 1, 5)


RULEBOOK = StopAndWaitRules()
