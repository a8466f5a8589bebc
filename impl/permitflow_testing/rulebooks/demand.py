"""Demand: the rules of ``Demand``, the mistakes that break them, and small channels.

All channels here are pushed: what a receiver withholds is asked for by a move that the applications here do not have.
"""

from dataclasses import replace
from typing import Any, ClassVar

from permitflow.flows.demand.core import Demand
from permitflow_model.demand import SYSTEM, Parameters, State
from permitflow_testing import mistakes
from permitflow_testing.mistakes import changed_after, right
from permitflow_testing.numbered import NumberedOutside, NumberedRules, Words, numbered_rules
from permitflow_testing.outside import CONSUME
from permitflow_testing.rules import Breach, Duty, Integer, Rule, rules_in, whole_run_rules
from permitflow_testing.subjects.demand import DemandPair


class DemandOutside(NumberedOutside):
    """As many messages may leave as were requested."""

    system: ClassVar[Any] = SYSTEM
    room: ClassVar[str] = "credit"
    returns: ClassVar[str] = "requests"

    @classmethod
    def consumed_silently(cls, before: State, after: State) -> State:
        """Nothing is requested for it, now or later."""
        return after._replace(requests=before.requests, unrequested=before.unrequested)


WORDS = Words(
    answer="a request",
    answered="requested",
    is_answered="requested again",
    window=(
        "window",
        "No more messages are out than the size, and those that the application holds are among them.",
    ),
    free=("sent-when-requested", "if it was requested"),
    withdrawn=("withdrawn-uses-no-request", "uses up no request"),
)
FULL, OVERLAPPING = Demand(size=2, batch=2), Demand(size=3, batch=2)


def _one_by_one(before: State, after: State) -> State:
    return after._replace(requests=before.requests + 1, unrequested=0)


def _too_late(state: State, parameters: Parameters) -> State:
    """A batch is complete with one message more."""
    before, consume = state.unrequested, right(DemandOutside, CONSUME)
    is_complete = before >= parameters.batch
    consumed: State = consume(state._replace(unrequested=0), parameters)
    return consumed._replace(
        requests=state.requests + is_complete * (before + 1), unrequested=0 if is_complete else before + 1
    )


def _rules() -> tuple[Rule, ...]:
    """Those of all protocols with numbered messages, and those about batches."""
    in_front = {"Deliver": mistakes.deliver_in_front(DemandOutside)}
    at_once = {CONSUME: changed_after(right(DemandOutside, CONSUME), _one_by_one)}
    batched = "Consumed messages are requested again as soon as they are a batch, and not before."
    table = (
        Duty("batched", "RequestsBatched", batched),
        Breach("requests each consumed message at once", "1 Receive", at_once),
        Breach("requests a batch one message too late", "1 Receive", {CONSUME: _too_late}, agreed=OVERLAPPING),
    )
    shared = numbered_rules(DemandOutside, Demand(size=1), WORDS)
    in_order = shared.pop("exactly-once")
    swapped = Breach("puts an arriving message in front", "1 Receive", in_front).mistake(FULL)
    in_order = replace(in_order, mistakes=(*in_order.mistakes, swapped))
    return (*shared.values(), in_order, *rules_in(table, SYSTEM.module, FULL))


class DemandRules(NumberedRules):
    """Windows and batches of a few messages."""

    outside = DemandOutside
    pair = DemandPair
    rules = (*_rules(), *whole_run_rules(SYSTEM.module, withdraw="Withdraw"))
    unit = "requests"
    plain = Demand(size=3, batch=1)  # so that all of it has room again once everything is consumed
    small = (FULL, OVERLAPPING)
    runs = (Demand(size=2), Demand(size=8))
    unused = ("Ask",)

    def constants(self, agreed: Demand, waiters: int, tags: int | None) -> Parameters:
        """A window of messages is out."""
        return Parameters(
            size=agreed.size,
            batch=agreed.batch,
            initial=agreed.initial,
            waiters=waiters,
            withdrawals=True,
            tags=waiters + agreed.size + 1 if tags is None else tags,
        )

    def any_channel(self, integer: Integer) -> Demand:
        """Any small window and batch."""
        size = integer(1, 4)
        return Demand(size=size, batch=integer(1, size))


RULEBOOK = DemandRules()
