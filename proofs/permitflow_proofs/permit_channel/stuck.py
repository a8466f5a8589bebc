"""When a channel can get stuck, and when never: exact thresholds, for any chunk sizes and for given ones.

Live means: in no state that satisfies the inductive invariant does a message wait while the protocol cannot move.  The
converse is shown by runs: the receiver keeps permits back below its batch, until a chunk costs more than the rest.
These runs are symbolic: one obligation stands for the step from any residue to the next, so that by induction every
pile is reached, whatever the parameters.

For a set of chunk sizes: a *pile* is a sum of costs of offered chunks, all partial sums below permit_batch.  Let
``piles`` be a set that holds 0 and, with each of its members, every larger pile that one more chunk makes.  Then
every residue is in it (by induction over steps), so a stuck chunk finds a pile that leaves too little.  The smallest
such set is the set of piles; each of its members is reached, or the channel gets stuck on the way there (by induction
over piles).

With the idle flush batching cannot deadlock, and an idle channel holds all its permits again.
"""

from collections.abc import Callable
from functools import partial

from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.runs import Move
from permitflow_model.permit_channel import (
    SYSTEM,
    Message,
    Parameters,
    State,
    cost_of,
    is_stuck,
    never_stuck,
    total,
    withheld,
)
from permitflow_model.thresholds import THEOREMS
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation, take
from permitflow_proofs.kernel.symbols import Sizes, assume, assuming, implies, integer, merged, natural, predicate
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import (
    CHANNEL,
    CHAPTER,
    FLUSHING,
    INVARIANT,
    PUBLISHED,
    any_parameters,
    any_rows,
    any_state,
)

_SENT_AND_CONSUMED: tuple[Move, ...] = (("SendChunk", ()), ("Deliver", ()), ("Consume", ()))


def at_rest(parameters: Parameters, residue: int, number: int = 0) -> State:
    """The receiver keeps ``residue`` permits back, the sender has all others, nothing is in flight.

    ``number``: of the next chunk.
    """
    start = SYSTEM.initial(parameters)
    return start._replace(
        offered=number,
        consumed=number,
        permits=start.permits._replace(rows=parameters.row_permits - residue),
        unreturned=residue,
        grants=Fifo(),
    )


def gets_stuck(parameters: Parameters, residue: int, rows: int) -> bool:
    """At rest with this residue: is a chunk of this many rows stuck as soon as it is offered?"""
    after = take(SYSTEM, parameters, at_rest(parameters, residue), [("OfferChunk", (rows,))])
    return after is not None and is_stuck(after, parameters)


def _starts(any_parameters: Callable[[], Parameters], residue: int) -> bool:
    parameters = any_parameters()
    start = SYSTEM.initial(parameters)
    if withheld(parameters) > 0:
        start = SYSTEM.perform("AddPermits", start, parameters)
    return start == at_rest(parameters, residue)


def _piles_up(any_parameters: Callable[[], Parameters], *, any_cost: bool, too_many: int) -> bool:
    """A chunk is offered, sent, delivered and consumed, and its permits are kept back."""
    parameters = any_parameters()
    residue, number = natural("residue"), natural("number")
    (rows,) = any_rows(parameters)
    with assuming():
        cost = cost_of(rows, parameters)
        if not any_cost:
            assume(merged(lambda: cost_of(rows, parameters) == 1))
        assume(number < parameters.tags)
        assume(residue + cost < parameters.permit_batch + too_many)
        assume(residue + cost <= parameters.row_permits)
    moves = [("OfferChunk", (rows,)), *_SENT_AND_CONSUMED]
    after = take(SYSTEM, parameters, at_rest(parameters, residue, number), moves)
    return after is not None and after == at_rest(parameters, residue + cost, after.offered)


def piling(any_parameters: Callable[[], Parameters], *, any_cost: bool = False) -> tuple[SymbolicObligation, ...]:
    """Every residue below permit_batch is reached that chunks of these costs (by default: one permit) add up to."""
    chunk = "a chunk of any cost" if any_cost else "a chunk that costs one permit"
    return (
        SymbolicObligation(
            "the channel starts at rest with residue 0, or is there once what was withheld has arrived",
            lambda: _starts(any_parameters, 0),
            lambda: _starts(any_parameters, 1),
            "with residue 1",
        ),
        SymbolicObligation(
            f"{chunk} leads from rest to rest and adds to the residue, if that stays below permit_batch and the chunk "
            "fits",
            lambda: _piles_up(any_parameters, any_cost=any_cost, too_many=0),
            lambda: _piles_up(any_parameters, any_cost=any_cost, too_many=1),
            "the residue may reach permit_batch",
        ),
    )


