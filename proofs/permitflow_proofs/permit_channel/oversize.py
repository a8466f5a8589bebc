"""Bounds on rows, not permits, in the channel if chunks above max_chunk_cost are admitted whole, or split."""

from collections.abc import Callable
from operator import add

from permitflow_model.permit_channel import (
    SYSTEM,
    Message,
    Parameters,
    State,
    held_by,
    row_bound_of,
    rows_in,
    rows_of,
)
from permitflow_proofs.kernel.obligation import SymbolicObligation, take
from permitflow_proofs.kernel.queue import Law, Sums, SymbolicQueue
from permitflow_proofs.kernel.queue_facts import made_law_obligations
from permitflow_proofs.kernel.symbols import assume, natural
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import (
    CHAPTER,
    MESSAGE_LAWS,
    any_message,
    any_parameters,
    any_state,
    lawful_message,
    permits_in,
)


def _in_channel_rows(state: State) -> int:
    return rows_in(state.wire) + rows_in(state.inbox)


# An oversize chunk is admitted whole for max_chunk_cost.  Its excess is counted per chunk, so that the number of
# oversize chunks, which the permits limit, gives the bound.


def _largest_excess(parameters: Parameters) -> int:
    return max(0, max(parameters.sizes) - parameters.max_chunk_cost)


def _oversize_measure(parameters: Parameters) -> Callable[[Message], int]:
    def is_oversize(message: Message) -> int:
        return 1 if message.rows > parameters.max_chunk_cost else 0

    return is_oversize


def _oversize_laws(parameters: Parameters, is_oversize: Callable[[Message], int]) -> dict[str, Law]:
    def oversize(messages: Sums) -> int:
        return messages.sum_of(is_oversize, add, 0)

    def rows(messages: Sums) -> int:
        return messages.sum_of(rows_of, add, 0)

    excess = _largest_excess(parameters)
    return {
        "permits beyond max_chunk_cost for each oversize chunk": lambda messages: (
            permits_in(messages).rows - oversize(messages) * parameters.max_chunk_cost
        ),
        "permits and excess beyond the rows": lambda messages: (
            permits_in(messages).rows + oversize(messages) * excess - rows(messages)
        ),
    }


def _rows_add_up(wrong: int) -> bool:
    """The rows in the channel exceed its permits by one excess for each oversize chunk, which holds max_chunk_cost."""
    parameters = any_parameters()
    is_oversize = _oversize_measure(parameters)
    state = any_state(parameters, message_laws=tuple(_oversize_laws(parameters, is_oversize).values()))
    number = state.wire.sum_of(is_oversize, add, 0) + state.inbox.sum_of(is_oversize, add, 0)
    permits = held_by(state.wire).rows + held_by(state.inbox).rows
    return (
        permits <= parameters.row_permits - wrong
        and number * parameters.max_chunk_cost <= permits
        and _in_channel_rows(state) <= permits + number * _largest_excess(parameters)
    )


