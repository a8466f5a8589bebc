"""How much may be under way on a network that is shared: by the share of what was lost; no I/O.

The receiver's window bounds its own memory; it knows nothing of a queue on the way that is shorter, and drops what does
not fit.  What is sent again at once is dropped again, so without a bound next to nothing would arrive.

A loss is not a sign of congestion by itself: a radio link may lose one of a hundred, and halving the rate each time
would leave a small part of it.  So the bound follows the loss-based controller of Google's congestion control
(draft-ietf-rmcat-gcc-02, 6): below 2 % it rises, above 10 % it falls by half of that share.
"""

FIRST_DATAGRAMS = 16
"""The bound at first; it doubles each round trip until something is lost."""

LEAST_DATAGRAMS = 4

RISES_BELOW, FALLS_ABOVE = 0.02, 0.1
"""Shares of all copies that were sent, which replaced lost ones."""

_RISE = 1.05
_LEAST_SAMPLE = 10
"""Copies: of fewer, a single loss would be a large share."""


class Congestion:
    """The bound of what is under way."""

    def __init__(self, most: int) -> None:
        """``most``: the bound never exceeds it."""
        self._most = most
        self._bound = float(min(FIRST_DATAGRAMS, most))
        self._is_starting = True
        self._sent = self._retransmitted = 0
        self._since_seconds = 0.0

    @property
    def bound(self) -> int:
        """Data that may be unacknowledged."""
        return int(self._bound)

    def note(self, sent: int, retransmitted: int, now: float, round_trip_seconds: float) -> None:
        """Note how many data and repeated copies have left in all; the bound changes once in a round trip."""
        copies = retransmitted - self._retransmitted
        leaving = sent - self._sent + copies
        if leaving < _LEAST_SAMPLE or now < self._since_seconds + round_trip_seconds:
            return
        share = copies / leaving
        if share > FALLS_ABOVE:
            self._bound = max(self._bound * (1 - share / 2), min(LEAST_DATAGRAMS, self._most))
            self._is_starting = False
        elif share < RISES_BELOW and 2 * leaving >= self._bound:  # otherwise nobody knows whether more would be lost
            self._bound = min(self._bound * (2 if self._is_starting else _RISE), self._most)
        self._sent, self._retransmitted, self._since_seconds = sent, retransmitted, now
