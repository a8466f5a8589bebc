"""Live or not, for given numbers, by the formulas that are proved for all: at once, and without a solver.

First: which residues a receiver can be left with, and the shortest way to one that makes a chunk wait for ever.
The run into a deadlock is one of the model, which confirms every step and the end.
``permitflow_proofs.decide`` proves the verdict again, for the numbers that are given.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from permitflow_model.kernel.runs import Move, Run, replay
from permitflow_model.manifest import reference
from permitflow_model.permit_channel import SYSTEM, Parameters, State, is_stuck


class Statement(NamedTuple):
    """What a theorem says, and of what."""

    operator: str
    """The definition of PermitChannel.tla that it is about."""

    text: str

    @property
    def reference(self) -> str:
        """File and line of the specification."""
        return reference("PermitChannel", self.operator)


THEOREMS: Mapping[str, Statement] = {
    "threshold": Statement(
        "NeverStuck",
        "The exact threshold. Without the idle flush, if permits return once at least permit_batch are held, and "
        "chunks of every size up to the largest may be offered: live if and only if no chunk costs more than "
        "row_permits - permit_batch + 1.",
    ),
    "mismatched-batches": Statement(
        "Cost",
        "A sender whose chunks cost at most row_permits - permit_batch_up, and a receiver that returns permits "
        "in batches of permit_batch_down. Without the idle flush, if chunks of every size may be offered: live "
        "if and only if permit_batch_down <= permit_batch_up + 1.",
    ),
    "sets-of-sizes": Statement(
        "Stuck",
        "For any set of costs, without the idle flush: stuck if and only if some sum a of them, with all "
        "partial sums below permit_batch, and some cost c have c > row_permits - a.",
    ),
    "flush-idle": Statement(
        "Flush",
        "If an idle receiver returns its residue: live if and only if no chunk costs more than row_permits, "
        "whatever the batches.",
    ),
}
"""The theorems behind a verdict; ``permitflow_proofs`` proves them."""


def _last_costs(row_permits: int, permit_batch: int, costs: Sequence[int]) -> dict[int, int]:
    """For each residue that chunks of these costs can leave: the last of the fewest costs that leave it.

    Breadth-first: a residue that needs fewer chunks comes first.
    """
    last_costs = {0: 0}
    queue = deque([0])
    while queue:
        residue = queue.popleft()
        for cost in costs:
            after = residue + cost
            # A chunk that costs more than the remaining permits is stuck already: it leaves no further residue.
            if after < permit_batch and after <= row_permits and after not in last_costs:
                last_costs[after] = cost
                queue.append(after)
    return last_costs


def largest_residue(row_permits: int, permit_batch: int, costs: Sequence[int]) -> int:
    """The most row permits that the receiver can be left with, if chunks cost one of these."""
    return max(_last_costs(row_permits, permit_batch, costs))


def stuck_residue(row_permits: int, permit_batch: int, costs: Sequence[int]) -> tuple[int, ...] | None:
    """The fewest costs after which a chunk of the largest cost waits for ever; None if it never does."""
    largest = max(costs)
    last_costs = _last_costs(row_permits, permit_batch, costs)
    residue = next((residue for residue in last_costs if largest > row_permits - residue), None)
    if residue is None:
        return None
    pile: list[int] = []
    while residue:
        pile.append(last_costs[residue])
        residue -= last_costs[residue]
    return tuple(reversed(pile))


def pile_for(row_permits: int, permit_batch: int, largest: int) -> tuple[int, ...] | None:
    """The same if every cost from 1 to the largest may occur."""
    needed = max(0, row_permits - largest + 1)
    if needed >= permit_batch:
        return None
    whole, rest = divmod(needed, largest)
    return (*[largest] * whole, *([rest] if rest else []))


_CONSUMED: tuple[Move, ...] = (("SendChunk", ()), ("Deliver", ()), ("Consume", ()))


class Undecided(Exception):
    """The model or the solver does not confirm the formula: a defect of this package, not of the numbers."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The verdict on one choice of parameters."""

    is_live: bool
    largest_cost: int
    """The most that a chunk costs, in row permits, as asked."""

    safe_max_chunk_cost: int
    """The most a chunk may cost with these row permits and this permit batch; 0: they leave room for none."""

    safe_permit_batch: int
    """The largest permit batch with which chunks of ``largest_cost`` are live; 0: there is none."""

    largest_residue: int
    """The most row permits that the receiver can keep back."""

    theorems: tuple[str, ...]
    """Identities in the catalogue: the general statements behind the verdict."""

    explanation: str
    run: Run[State, Parameters] | None
    """A shortest run into the deadlock; None if live."""


