"""Batches of any length: by the invariant of the loop over them, and by induction on the last chunk."""

from typing import Any

from permitflow.errors import InvalidParametersError, OversizeChunkError, OverspendError
from permitflow_model.permit_channel import SYSTEM, Parameters, carried_by, cost_of
from permitflow_proofs.code.batches import Batch, Invariant, InvariantBroken, RunningSums
from permitflow_proofs.code.permit_channel.common import ANY
from permitflow_proofs.code.permit_channel.receiver import ReceiverCase
from permitflow_proofs.code.permit_channel.sender import Offering
from permitflow_proofs.code.refinement import Outcome, attempt
from permitflow_proofs.code.stand_ins import standing_in
from permitflow_proofs.kernel.chapter import claim
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import all_of, any_of, assume, equal, implies, integer, natural


def _costs_by(made: Parameters) -> Any:
    return lambda rows: cost_of(rows, made)


class _Sending(Offering):
    """The application has any number of chunks, and nothing waits."""

    def __init__(self) -> None:
        super().__init__()
        assume(equal(self.state.waiting.size(), 0))
        permits, made = self.state.permits.rows, self.parameters
        invariant = Invariant(
            lambda turns: {"left": permits - self.batch.costs(turns), "count": turns},
            lambda turns: all_of([self.batch.costs(turns) <= permits, implies(self.splits, self.batch.fit(turns))]),
        )
        self.batch = Batch("batch", _costs_by(made), made.max_chunk_cost, invariant=invariant)
        if not self.splits:
            assume(self.batch.most <= self._largest)

    def is_right(self, count: int) -> bool:
        """May exactly the first ``count`` leave, one after the other?"""
        batch, permits = self.batch, self.state.permits.rows
        if not count >= 0 or count > batch.count or batch.costs(batch.look(count)) > permits:
            return False
        if not implies(self.splits, batch.fit(count)):
            return False
        if not count < batch.count:
            return True
        rows = batch.at(count)
        is_too_large = bool(self.splits) and rows > self.parameters.max_chunk_cost
        return bool(is_too_large or batch.costs(count + 1) > permits)


def _leave(wrong: int) -> bool:
    case = _Sending()
    with standing_in(case.modules):
        try:
            outcome = attempt(case.silent, lambda end: end.send_now(case.batch))
        except InvariantBroken:
            return False
        if outcome.refusal is not None:
            is_right = isinstance(outcome.refusal, InvalidParametersError) and bool(case.batch.least < 0)
            return is_right and case.holds(case.silent, case.state, {}, wrong)
        count, permits, before = outcome.result, case.state.permits, case.history
        after = case.state._replace(permits=permits._replace(rows=permits.rows - case.batch.costs(count)))
        changes = {
            "_sent_chunks": before["_sent_chunks"] + count,
            "_sent_rows": before["_sent_rows"] + case.batch.sums(count),
        }
        return case.batch.least >= 0 and case.is_right(count) and case.holds(case.silent, after, changes, wrong)


def _are_admitted(wrong: int) -> bool:
    case = _Sending()
    assume(case.batch.least >= 0)
    with standing_in(case.modules):
        try:
            return case.is_right(case.silent.admits(case.batch) + wrong)
        except InvariantBroken:
            return False


class _Receiving(ReceiverCase):
    """Any number of chunks."""

    def __init__(self) -> None:
        super().__init__()
        made = self.parameters
        self.batch = Batch("batch", _costs_by(made), made.max_chunk_cost, whole=made.permit_batch)
        assume(self.batch.least >= 0)

    def call(self, name: str, *more: object) -> Outcome:
        """A guard or an update, which gets the sum and the least of the rows."""
        total = self.batch.sums(self.batch.count)
        with standing_in(self.modules):
            return attempt(self.silent, lambda end: getattr(end, name)(self.batch, total, *more))


def _arrive(wrong: int) -> bool:
    case = _Receiving()
    batch, made = case.batch, case.parameters
    granted = case.stands_for(case.state)["_rows.granted"]
    outcome = case.call("_accept_chunks", batch.least)
    must_be_split = bool(case.splits) and bool(batch.most > made.max_chunk_cost)
    needed = batch.costs(batch.look(batch.count))
    if outcome.refusal is not None:
        kind = OversizeChunkError if must_be_split else OverspendError
        is_right = isinstance(outcome.refusal, kind) and (must_be_split or bool(needed > granted))
        return is_right and case.holds(case.silent, case.state, {}, wrong)
    changes = {"_rows.granted": granted - needed}
    return not must_be_split and bool(needed <= granted) and case.holds(case.silent, case.state, changes, wrong)