Premise = Callable[[Parameters, int], None]
"""Assumes something about parameters; the number is 0, or by how much the twin oversteps."""


def largest_cost(parameters: Parameters) -> int:
    """The most that a chunk costs."""
    cost = natural("largest_cost", 1)
    assume(merged(lambda: cost == cost_of(max(parameters.sizes), parameters)))
    return cost


def is_live(subject: Subject[State, Parameters], premise: Premise, too_far: int) -> bool:
    """With the premise, no message is stuck, in any state."""
    state, parameters = subject.any_case()
    premise(parameters, too_far)
    return never_stuck(state, parameters)


def _is_reached(premise: Premise, too_near: int) -> bool:
    """Beyond the threshold: the residue that makes the largest chunk wait stays below permit_batch, and sticks."""
    parameters = PUBLISHED.any_parameters()
    premise(parameters, too_near)
    needed = max(0, parameters.row_permits - largest_cost(parameters) + 1)
    return needed < parameters.permit_batch and gets_stuck(parameters, needed, max(parameters.sizes))


def _both_directions(if_live: Premise, if_stuck: Premise) -> tuple[SymbolicObligation, ...]:
    return (
        SymbolicObligation(
            "if", partial(is_live, PUBLISHED, if_live, 0), partial(is_live, PUBLISHED, if_live, 1), "by one more"
        ),
        *piling(PUBLISHED.any_parameters),
        SymbolicObligation(
            "only if: beyond, the most expensive chunk is stuck behind a pile of others",
            partial(_is_reached, if_stuck, 0),
            partial(_is_reached, if_stuck, 1),
            "also at the threshold",
        ),
    )


# The premises.  The receiver returns rows when it holds at least permit_batch.


def _costs_at_most_published(parameters: Parameters, excess: int) -> None:
    # The twin must overstep the exact threshold, which is one above.
    assume(largest_cost(parameters) <= parameters.row_permits - parameters.permit_batch + 2 * excess)


def _costs_at_most(parameters: Parameters, excess: int) -> None:
    assume(largest_cost(parameters) <= parameters.row_permits - parameters.permit_batch + 1 + excess)


def _costs_more(parameters: Parameters, nearer: int) -> None:
    assume(largest_cost(parameters) > parameters.row_permits - parameters.permit_batch + 1 - nearer)


# "More than permit_batch" is "at least permit_batch + 1".


def _strict(parameters: Parameters) -> int:
    permit_batch = natural("strict_batch")
    assume(parameters.permit_batch == permit_batch + 1)
    return permit_batch


def _strict_costs_at_most(parameters: Parameters, excess: int) -> None:
    assume(largest_cost(parameters) <= parameters.row_permits - _strict(parameters) + excess)


def _strict_costs_more(parameters: Parameters, nearer: int) -> None:
    assume(largest_cost(parameters) > parameters.row_permits - _strict(parameters) - nearer)


def _strictness(wrong: int) -> bool:
    held, permit_batch = natural("held_by_receiver"), natural("strict_batch")
    return (held > permit_batch) == (held >= permit_batch + 1 + wrong)


# The sender computes max_chunk_cost from its own permit_batch.


def _limited_by(parameters: Parameters) -> int:
    permit_batch_up = natural("permit_batch_up")
    assume(parameters.max_chunk_cost == parameters.row_permits - permit_batch_up)
    return permit_batch_up


def _batches_match(parameters: Parameters, excess: int) -> None:
    assume(parameters.permit_batch <= _limited_by(parameters) + 1 + excess)


def _batches_differ(parameters: Parameters, nearer: int) -> None:
    assume(parameters.permit_batch > _limited_by(parameters) + 1 - nearer)
    assume(max(parameters.sizes) >= parameters.max_chunk_cost)


# Barriers.


def _barrier_is_never_stuck(lost: int) -> bool:
    state, parameters = CHANNEL.any_case()
    if state.waiting.is_empty() or state.waiting.head().kind != "barrier":
        return True
    permits = state.permits._replace(barriers=state.permits.barriers - lost)
    return not is_stuck(state._replace(permits=permits), parameters)


# Used by the decision for given numbers.


def _is_live_with_residue(too_far: int) -> bool:
    """The receiver never keeps back more than this residue."""
    state, parameters = PUBLISHED.any_case()
    residue = natural("largest_residue")
    assume(largest_cost(parameters) <= parameters.row_permits - residue + too_far)
    assume(state.unreturned <= residue)
    return never_stuck(state, parameters)


