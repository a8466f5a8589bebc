"""Credit: how much may be out at once, as the receiver's end counts it.

Nothing is created and nothing is lost; it goes round:

    withheld ─ release ─> due ─ take_due ─> granted ─ accept ─> with messages here ─ consume ─> collected ─┐
                           ^                                                                               │
                           └────────────── as soon as a batch is collected, or by flush ───────────────────┘

A receiver may aim at less than all of it (``resize``): then the surplus of what is collected goes back to the withheld,
instead of being due, until as much is withheld as the aim is smaller.  This is specified in
spec/adaptive_window/AdaptiveWindow.tla.

One flow counts rows, barriers and watermarks so, another all messages alike.  The inputs of a gate have counts of their
own: what the pool has lent returns to it when it is consumed, and a barrier may take the rest back.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from permitflow.errors import OverspendError


class Credit:
    """The credit that a receiver's end gives its sender, by the places where it can be."""

    __slots__ = ("_batch", "_surplus", "_what", "collected", "due", "granted", "target", "withheld")

    def __init__(self, what: str, size: int, *, batch: int = 1, initial: int | None = None) -> None:
        """Start with nothing out.

        Args:
            what: it counts, for errors.
            size: how much may be out.
            batch: as soon as so much is collected, all of it is due.
            initial: the sender has this from the start, and the rest is withheld; None: it has all.
        """
        self._what = what
        self._surplus, self._batch = 0, batch
        self.target = size
        """How much shall circulate."""
        self.granted = size if initial is None else initial
        """The sender may still use it, as far as this end knows."""
        self.withheld = size - self.granted
        """It is granted once the application asks for a message, or the aim is larger again."""
        self.collected = 0
        """Credit of consumed messages that is not returned yet: less than a batch."""
        self.due = 0
        """What is to be granted now."""

    def accept(self, cost: int) -> None:
        """The guard and the update for messages that arrive, and hold so much.

        Raises:
            OverspendError: the sender did not have so much; nothing was changed.
        """
        if cost > self.granted:
            raise OverspendError(permit_class=self._what, cost=cost, available=self.granted)
        self.granted -= cost

    def consume(self, total: int, costs: Sequence[int] | None = None) -> bool:
        """The update for consumed messages, as if they had been consumed one by one; is a batch due now?

        Args:
            total: what they held together.
            costs: what each of them held, in order; None: 1.
        """
        before, due = self.collected, 0
        if before + total >= self._batch:
            due = _whole_batches(before, total, costs, self._batch)
        # Increments: a finalizer may have consumed something meanwhile.
        self.collected += total - due
        if due and self._surplus:
            due = self._without_surplus(due)
        self.due += due
        return due > 0

    def _without_surplus(self, complete: int) -> int:
        """What is due of this and of what is withheld; the surplus stays: ``Settle`` of the adaptive window."""
        supply = self.withheld + complete
        self.withheld = min(supply, self._surplus)
        return supply - self.withheld

    def resize(self, target: int, batch: int) -> bool:
        """Aim at this much, in batches of this; both are in their ranges.  Is something due for that?"""
        self._surplus += self.target - target
        self.target, self._batch = target, batch
        complete = self.collected if self.collected >= batch else 0
        self.collected -= complete
        due = self._without_surplus(complete)
        self.due += due
        return due > 0

    def release(self) -> bool:
        """Make due what is withheld beyond the surplus; is there something?"""
        due = self._without_surplus(0)
        self.due += due
        return due > 0

    def flush(self) -> int:
        """Make due what was collected, and the surplus that was withheld; return how much that is."""
        flushed, self.collected = self.collected, 0
        if self._surplus:
            flushed, self.withheld = flushed + self.withheld, 0
        self.due += flushed
        return flushed

    @property
    def kept(self) -> int:
        """What ``flush`` makes due."""
        return self.collected + (self.withheld if self._surplus else 0)

    def take_due(self) -> int:
        """What is due counts as granted from here on."""
        due, self.due = self.due, 0
        self.granted += due
        return due


def _whole_batches(collected: int, total: int, costs: Sequence[int] | None, batch: int) -> int:
    """What becomes due while messages of these costs are consumed, one after the other; at least one batch.

    It is collected until there is at least a batch; then all of it is due.
    """
    if costs is None:
        return (collected + total) // batch * batch
    if len(costs) == 1:
        return collected + costs[0]
    sums = list(accumulate(costs, initial=collected))
    due = 0
    while sums[-1] - due >= batch:
        due = sums[bisect_left(sums, due + batch)]
    return due