def _are_consumed(wrong: int) -> bool:
    """As many steps of the model: each gives back a batch that is complete, and keeps what is less."""
    case = _Receiving()
    batch, state = case.batch, case.state
    sums = RunningSums(batch, state.unreturned)
    try:
        outcome = case.call("_consume", (), ())
    except InvariantBroken:
        return False
    sums.know()
    released = case.withholding(state, 0)
    flushed = sums.flushed(batch.count)
    changes = {
        **released,
        "_rows.collected": sums.after(batch.count) - flushed,
        "_rows.due": released["_rows.due"] + flushed,
        "is_due": any_of([released["is_due"], flushed > 0]),
    }
    return outcome.refusal is None and case.holds(case.silent, state, changes, wrong)


# What is known of every batch, by induction on its last chunk; the number in a claim is its twin's mistake.


def _plain_rows_cost_themselves(wrong: int) -> bool:
    made = ANY.any_parameters()
    sums, costs, rows = natural("sum"), natural("costs"), integer("last_rows")
    assume(equal(sums, costs))
    assume(rows >= 1 - wrong)
    assume(rows <= made.max_chunk_cost)
    return equal(sums + rows, costs + cost_of(rows, made))


def _each_costs_one(wrong: int) -> bool:
    made = ANY.any_parameters()
    number, costs, rows = natural("number"), natural("costs"), integer("last_rows")
    assume(costs >= number)
    return costs + cost_of(rows, made) >= number + 1 + wrong


def _the_largest_is_no_more_than_all(wrong: int) -> bool:
    largest, sums, rows = natural("largest"), natural("sum"), natural("last_rows")
    assume(largest <= sums)
    return (rows if rows > largest else largest) + wrong <= sums + rows


def _nothing_more_is_flushed(wrong: int) -> bool:
    """``stays``, for one chunk more."""
    made = ANY.any_parameters()
    batch = Batch("batch", _costs_by(made), made.max_chunk_cost, whole=made.permit_batch + wrong)
    collected = natural("collected")
    sums, plain = RunningSums(batch, collected), RunningSums(_whole_of(batch, made.permit_batch), collected)
    behind, number = natural("first"), natural("number")
    assume(behind <= number)
    assume(plain.stays(behind, number))
    batch.at(number)
    assume(plain.follows(number))
    return sums.stays(behind, number + 1)


def _whole_of(batch: Batch, whole: int) -> Batch:
    same = object.__new__(Batch)
    vars(same).update({**vars(batch), "whole": whole})
    return same


def _follows_the_model(wrong: int) -> bool:
    """``follows`` is Consume: what it puts into the grants, and what it keeps."""
    state, made = ANY.any_case()
    assume(state.inbox.size() > 0)
    message = state.inbox.head()
    assume(message.kind == "chunk")
    batch = Batch("batch", _costs_by(made), made.max_chunk_cost, whole=made.permit_batch)
    number = natural("number")
    sums = RunningSums(batch, natural("collected"))
    assume(equal(sums.after(number) - sums.flushed(number), state.unreturned))
    assume(equal(batch.at(number), message.rows))
    assume(sums.follows(number))
    after = SYSTEM.perform("Consume", state, made)
    given = carried_by(after.grants).rows - carried_by(state.grants).rows
    return all_of(
        [
            equal(sums.after(number + 1) - sums.flushed(number + 1), after.unreturned),
            equal(sums.flushed(number + 1) - sums.flushed(number) + wrong, given),
        ]
    )


ANY_LENGTH: tuple[SymbolicObligation, ...] = (
    claim("as many are admitted as may leave", _are_admitted, "one more"),
    claim("any number leave at once", _leave, "it has one permit more"),
    claim("any number arrive at once", _arrive, "it has granted one more"),
    claim("any number are consumed at once", _are_consumed, "it has granted one more"),
    claim("rows within the range cost themselves", _plain_rows_cost_themselves, "none at all, too"),
    claim("each costs one at least", _each_costs_one, "two"),
    claim("the largest has no more rows than all", _the_largest_is_no_more_than_all, "fewer"),
    claim("less than a batch is not flushed", _nothing_more_is_flushed, "a batch and one more"),
    claim("one more is consumed as the model does", _follows_the_model, "it returns one less"),
)