def _thresholds() -> tuple[Theorem, ...]:
    return (
        CHAPTER.theorem(
            "never-stuck",
            "NeverStuck",
            "Without the idle flush: no message is ever stuck if no chunk costs more than row_permits - permit_batch.",
            SymbolicObligation(
                "in every state",
                partial(is_live, PUBLISHED, _costs_at_most_published, 0),
                partial(is_live, PUBLISHED, _costs_at_most_published, 1),
                "row_permits - permit_batch + 2",
            ),
        ),
        CHAPTER.theorem(
            "threshold",
            *THEOREMS["threshold"],
            *_both_directions(_costs_at_most, _costs_more),
        ),
        CHAPTER.theorem(
            "threshold-strict",
            "Consume",
            "If permits return only once more than permit_batch are held, the published max_chunk_cost is exact. "
            "Without the idle flush, if chunks of every size up to the largest may be offered: live if and only if "
            "no chunk costs more than row_permits - permit_batch.",
            SymbolicObligation(
                "more than permit_batch is at least permit_batch + 1",
                lambda: _strictness(0),
                lambda: _strictness(1),
                "at least permit_batch + 2",
            ),
            *_both_directions(_strict_costs_at_most, _strict_costs_more),
        ),
        CHAPTER.theorem(
            "mismatched-batches",
            *THEOREMS["mismatched-batches"],
            *_both_directions(_batches_match, _batches_differ),
        ),
        CHAPTER.theorem(
            "largest-residue",
            "Stuck",
            "Without the idle flush: if the receiver keeps back at most a permits, chunks of up to row_permits - a "
            "are never stuck.",
            SymbolicObligation(
                "in every state",
                lambda: _is_live_with_residue(0),
                lambda: _is_live_with_residue(1),
                "one permit more",
            ),
        ),
    )


def theorems() -> tuple[Theorem, ...]:
    """The theorems about which channels get stuck."""
    return (
        *_thresholds(),
        CHAPTER.theorem(
            "barrier-never-stuck",
            "SendBarrier",
            "A barrier at the head of the line is never stuck: one barrier permit is enough. Behind a chunk it is "
            "live where chunks are.",
            SymbolicObligation(
                "in every state",
                lambda: _barrier_is_never_stuck(0),
                lambda: _barrier_is_never_stuck(1),
                "a barrier permit has been lost",
            ),
        ),
    )


def _some_sizes(**fixed: object) -> Parameters:
    """Any set of sizes."""
    return any_parameters(sizes=Sizes(integer("largest_rows"), predicate("is_offered")), **fixed)


def _published() -> Parameters:
    return _some_sizes(flush_idle=False)


def _is_pile(permits: int) -> bool:
    return predicate("is_pile")(permits)


def _grows(pile: int, rows: int, parameters: Parameters, too_far: int) -> bool:
    """One more chunk makes a larger pile of this one."""
    return implies(
        merged(
            lambda: rows in parameters.sizes and pile + cost_of(rows, parameters) < parameters.permit_batch - too_far
        ),
        merged(lambda: not _is_pile(pile) or _is_pile(pile + cost_of(rows, parameters))),
    )


def _is_of_a_size(message: Message, parameters: Parameters) -> bool:
    return message.kind != "chunk" or message.rows in parameters.sizes


def _chunks_are_of_a_size(state: State, parameters: Parameters) -> bool:
    return all(queue.every(_is_of_a_size, parameters) for queue in (state.waiting, state.wire, state.inbox))


def _residue_is_pile(state: State, _parameters: Parameters) -> bool:
    return _is_pile(state.unreturned)


_INVARIANT = {**INVARIANT, "ChunksAreOfASize": _chunks_are_of_a_size, "ResidueIsPile": _residue_is_pile}


def _any_state(parameters: Parameters) -> State:
    assume(_is_pile(0))
    return any_state(parameters, _INVARIANT)


_CHANNEL = Subject(SYSTEM, _some_sizes, _any_state, {"OfferChunk": any_rows})


def _with_another_chunk(state: State, parameters: Parameters) -> State:
    return state._replace(wire=state.wire.push(Message("chunk", 0, max(parameters.sizes) + 1, 1)))


def _residue_stays_pile(action: str, too_far: int) -> bool:
    before, after, parameters = _CHANNEL.any_step(action)
    if action == "Consume":
        assume(_grows(before.unreturned, before.inbox.head().rows, parameters, too_far))
    # The twin of an action that leaves the residue alone: it does not.
    changed = too_far if action != "Consume" else 0
    return _is_pile(after.unreturned + changed)


