"""``DemandSender`` and ``DemandReceiver`` refine ``Demand``."""

from collections.abc import Mapping
from typing import Any

from permitflow.errors import PermitOverrunError, UnexpectedFrameError
from permitflow.flows import byte_window
from permitflow.flows.demand import core
from permitflow_model.demand import SYSTEM, Parameters, State
from permitflow_proofs.code.message_flow import (
    NEWEST,
    ReceiverOfMessages,
    SenderOfMessages,
    begins_empty,
    receiver_calls,
    sender_calls,
)
from permitflow_proofs.code.refinement import Call, Outcome, obligation
from permitflow_proofs.demand import INVARIANT
from permitflow_proofs.kernel.arbitrary import any_parameters_of, subject_of
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.numbered import QUEUES
from permitflow_proofs.kernel.symbols import assume, integer, natural
from permitflow_proofs.kernel.theorem import Theorem


def _any_numbers() -> Parameters:
    made = any_parameters_of(Parameters, tags=1, withdrawals=True)
    assume(made.batch <= made.size)
    return made


_ANY = subject_of(SYSTEM, INVARIANT, Parameters, State, queues=QUEUES)
ANY = Subject(SYSTEM, _any_numbers, _ANY.any_state)


def _as_code(made: Parameters) -> core.Demand:
    kept = object.__new__(core.Demand)
    for name, value in (("size", made.size), ("batch", made.batch), ("initial", made.initial)):
        object.__setattr__(kept, name, value)
    return kept


class _Sender(SenderOfMessages):
    subject = ANY
    end = core.DemandSender
    own_modules = (core, byte_window)
    off_by_one = "_credit"

    def numbers(self) -> core.Demand:
        """As the code keeps them."""
        return _as_code(self.parameters)

    def waiting(self, state: State) -> int:
        """This many wait."""
        return state.waiting.size()

    def counts(self, state: State) -> Mapping[str, Any]:
        """The credit."""
        return {"_credit": state.credit}


class _WithWatermark(_Sender):
    has_watermark = True


class _Idle(_Sender):
    is_idle = True


class _Known(_Sender):
    newest = NEWEST


class _Requested(_Sender):
    """A request comes: such as the receiver may make, or any."""

    is_lawful = True

    def __init__(self) -> None:
        super().__init__()
        self.count = integer("requested")
        if self.is_lawful:
            assume(self.count >= 1)
            assume(self.count <= self.state.requests)

    def is_due(self) -> bool:
        """May the receiver have requested this many?"""
        return bool(self.count >= 1 and self.count <= self.parameters.size - self.state.credit)

    def added(self) -> State:
        """They may leave."""
        state: State = self.state
        return state._replace(credit=state.credit + self.count)


class _AnythingRequested(_Requested):
    is_lawful = False


def _tells_why(case: _Requested, _after: State, outcome: Outcome) -> bool:
    if outcome.refusal is None:
        return True
    return isinstance(outcome.refusal, UnexpectedFrameError if case.count < 1 else PermitOverrunError)


SENDER: tuple[Call[Any], ...] = (
    *sender_calls(_Sender, _WithWatermark, _Idle, _Known),
    Call(
        "a request arrives",
        _Requested,
        lambda end, case: end.on_feedback(core.Request(case.count)),
        lambda _: True,
    ),
    Call(
        "a request arrives, or one for too many",
        _AnythingRequested,
        lambda end, case: end.on_feedback(core.Request(case.count)),
        _AnythingRequested.is_due,
        returns=_tells_why,
        leads_to=_AnythingRequested.added,
    ),
)


class _Receiver(ReceiverOfMessages):
    subject = ANY
    end = core.DemandReceiver
    own_modules = (core, byte_window)
    off_by_one = "_credit.granted"

    def any_case(self) -> tuple[State, Parameters]:
        """A part of what was requested is on its way to the sender, and the rest is due."""
        state, made = super().any_case()
        self.sent_back = natural("requests_on_their_way")
        assume(self.sent_back <= state.requests)
        return state, made

    def numbers(self) -> core.Demand:
        """As the code keeps them."""
        return _as_code(self.parameters)

    def here(self, state: State) -> int:
        """This many are here."""
        return state.inbox.size()

    def on_the_way(self, state: State) -> int:
        """This many are on the wire."""
        return state.wire.size()

    def due(self, state: State) -> int:
        """To be requested now."""
        return state.requests - self.sent_back

    def granted(self, state: State) -> int:
        """What may still come, as far as this end knows."""
        owed = state.unrequested + state.withheld + self.due(state)
        size: int = self.parameters.size
        return size - state.inbox.size() - owed

    def counts(self, state: State) -> Mapping[str, Any]:
        """The credit, by the places where it is."""
        return {
            "_credit.granted": self.granted(state),
            "_credit.collected": state.unrequested,
            "_credit.withheld": state.withheld,
            "_credit.due": self.due(state),
        }

    def may_arrive(self, number: int) -> bool:
        """Has so much been granted?"""
        return bool(number <= self.granted(self.state))

    def arrived(self, number: int) -> State:
        """They are here."""
        state: State = self.state
        for _ in range(number):
            state = state._replace(inbox=state.inbox.push(0))
        return state


class _Arriving(_Receiver):
    has_arriving = True


class _Begun(_Receiver):
    """No request is on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.sent_back = 0


def _requested(case: _Receiver, after: State, outcome: Outcome) -> Mapping[str, Any]:
    granted = case.granted(after) + case.due(after)
    return {"_credit.due": 0, "_credit.granted": granted}


def _is_all_due(case: _Receiver, after: State, outcome: Outcome) -> bool:
    due = case.due(after)
    return bool(due <= 0) if outcome.result is None else bool(outcome.result.messages == due and due > 0)


RECEIVER: tuple[Call[Any], ...] = (
    *receiver_calls(_Receiver, _Arriving),
    Call(
        "the application asks",
        _Receiver,
        lambda end, _: end.ask(),
        lambda case: SYSTEM.is_enabled("RequestWithheld", case.state, case.parameters),
        returns=lambda case, _after, outcome: bool(case.state.withheld > 0) == outcome.result,
    ),
    Call(
        "what is due is requested",
        _Receiver,
        lambda end, _: end.take_feedback(),
        lambda _: False,
        _requested,
        _is_all_due,
    ),
    Call(
        "how soon a request leaves",
        _Receiver,
        lambda end, _: end.urgency,
        lambda _: False,
        returns=lambda case, after, outcome: (outcome.result > 0) == bool(case.due(after) > 0),
    ),
)


def theorems() -> tuple[Theorem, ...]:
    """The claims about both ends."""
    return (
        Theorem(
            id="code-demand-sender",
            statement="The running DemandSender does what its model does, and refuses what the model cannot do.",
            module="Demand",
            operator="Next",
            obligations=(begins_empty(_Sender), *map(obligation, SENDER)),
        ),
        Theorem(
            id="code-demand-receiver",
            statement="Likewise the running DemandReceiver.",
            module="Demand",
            operator="Next",
            obligations=(begins_empty(_Begun), *map(obligation, RECEIVER)),
        ),
    )
