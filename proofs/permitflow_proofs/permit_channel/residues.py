"""Which residues a receiver can be left with, and the shortest way to one that makes a chunk wait for ever."""

from collections import deque
from collections.abc import Sequence

__all__ = ["largest_residue", "pile_for", "stuck_residue"]


def _last_costs(row_count: int, batch: int, costs: Sequence[int]) -> dict[int, int]:
    """For each residue that chunks of these costs can leave: the last of the fewest costs that leave it.

    Breadth-first: a residue that needs fewer chunks comes first.
    """
    last_costs = {0: 0}
    queue = deque([0])
    while queue:
        residue = queue.popleft()
        for cost in costs:
            after = residue + cost
            # A chunk that does not fit into what is left is stuck already: it leaves no further residue.
            if after < batch and after <= row_count and after not in last_costs:
                last_costs[after] = cost
                queue.append(after)
    return last_costs


def largest_residue(row_count: int, batch: int, costs: Sequence[int]) -> int:
    """The most row permits that the receiver can be left with, if chunks cost one of these."""
    return max(_last_costs(row_count, batch, costs))


def stuck_residue(row_count: int, batch: int, costs: Sequence[int]) -> tuple[int, ...] | None:
    """The fewest costs after which a chunk of the largest cost waits for ever; None if it never does."""
    largest = max(costs)
    last_costs = _last_costs(row_count, batch, costs)
    residue = next((residue for residue in last_costs if largest > row_count - residue), None)
    if residue is None:
        return None
    pile: list[int] = []
    while residue:
        pile.append(last_costs[residue])
        residue -= last_costs[residue]
    return tuple(reversed(pile))


def pile_for(row_count: int, batch: int, largest: int) -> tuple[int, ...] | None:
    """The same where every cost from 1 to the largest may occur."""
    needed = max(0, row_count - largest + 1)
    if needed >= batch:
        return None
    whole, rest = divmod(needed, largest)
    return (*[largest] * whole, *([rest] if rest else []))
