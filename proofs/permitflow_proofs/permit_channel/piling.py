"""How a channel gets stuck: chunks pile up at the receiver, below its batch, until another one does not fit.

These runs are symbolic: one obligation stands for the step from any residue to the next, so that by induction every
pile is reached, whatever the parameters.
"""

from collections.abc import Callable

from permitflow_model.permit_channel import SYSTEM, Parameters, State, cost_of, is_stuck
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.runs import Move, take
from permitflow_proofs.kernel.symbols import assume, assuming, natural
from permitflow_proofs.permit_channel.arbitrary import any_rows

__all__ = ["at_rest", "gets_stuck", "piling"]

_SENT_AND_CONSUMED: tuple[Move, ...] = (("SendChunk", ()), ("Deliver", ()), ("Consume", ()))


def at_rest(parameters: Parameters, residue: int, number: int = 0) -> State:
    """The receiver keeps ``residue`` permits back, the sender has all others, nothing is under way.

    ``number``: of the next chunk.
    """
    start = SYSTEM.initial(parameters)
    return start._replace(
        offered=number,
        consumed=number,
        permits=start.permits._replace(rows=parameters.row_count - residue),
        unreturned=residue,
    )


def gets_stuck(parameters: Parameters, residue: int, rows: int) -> bool:
    """At rest with this residue: is a chunk of so many rows stuck as soon as it is offered?"""
    after = take(SYSTEM, parameters, at_rest(parameters, residue), [("OfferChunk", (rows,))])
    return after is not None and is_stuck(after, parameters)


def _starts(any_parameters: Callable[[], Parameters], residue: int) -> bool:
    parameters = any_parameters()
    return SYSTEM.initial(parameters) == at_rest(parameters, residue)


def _piles_up(any_parameters: Callable[[], Parameters], *, any_cost: bool, too_many: int) -> bool:
    """A chunk is offered, sent, delivered and consumed, and its permits are kept back."""
    parameters = any_parameters()
    residue, number = natural("residue"), natural("number")
    (rows,) = any_rows(parameters)
    with assuming():
        cost = cost_of(rows, parameters)
        assume(any_cost or cost == 1)
        assume(number < parameters.tags)
        assume(residue + cost < parameters.batch + too_many)
        assume(residue + cost <= parameters.row_count)
    moves = [("OfferChunk", (rows,)), *_SENT_AND_CONSUMED]
    after = take(SYSTEM, parameters, at_rest(parameters, residue, number), moves)
    return after is not None and after == at_rest(parameters, residue + cost, after.offered)


def piling(any_parameters: Callable[[], Parameters], *, any_cost: bool = False) -> tuple[SymbolicObligation, ...]:
    """Every residue below the batch is reached that chunks of these costs (by default: one permit) add up to."""
    chunk = "a chunk of any cost" if any_cost else "a chunk that costs one permit"
    return (
        SymbolicObligation(
            "the channel starts at rest with residue 0",
            lambda: _starts(any_parameters, 0),
            lambda: _starts(any_parameters, 1),
            "with residue 1",
        ),
        SymbolicObligation(
            f"{chunk} leads from rest to rest and adds to the residue, if that stays below BATCH and the chunk fits",
            lambda: _piles_up(any_parameters, any_cost=any_cost, too_many=0),
            lambda: _piles_up(any_parameters, any_cost=any_cost, too_many=1),
            "the residue may reach BATCH",
        ),
    )
