"""The exact condition for any set of chunk sizes.

A *pile* is a sum of costs of offered chunks, all partial sums below BATCH.  Let ``piles`` be a set that holds 0 and,
with each of its members, every larger pile that one more chunk makes.  Then every residue is in it (by induction over
steps), so a stuck chunk finds a pile that leaves too little.  The smallest such set is the set of piles; each of its
members is reached, or the channel gets stuck on the way there (by induction over piles).
"""

from permitflow_model.permit_channel import SYSTEM, Message, Parameters, State, cost_of, is_stuck
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import assume, assuming, implies, merged, natural, predicate
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import (
    INVARIANT,
    Sizes,
    any_parameters,
    any_rows,
    any_state,
)
from permitflow_proofs.permit_channel.piling import gets_stuck, piling

__all__ = ["cost_set_theorems"]


def _some_sizes(**fixed: object) -> Parameters:
    """Any set of sizes."""
    return any_parameters(sizes=Sizes(natural("largest_rows"), predicate("is_offered")), **fixed)


def _published() -> Parameters:
    return _some_sizes(flush_idle=False)


def _is_pile(permits: int) -> bool:
    return predicate("is_pile")(permits)


def _grows(pile: int, rows: int, parameters: Parameters, too_far: int) -> bool:
    """One more chunk makes a larger pile of this one."""
    return implies(
        merged(lambda: rows in parameters.sizes and pile + cost_of(rows, parameters) < parameters.batch - too_far),
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
    parameters = _some_sizes()
    before = _any_state(parameters)
    after = _CHANNEL.perform(action, before, parameters)
    if action == "Consume":
        assume(_grows(before.unreturned, before.inbox.head().rows, parameters, too_far))
    # The twin of an action that leaves the residue alone: it does not.
    changed = too_far if action != "Consume" else 0
    return _is_pile(after.unreturned + changed)


def _starts_as_pile(wrong: int) -> bool:
    assume(_is_pile(0))
    return _is_pile(SYSTEM.initial(_some_sizes()).unreturned + wrong)


def _stuck_behind_a_pile(more: int) -> bool:
    parameters = _some_sizes()
    state = _any_state(parameters)
    if not is_stuck(state, parameters):
        return True
    chunk = state.waiting.head()
    return (
        _is_pile(state.unreturned)
        and state.unreturned < parameters.batch
        and chunk.rows in parameters.sizes
        and chunk.cost > parameters.row_count - state.unreturned + more
    )


def _pile_sticks(nearer: int) -> bool:
    parameters = _published()
    pile = natural("pile")
    (rows,) = any_rows(parameters)
    with assuming():
        assume(pile < parameters.batch)
        assume(cost_of(rows, parameters) > parameters.row_count - pile - nearer)
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
                "piles end one below BATCH" if action.name == "Consume" else "the residue changes",
            )
            for action in SYSTEM.actions
        ),
        SymbolicObligation(
            "only if: whoever is stuck is a chunk c behind a pile a with c > ROW_COUNT - a",
            lambda: _stuck_behind_a_pile(0),
            lambda: _stuck_behind_a_pile(1),
            "c > ROW_COUNT - a + 1",
        ),
    )


def cost_set_theorems() -> tuple[Theorem, ...]:
    """Any set of sizes."""
    return (
        Theorem(
            id="sets-of-sizes",
            statement=(
                "For any set of costs: stuck if and only if some sum a of them, all partial sums below BATCH, and some "
                "cost c have c > ROW_COUNT - a."
            ),
            module="PermitChannel",
            operator="Stuck",
            scope="all parameters, all sets of sizes",
            obligations=(
                *_if(),
                *piling(_published, any_cost=True),
                SymbolicObligation(
                    "if: with a pile a at the receiver, a chunk c > ROW_COUNT - a is stuck as soon as it is offered",
                    lambda: _pile_sticks(0),
                    lambda: _pile_sticks(1),
                    "c >= ROW_COUNT - a",
                ),
            ),
        ),
    )