def _number_is_limited(slack: int) -> bool:
    """From number * C <= R to number <= floor(R / C), with C = max_chunk_cost; products as the solver cannot find."""
    row_permits, max_chunk_cost, number = (
        natural("row_permits"),
        natural("max_chunk_cost", 1),
        natural("oversize_chunks"),
    )
    assume(number * max_chunk_cost <= row_permits)
    if number > row_permits // max_chunk_cost - slack:
        assume(_product_is_natural(number - row_permits // max_chunk_cost - 1 + slack, max_chunk_cost))
        return False
    return True


def _product_is_natural(left: int, right: int) -> bool:
    return left * right >= 0


def _naturals_multiply(least: int) -> bool:
    return _product_is_natural(natural("left", least), natural("right"))


def _bound_follows(wrong: int) -> bool:
    row_permits, max_chunk_cost, largest = natural("row_permits"), natural("max_chunk_cost", 1), natural("largest_rows")
    permits, number, rows = natural("permits"), natural("oversize_chunks"), natural("rows")
    excess = max(0, largest - max_chunk_cost)
    assume(permits <= row_permits)
    assume(number <= row_permits // max_chunk_cost)
    assume(rows <= permits + number * excess)
    assume(_product_is_natural(row_permits // max_chunk_cost - number, excess))
    return rows <= row_bound_of(row_permits, max_chunk_cost, largest) - wrong


def _split_bound(*, largest_may_exceed: int, slack: int) -> bool:
    parameters = any_parameters()
    assume(max(parameters.sizes) <= parameters.max_chunk_cost + largest_may_exceed)
    laws = _oversize_laws(parameters, _oversize_measure(parameters))
    state = any_state(parameters, message_laws=tuple(laws.values()))
    return _in_channel_rows(state) <= parameters.row_permits - slack


def _oversize_law_obligations() -> tuple[SymbolicObligation, ...]:
    names = ("permits beyond max_chunk_cost for each oversize chunk", "permits and excess beyond the rows")
    # A message must obey the law for the law's own parameters, so one function makes both.
    made: dict[str, Parameters] = {}

    def law(name: str) -> Law:
        made["parameters"] = any_parameters()
        return _oversize_laws(made["parameters"], _oversize_measure(made["parameters"]))[name]

    return tuple(
        obligation
        for name in names
        for obligation in made_law_obligations(
            name,
            lambda name=name: law(name),  # type: ignore[misc]  # binds the loop's value
            lambda: lawful_message(made["parameters"]),
            lambda: any_message("message"),
        )
    )


# The bound is reached: fill the wire with oversize chunks, then with one chunk of the permits that are left.


def _filled(parameters: Parameters, permits: int, rows: int) -> State:
    """The wire holds chunks of this many rows for this many permits, nothing else is anywhere."""
    wire = SymbolicQueue.any_queue("wire", any_message, tuple(MESSAGE_LAWS.values()))
    start = SYSTEM.initial(parameters)
    state = start._replace(wire=wire, permits=start.permits._replace(rows=parameters.row_permits - permits))
    assume(rows_in(wire) == rows)
    assume(held_by(wire).rows == permits)
    return state


def _one_more(*, wrong: int) -> bool:
    parameters = any_parameters()
    largest = max(parameters.sizes)
    assume(largest > parameters.max_chunk_cost)
    permits, rows = natural("permits_held"), natural("rows_held")
    assume(permits + parameters.max_chunk_cost <= parameters.row_permits)
    before = _filled(parameters, permits, rows)
    after = take(SYSTEM, parameters, before, [("OfferChunk", (largest,)), ("SendChunk", ())])
    if after is None:
        return False
    return (
        after.permits.rows == parameters.row_permits - permits - parameters.max_chunk_cost
        and rows_in(after.wire) == rows + largest + wrong
        and after.waiting.is_empty()
    )


def _topped_up(*, wrong: int) -> bool:
    parameters = any_parameters()
    largest, max_chunk_cost = max(parameters.sizes), parameters.max_chunk_cost
    assume(largest > max_chunk_cost)
    full = parameters.row_permits // max_chunk_cost
    before = _filled(parameters, full * max_chunk_cost, full * largest)
    left = parameters.row_permits - full * max_chunk_cost
    after: State | None = before
    if left > 0:
        after = take(SYSTEM, parameters, before, [("OfferChunk", (left,)), ("SendChunk", ())])
    if after is None:
        return False
    return rows_in(after.wire) == row_bound_of(parameters.row_permits, max_chunk_cost, largest) + wrong


def theorems() -> tuple[Theorem, ...]:
    """Rows."""
    return (
        CHAPTER.theorem(
            "row-bound",
            "RowBound",
            "With oversize chunks (S rows) admitted whole for C = max_chunk_cost, the channel holds at most "
            "R + floor(R / C) * (S - C) rows.",
            *_oversize_law_obligations(),
            SymbolicObligation(
                "each oversize chunk holds max_chunk_cost permits and adds one excess",
                lambda: _rows_add_up(0),
                lambda: _rows_add_up(1),
                "fewer permits than row_permits",
            ),
            SymbolicObligation(
                "so there are at most floor(R / C) of them",
                lambda: _number_is_limited(0),
                lambda: _number_is_limited(1),
                "one fewer",
            ),
            SymbolicObligation(
                "a product of natural numbers is natural",
                lambda: _naturals_multiply(0),
                lambda: _naturals_multiply(-1),
                "a factor may be -1",
            ),
            SymbolicObligation(
                "and the bound follows",
                lambda: _bound_follows(0),
                lambda: _bound_follows(1),
                "one row fewer",
            ),
        ),
        CHAPTER.theorem(
            "row-bound-exact",
            "MostRows",
            "The bound for oversize chunks is reached, whatever R, C and S > C: no smaller one would do.",
            SymbolicObligation(
                "one more oversize chunk fits while max_chunk_cost permits are left",
                lambda: _one_more(wrong=0),
                lambda: _one_more(wrong=1),
                "the wire gains a row more than the chunk has",
            ),
            SymbolicObligation(
                "with floor(R / C) of them and one chunk for the rest, the bound is reached",
                lambda: _topped_up(wrong=0),
                lambda: _topped_up(wrong=1),
                "a bound one row higher is reached",
            ),
        ),
        CHAPTER.theorem(
            "row-bound-split",
            "RowBound",
            "If no chunk exceeds max_chunk_cost (larger ones split), the channel holds row_permits rows at most.",
            SymbolicObligation(
                "follows from the invariant",
                lambda: _split_bound(largest_may_exceed=0, slack=0),
                lambda: _split_bound(largest_may_exceed=1, slack=0),
                "a chunk may exceed max_chunk_cost by one row",
            ),
            SymbolicObligation(
                "for each max_chunk_cost",
                lambda: _split_bound(largest_may_exceed=-1, slack=0),
                lambda: _split_bound(largest_may_exceed=0, slack=1),
                "one row fewer",
            ),
        ),
    )
