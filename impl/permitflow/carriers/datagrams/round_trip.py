"""How long an answer takes, and after which time what was sent counts as lost: RFC 6298; no I/O."""

from dataclasses import dataclass, field

FIRST_TIMEOUT_SECONDS = 1.0
"""The time-out before anything was measured (RFC 6298, 2.1)."""

LEAST_TIMEOUT_SECONDS = 0.025
"""RFC 6298 (2.4) says one second, because receivers of TCP may hold an acknowledgement for half a second, and because
TCP reduces its rate after a time-out.  Here a receiver holds one for ``link.HOLD_SECONDS``, and a time-out sends one
datagram again.  So this is the delay for which QUIC waits by default (RFC 9002, 6.2.1, and RFC 9000, 18.2)."""

MOST_TIMEOUT_SECONDS = 2.0
"""RFC 6298 (2.5) says at least a minute, for a network that is overloaded by what is sent again.  One datagram in two
seconds overloads none, and a network that comes back after an hour is used again after two seconds."""

CLOCK_SECONDS = 0.001
"""What the clock of an event loop can tell apart; it is the least distance of the time-out from the round trip."""


@dataclass(slots=True)
class RoundTrip:
    """The smoothed round trip, its variation, and the time-out with its back-off."""

    smoothed_seconds: float | None = None
    """None: nothing was measured yet."""
    variation_seconds: float = 0.0
    least_seconds: float = 0.0
    """The shortest that was measured."""
    _backed_off: int = field(default=0, repr=False)

    def note(self, seconds: float) -> None:
        """A round trip took so long: of something that was sent once, because otherwise the answer may be to any copy.

        It ends the back-off (Karn's rule).
        """
        self._backed_off = 0
        if self.smoothed_seconds is None:
            self.smoothed_seconds = self.least_seconds = seconds
            self.variation_seconds = seconds / 2
            return
        self.least_seconds = min(self.least_seconds, seconds)
        self.variation_seconds += (abs(self.smoothed_seconds - seconds) - self.variation_seconds) / 4
        self.smoothed_seconds += (seconds - self.smoothed_seconds) / 8

    def back_off(self) -> None:
        """Nothing was heard within the time-out: double it, until a round trip is measured."""
        if self.timeout_seconds < MOST_TIMEOUT_SECONDS:
            self._backed_off += 1

    @property
    def likely_seconds(self) -> float:
        """An answer is unlikely to take longer (RFC 6298, 2.2 and 2.3)."""
        if self.smoothed_seconds is None:
            return FIRST_TIMEOUT_SECONDS
        return self.smoothed_seconds + max(CLOCK_SECONDS, 4 * self.variation_seconds)

    @property
    def timeout_seconds(self) -> float:
        """The oldest is sent again after this long without an answer."""
        seconds = max(self.likely_seconds, LEAST_TIMEOUT_SECONDS)
        return min(seconds * (1 << self._backed_off), MOST_TIMEOUT_SECONDS)

    def late_seconds(self, tolerance: int) -> float:
        """How long after it was sent something counts as lost, if a later one has overtaken it.

        At first that is a round trip and an eighth (RFC 9002, 6.1.2); a tolerance above 1 means as many eighths.
        """
        smoothed = self.smoothed_seconds or FIRST_TIMEOUT_SECONDS
        return min(smoothed + max(CLOCK_SECONDS, smoothed / 8 * tolerance), self.likely_seconds)