def _starts_as_pile(wrong: int) -> bool:
    assume(_is_pile(0))
    return _is_pile(SYSTEM.initial(_some_sizes()).unreturned + wrong)


def _stuck_behind_a_pile(more: int) -> bool:
    state, parameters = _CHANNEL.any_case()
    if not is_stuck(state, parameters):
        return True
    chunk = state.waiting.head()
    return (
        _is_pile(state.unreturned)
        and state.unreturned < parameters.permit_batch
        and chunk.rows in parameters.sizes
        and chunk.cost > parameters.row_permits - state.unreturned + more
    )


def _pile_sticks(nearer: int) -> bool:
    parameters = _published()
    pile = natural("pile")
    (rows,) = any_rows(parameters)
    with assuming():
        assume(pile < parameters.permit_batch)
        assume(cost_of(rows, parameters) > parameters.row_permits - pile - nearer)
    return gets_stuck(parameters, pile, rows)


def _if() -> tuple[SymbolicObligation, ...]:
    return (
        *_CHANNEL.induction(_chunks_are_of_a_size, _with_another_chunk, "a chunk of another size gets onto the wire"),
        SymbolicObligation(
            "the first residue is a pile", lambda: _starts_as_pile(0), lambda: _starts_as_pile(1), "it is 1"
        ),
        *(
            SymbolicObligation(
                f"{action.name} leaves a pile",
                lambda name=action.name: _residue_stays_pile(name, 0),  # type: ignore[misc]  # binds the loop's value
                lambda name=action.name: _residue_stays_pile(name, 1),  # type: ignore[misc]  # likewise
                "piles end one below permit_batch" if action.name == "Consume" else "the residue changes",
            )
            for action in SYSTEM.actions
        ),
        SymbolicObligation(
            "only if: what is stuck is a chunk c behind a pile a with c > row_permits - a",
            lambda: _stuck_behind_a_pile(0),
            lambda: _stuck_behind_a_pile(1),
            "c > row_permits - a + 1",
        ),
    )


def cost_set_theorems() -> tuple[Theorem, ...]:
    """Any set of sizes."""
    return (
        Theorem(
            id="sets-of-sizes",
            is_promise=True,
            statement=THEOREMS["sets-of-sizes"].text,
            module="PermitChannel",
            operator=THEOREMS["sets-of-sizes"].operator,
            obligations=(
                *_if(),
                *piling(_published, any_cost=True),
                SymbolicObligation(
                    "if: with a pile a at the receiver, a chunk c > row_permits - a is stuck as soon as it is offered",
                    lambda: _pile_sticks(0),
                    lambda: _pile_sticks(1),
                    "c >= row_permits - a",
                ),
            ),
        ),
    )


def _fits(parameters: Parameters, excess: int) -> None:
    assume(largest_cost(parameters) <= parameters.row_permits + excess)


def _never_fits(nearer: int) -> bool:
    parameters = FLUSHING.any_parameters()
    assume(largest_cost(parameters) > parameters.row_permits - nearer)
    return gets_stuck(parameters, 0, max(parameters.sizes))


def _whole_also_without_flush(state: State, parameters: Parameters) -> bool:
    return SYSTEM.can_move(state, parameters) or state.permits == total(parameters)


def idle_theorems() -> tuple[Theorem, ...]:
    """With the idle flush."""
    return (
        CHAPTER.theorem(
            "flush-idle",
            *THEOREMS["flush-idle"],
            SymbolicObligation(
                "if",
                partial(is_live, FLUSHING, _fits, 0),
                partial(is_live, FLUSHING, _fits, 1),
                "chunks of row_permits + 1",
            ),
            SymbolicObligation(
                "only if: a larger chunk is stuck as soon as it is offered",
                lambda: _never_fits(0),
                lambda: _never_fits(1),
                "chunks of row_permits",
            ),
        ),
        CHAPTER.theorem(
            "whole-when-idle",
            "WholeWhenIdle",
            "With the idle flush, a channel in which nothing can move holds all its permits again.",
            CHANNEL.holds_whenever_invariant(
                "in every state", SYSTEM.invariants["WholeWhenIdle"], _whole_also_without_flush, "without the flush"
            ),
            FLUSHING.holds_whenever_invariant(
                "with the flush on",
                _whole_also_without_flush,
                lambda state, _parameters: state.unreturned == 0,
                "also while something moves",
            ),
        ),
    )