def decide(
    row_permits: int,
    permit_batch: int,
    max_chunk_cost: int | None = None,
    *,
    sizes: Sequence[int] | None = None,
    flush_idle: bool = False,
    permit_batch_up: int | None = None,
) -> Decision:
    """Can a channel with these numbers get stuck?

    ``max_chunk_cost`` defaults to the largest of ``sizes`` or, without these, to ``row_permits - permit_batch``, as
    published.  ``permit_batch_up`` is the sender's own permit batch, if it differs: then no chunk costs more than
    ``row_permits - permit_batch_up``.  Without ``sizes``, chunks of every cost from 1 to ``max_chunk_cost`` may occur.
    All numbers are row permits.

    Raises:
        ValueError: a number is out of its range.
        Undecided: the model does not confirm the run into a deadlock.
    """
    _check(row_permits, permit_batch, permit_batch_up, sizes)
    most = _most(row_permits, permit_batch, permit_batch_up, max_chunk_cost, sizes)
    costs = None if sizes is None else tuple(sorted({min(max(rows, 1), most) for rows in sizes}))
    largest = most if costs is None else costs[-1]
    pile = _pile(row_permits, permit_batch, largest, costs, flush_idle=flush_idle)
    safe_permit_batch = 0 if largest > row_permits else row_permits if flush_idle else row_permits - largest + 1
    theorem = "flush-idle" if flush_idle else "threshold" if costs is None else "sets-of-sizes"
    residue = _largest_residue(row_permits, permit_batch, costs, flush_idle=flush_idle)
    if pile is None:
        run, explanation = None, _why_live(row_permits, largest, residue, flush_idle=flush_idle)
    else:
        run = _deadlock(row_permits, permit_batch, largest, pile, flush_idle=flush_idle)
        explanation = _why_stuck(row_permits, permit_batch, largest, sum(pile))
    return Decision(
        is_live=run is None,
        largest_cost=largest,
        safe_max_chunk_cost=safe_max_chunk_cost(row_permits, permit_batch, flush_idle=flush_idle),
        safe_permit_batch=safe_permit_batch,
        largest_residue=residue,
        theorems=(theorem,) if permit_batch_up is None else (theorem, "mismatched-batches"),
        explanation=explanation,
        run=run,
    )


def safe_max_chunk_cost(row_permits: int, permit_batch: int, *, flush_idle: bool = False) -> int:
    """The most a chunk may cost if chunks of every smaller cost may come too; 0: the batch leaves room for none.

    Source: the theorems ``threshold`` and ``flush-idle``.
    """
    return row_permits if flush_idle else max(0, row_permits - permit_batch + 1)


def _check(row_permits: int, permit_batch: int, permit_batch_up: int | None, sizes: Sequence[int] | None) -> None:
    for name, value in (("row_permits", row_permits), ("permit_batch", permit_batch)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
    if permit_batch_up is not None and permit_batch_up < 0:
        raise ValueError(f"permit_batch_up must not be negative, but is {permit_batch_up}")
    if sizes is not None and (not sizes or min(sizes) < 0):
        raise ValueError(f"sizes must be one or more numbers that are not negative, not {list(sizes)}")


def _most(
    row_permits: int,
    permit_batch: int,
    permit_batch_up: int | None,
    max_chunk_cost: int | None,
    sizes: Sequence[int] | None,
) -> int:
    """The most that any chunk costs."""
    published = row_permits - (permit_batch if permit_batch_up is None else permit_batch_up)
    wanted = max(1, *sizes) if max_chunk_cost is None and sizes else max_chunk_cost
    most = published if wanted is None else wanted if permit_batch_up is None else min(wanted, published)
    if most >= 1:
        return most
    reason = ""
    if most == published:
        reason = f": row_permits {row_permits} less permit_batch {row_permits - published} leaves no room"
    raise ValueError(f"the most a chunk costs must be at least 1, not {most}{reason}")


def _pile(
    row_permits: int, permit_batch: int, largest: int, costs: tuple[int, ...] | None, *, flush_idle: bool
) -> tuple[int, ...] | None:
    """The fewest chunks after which one of the largest cost is stuck; None if it never is."""
    if flush_idle:
        return () if largest > row_permits else None
    if costs is None:
        return pile_for(row_permits, permit_batch, largest)
    return stuck_residue(row_permits, permit_batch, costs)


def _largest_residue(row_permits: int, permit_batch: int, costs: tuple[int, ...] | None, *, flush_idle: bool) -> int:
    if flush_idle or costs is None:
        return permit_batch - 1
    return largest_residue(row_permits, permit_batch, costs)


def _deadlock(
    row_permits: int, permit_batch: int, largest: int, pile: tuple[int, ...], *, flush_idle: bool
) -> Run[State, Parameters]:
    """Collect the chunks at the receiver, offer the largest; the model itself confirms every step and the end."""
    parameters = Parameters(
        row_permits=row_permits,
        permit_batch=permit_batch,
        max_chunk_cost=largest,
        sizes=tuple({*pile, largest}),
        flush_idle=flush_idle,
    )
    moves: list[Move] = []
    for cost in pile:
        moves += [("OfferChunk", (cost,)), *_CONSUMED]
    run = replay(SYSTEM, parameters, [*moves, ("OfferChunk", (largest,))])
    if not is_stuck(run.end, parameters):
        raise Undecided("the run that should end in a deadlock does not")
    return run


def _why_live(row_permits: int, largest: int, residue: int, *, flush_idle: bool) -> str:
    if flush_idle:
        return (
            f"an idle receiver returns everything, so all {row_permits:,} permits come back, "
            f"and no chunk costs more than {largest:,}"
        )
    return (
        f"the receiver keeps back at most {_permits(residue)}, so at least {row_permits - residue:,} of "
        f"{row_permits:,} come back to the sender, and no chunk costs more than {largest:,}"
    )


def _why_stuck(row_permits: int, permit_batch: int, largest: int, residue: int) -> str:
    if largest > row_permits:
        return f"a chunk of {_permits(largest)} waits for ever: the channel has only {row_permits:,}"
    return (
        f"the receiver keeps back {_permits(residue)}, because it returns them only once it holds {permit_batch:,}; "
        f"the sender has {row_permits - residue:,}, and a chunk of {largest:,} waits for ever"
    )


def _permits(count: int) -> str:
    return "1 permit" if count == 1 else f"{count:,} permits"
