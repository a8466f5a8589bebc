"""Progress: the protocol comes to rest, in which state it does, and how soon a waiting chunk is sent.

*It comes to rest*, since each step brings permits nearer to the sender.  The rank counts, for each permit, how many
places it still has to pass.  It falls with every action of the protocol, so a waiting message is served, or stuck,
after a bounded number of them.

*At rest everything is delivered*: when no step of the protocol is possible any more, every offered message has been
consumed.

*How soon the oldest waiting chunk is sent*, in steps of the protocol: each step but SendChunk uses up some of three
supplies, and adds to none:

* the *way* of row permits to the application: two steps in flight, one in the inbox; at most 2 R in all;
* the row permits *away* from the sender: each grant brings back permit_batch or more of at most R, so there are at most
  floor(R / permit_batch) grants;
* the remaining steps of barriers and watermarks, which have permits of their own.

Ghosts count the steps by the supply that each uses up, so that their number is bounded by the initial supplies.
Where the channel is live, a chunk that waits is therefore sent after at most this many steps, and one more.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

from permitflow_model.kernel.explore import explore
from permitflow_model.permit_channel import (
    ALL,
    NO_WATERMARK,
    SYSTEM,
    Parameters,
    State,
    carried_by,
    held_by,
)
from permitflow_proofs.kernel.induction import Clause, ExhaustiveObligation
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.ranking import comes_to_rest, ranking_obligations
from permitflow_proofs.kernel.symbols import assume, assuming, natural
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import CHANNEL, CHAPTER, FLUSHING, amount, channel
from permitflow_proofs.permit_channel.inductive import NUMBERED
from permitflow_proofs.permit_channel.stuck import largest_cost


def rank(state: State, _parameters: Parameters) -> int:
    """How far all permits together still have to go; falls with every action of the protocol."""
    watermark = 1 if state.watermark_pending >= 0 else 0
    return (
        5 * (amount(held_by(state.waiting)) + watermark)
        + 4 * amount(held_by(state.wire))
        + 3 * amount(held_by(state.inbox))
        + 2 * state.unreturned
        + amount(carried_by(state.grants))
    )


def theorems() -> tuple[Theorem, ...]:
    """Progress."""
    return (
        Theorem(
            id="ranks-end",
            statement=(
                "What the proofs that something comes to rest conclude from a rank: where each step takes at least one "
                "from a number that is never negative, there are no more steps than it was at first; and where each "
                "lowers the first that changes of several such numbers, there are finitely many. By induction over the "
                "steps, over the number, and over how many numbers there are."
            ),
            module="PermitChannel",
            operator="Protocol",
            obligations=ranking_obligations(),
        ),
        CHAPTER.theorem(
            "rank-falls",
            "Protocol",
            "5 waiting (a watermark that waits counts, too) + 4 in flight + 3 in the inbox + 2 unreturned + 1 on the "
            "way back, in permits, falls with every step of the protocol, and only what is offered raises it. "
            "So until then the protocol takes no more steps than that.",
            *comes_to_rest(CHANNEL, rank, unless=("OfferChunk", "OfferBarrier", "OfferWatermark")),
        ),
    )


def _nothing_under_way(state: State) -> bool:
    return state.wire.is_empty() and state.inbox.is_empty() and state.grants.is_empty()


def _all_consumed(state: State) -> bool:
    return (
        state.waiting.is_empty()
        and state.watermark_pending == NO_WATERMARK
        and state.newest_watermark == "heard"
        and _nothing_under_way(state)
        and state.consumed == state.offered
    )


def _at_rest(holds: Callable[[State], bool]) -> bool:
    """Does it hold in every state in which the protocol can do nothing?"""
    state, parameters = NUMBERED.any_case()
    return SYSTEM.can_move(state, parameters) or holds(state)


def _delivers(excess: int, *, flush_idle: bool) -> bool:
    state, parameters = NUMBERED.any_case()
    assume(parameters.flush_idle == flush_idle)
    kept = 0 if flush_idle else parameters.permit_batch - 1
    assume(largest_cost(parameters) <= parameters.row_permits - kept + excess)
    return SYSTEM.can_move(state, parameters) or _all_consumed(state)


def delivery_theorems() -> tuple[Theorem, ...]:
    """Delivery."""
    return (
        CHAPTER.theorem(
            "all-delivered",
            "EveryChunkDelivered",
            "Where the protocol can do nothing more, no message is in flight or in the inbox, and no grant is on "
            "its way. If, moreover, no chunk costs more than row_permits - permit_batch + 1 (with the idle flush: than "
            "row_permits), nothing waits: every chunk and barrier that was offered and not withdrawn has been "
            "consumed, and so has the newest watermark, if one was offered.",
            SymbolicObligation(
                "nothing is under way, live or not",
                lambda: _at_rest(_nothing_under_way),
                lambda: _at_rest(_all_consumed),
                "and nothing waits",
            ),
            SymbolicObligation(
                "all is consumed if chunks cost at most row_permits - permit_batch + 1",
                partial(_delivers, 0, flush_idle=False),
                partial(_delivers, 1, flush_idle=False),
                "one more",
            ),
            SymbolicObligation(
                "all is consumed if chunks cost at most row_permits, with the idle flush",
                partial(_delivers, 0, flush_idle=True),
                partial(_delivers, 1, flush_idle=True),
                "one more",
            ),
        ),
    )


# What was withheld has arrived: its grant may be less than a batch.
_PUBLISHED = channel(flush_idle=False, initial_permits=ALL)


def _way(state: State) -> int:
    """Steps that row permits still have to take to the application, if each chunk held only one."""
    return 2 * held_by(state.wire).rows + held_by(state.inbox).rows


def _away(state: State) -> int:
    """Row permits that are not at the sender."""
    held = held_by(state.wire).rows + held_by(state.inbox).rows
    return held + state.unreturned + carried_by(state.grants).rows


def _beside(state: State) -> int:
    """Steps that barriers and watermarks still have to take."""
    waiting, wire = held_by(state.waiting), held_by(state.wire)
    inbox, grants = held_by(state.inbox), carried_by(state.grants)
    barriers = 4 * waiting.barriers + 3 * wire.barriers + 2 * inbox.barriers + grants.barriers
    watermarks = (4 if state.watermark_pending >= 0 else 0) + 3 * wire.watermarks + 2 * inbox.watermarks
    return barriers + watermarks + grants.watermarks


def _most_beside(parameters: Parameters) -> int:
    barriers = 3 * parameters.barrier_permits + 4 * parameters.waiters if parameters.barrier_permits > 0 else 0
    return barriers + (7 if parameters.watermarks else 0)


def response_bound(parameters: Parameters) -> int:
    """Steps of the protocol after which the oldest waiting chunk has been sent, at the latest.

    For a live channel, while no further barriers and watermarks are offered; without the idle flush.
    """
    return 2 * parameters.row_permits + parameters.row_permits // parameters.permit_batch + _most_beside(parameters) + 1


class _Steps:
    """How many steps there have been since some moment, by the supply that they used up."""

    def __init__(self) -> None:
        self.way = natural("way_steps")
        self.beside = natural("beside_steps")
        self.batches = natural("batch_times_steps")
        """permit_batch times the number of the others, so that all stays linear."""

    def count(self, before: State, after: State, parameters: Parameters, times: int) -> None:
        """Count a step, this many times."""
        if _way(after) < _way(before):
            self.way += times
        elif _beside(after) < _beside(before):
            self.beside += times
        else:
            self.batches += times * parameters.permit_batch

    def are_supplied(self, state: State, parameters: Parameters) -> bool:
        """The used and the remaining supplies together do not exceed their bound."""
        return (
            self.way + _way(state) <= 2 * parameters.row_permits
            and self.beside + _beside(state) <= _most_beside(parameters)
            and self.batches + _away(state) <= parameters.row_permits
        )


def _is_supplied(action: str, times: int) -> bool:
    before, after, parameters = _PUBLISHED.any_step(action)
    steps = _Steps()
    with assuming():
        assume(steps.are_supplied(before, parameters))
    if times:
        steps.count(before, after, parameters, times)
    return steps.are_supplied(after, parameters)


def _published_steps_are_few(wrong: int) -> bool:
    """From the used supplies to the number of steps, and one more that sends the chunk."""
    state, parameters = _PUBLISHED.any_case()
    steps, batches = _Steps(), natural("batch_steps")
    with assuming():
        assume(steps.are_supplied(state, parameters))
    assume(steps.batches == batches * parameters.permit_batch)
    return steps.way + steps.beside + batches + 1 <= response_bound(parameters) - wrong


def _at_most(supply: str, less: int) -> Clause[State, Parameters]:
    def clause(state: State, parameters: Parameters) -> bool:
        if supply == "way":
            return 0 <= _way(state) <= 2 * parameters.row_permits - less
        if supply == "away":
            return 0 <= _away(state) <= parameters.row_permits - less
        return 0 <= _beside(state) <= _most_beside(parameters) - less

    return clause


# With the idle flush a grant may bring back a single permit.


def _rank_without_chunks_that_wait(state: State, parameters: Parameters) -> int:
    without = state._replace(waiting=SYSTEM.initial(parameters).waiting)
    return rank(without, parameters) + 5 * held_by(state.waiting).barriers


def _response_bound_with_flush(parameters: Parameters) -> int:
    barriers = 4 * parameters.barrier_permits + 5 * parameters.waiters if parameters.barrier_permits > 0 else 0
    return 4 * parameters.row_permits + barriers + (9 if parameters.watermarks else 0) + 1


def _rank_is_bounded(state: State, parameters: Parameters, less: int) -> bool:
    return 0 <= _rank_without_chunks_that_wait(state, parameters) <= _response_bound_with_flush(parameters) - 1 - less


def _is_ranked(action: str, times: int) -> bool:
    """Steps until now and the rank together are no more than the rank can be."""
    before, after, parameters = FLUSHING.any_step(action)
    steps = natural("steps")
    most = _response_bound_with_flush(parameters) - 1
    assume(steps + _rank_without_chunks_that_wait(before, parameters) <= most)
    return steps + times + _rank_without_chunks_that_wait(after, parameters) <= most


def _ranked_are_few(wrong: int) -> bool:
    (state, parameters), steps = FLUSHING.any_case(), natural("steps")
    assume(steps + _rank_without_chunks_that_wait(state, parameters) <= _response_bound_with_flush(parameters) - 1)
    return steps + 1 <= _response_bound_with_flush(parameters) - wrong


# The exact response on small channels.


def _cases() -> Iterator[Parameters]:
    for row_permits in range(1, 6):
        for permit_batch in range(1, row_permits + 1):
            largest = row_permits - permit_batch + 1
            yield Parameters(
                row_permits=row_permits,
                permit_batch=permit_batch,
                max_chunk_cost=largest,
                sizes=tuple(range(1, largest + 1)),
            )


@cache
def longest_wait(parameters: Parameters) -> int:
    """The most protocol steps, over all reachable states, until the oldest chunk that waits has been sent."""

    @cache
    def steps(state: State) -> int:
        found = 0
        for step in SYSTEM.successors(state, parameters):
            if not SYSTEM.action(step.action).is_environment:
                found = max(found, 1 + (0 if step.action == "SendChunk" else steps(step.state)))
        return found

    return max(steps(state) for state in explore(SYSTEM, parameters).states if not state.waiting.is_empty())


def _counted(
    claim: Callable[[str, int], bool], actions: Sequence[str], others: Sequence[str]
) -> Iterator[SymbolicObligation]:
    """Each of these actions uses up a supply; the others are no steps of the protocol, and add to no supply."""
    for action in actions:
        yield SymbolicObligation(action, partial(claim, action, 1), partial(claim, action, 2), "it counts twice")
    for action in others:
        yield SymbolicObligation(
            f"{action} supplies nothing", partial(claim, action, 0), partial(claim, action, 6), "it counts as six steps"
        )


# What the application may do meanwhile.
_MEANWHILE = ("OfferChunk", "WithdrawChunk", "WithdrawBarrier")


def _bounded_response() -> tuple[SymbolicObligation, ...]:
    steps = [action for action in _PUBLISHED.protocol_actions() if action not in ("SendChunk", "Flush")]
    return (
        *_counted(_is_supplied, steps, _MEANWHILE),
        *(
            _PUBLISHED.holds_whenever_invariant(
                f"the supply is bounded: {supply}", _at_most(supply, 0), _at_most(supply, 1), "the bound is one lower"
            )
            for supply in ("way", "away", "beside")
        ),
        SymbolicObligation(
            "so there are few steps",
            partial(_published_steps_are_few, 0),
            partial(_published_steps_are_few, 1),
            "one step fewer",
        ),
    )


def _bounded_response_with_flush() -> tuple[SymbolicObligation, ...]:
    steps = [action for action in FLUSHING.protocol_actions() if action != "SendChunk"]
    return (
        *_counted(_is_ranked, steps, _MEANWHILE),
        FLUSHING.holds_whenever_invariant(
            "the rank of all that does not wait is bounded",
            partial(_rank_is_bounded, less=0),
            partial(_rank_is_bounded, less=1),
            "the bound is one lower",
        ),
        SymbolicObligation(
            "so there are few steps", partial(_ranked_are_few, 0), partial(_ranked_are_few, 1), "one step fewer"
        ),
    )


def response_theorems() -> tuple[Theorem, ...]:
    """The response that progress gives."""
    return (
        CHAPTER.theorem(
            "bounded-response",
            "SendChunk",
            "In a live channel the oldest waiting chunk is sent within 2 R + floor(R / permit_batch) + 1 steps of the "
            "protocol (R = row_permits), once what was withheld at the start has arrived; with b barrier permits and "
            "at most W messages in line 3 b + 4 W more, with watermarks 7 more, if no further barriers and watermarks "
            "are offered meanwhile.",
            *_bounded_response(),
        ),
        CHAPTER.theorem(
            "bounded-response-flush",
            "Flush",
            "With the idle flush, within 4 R + 1 steps of the protocol; with b barrier permits and at most W "
            "messages in line 4 b + 5 W more, with watermarks 9 more, if no further ones are offered meanwhile.",
            *_bounded_response_with_flush(),
        ),
        Theorem(
            id="exact-response",
            statement=(
                "With max_chunk_cost = R - permit_batch + 1 no smaller bound would do: a chunk may have to wait "
                "2 R + floor(R / permit_batch) + 1 steps."
            ),
            module="PermitChannel",
            operator="SendChunk",
            tool="explorer",
            obligations=(
                ExhaustiveObligation(
                    "the longest run of protocol steps to SendChunk is as long as the bound",
                    _cases,
                    lambda case: longest_wait(case) == response_bound(case),
                    lambda case: longest_wait(case) < response_bound(case),
                    "shorter",
                    lambda case: {"row_permits": case.row_permits, "permit_batch": case.permit_batch},
                ),
            ),
        ),
    )
