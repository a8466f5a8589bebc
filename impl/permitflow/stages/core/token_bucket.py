"""A token bucket in whole ticks; no clock: ``now`` is an argument.

It starts full.  A token comes each ``period``, up to ``capacity``.  An element above the capacity passes, too: later,
when all its tokens have come.
"""

from permitflow.stages.core.parameters import require_at_least


class TokenBucket:
    """Says how long an element of a given cost must wait.  The algorithm is that of Pekko's TokenBucket."""

    __slots__ = ("_available", "_last", "capacity", "period")

    def __init__(self, capacity: int, period: int, now: int) -> None:
        """Begin full.

        Args:
            capacity: the most tokens that are kept.
            period: ticks from one token to the next.
            now: in ticks.

        Raises:
            InvalidParametersError: ``capacity`` is below 0, or ``period`` below 1.
        """
        require_at_least(0, capacity=capacity)
        require_at_least(1, period=period)
        self.capacity = capacity
        self.period = period
        self._available = capacity
        self._last = now
        """When the last token came that is counted; ahead of now while somebody waits."""

    def offer(self, cost: int, now: int) -> int:
        """Take the tokens for an element; they may still have to come.

        Returns:
            Ticks until they are all there.  The element waits so long; do not offer another one meanwhile.

        Raises:
            InvalidParametersError: ``cost`` is below 0.

        Spec: TakeTokens, Token of TokenBucket.
        """
        require_at_least(0, cost=cost)
        elapsed = now - self._last
        if elapsed >= self.period:
            arrived = elapsed // self.period
            self._last += arrived * self.period
            self._available = min(self._available + arrived, self.capacity)
        if cost <= self._available:
            self._available -= cost
            return 0
        delay = (cost - self._available) * self.period - (now - self._last)
        self._available = 0
        self._last = now + delay
        return delay
