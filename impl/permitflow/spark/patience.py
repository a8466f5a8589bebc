"""Retries while the exchange is away, until ``timeout_seconds`` have passed without progress."""

from collections.abc import Callable, Sequence
from time import monotonic, sleep

from permitflow.errors import PeerGoneError, PeerTimeoutError, PermitflowError, StoreTakenOverError
from permitflow.pauses import pauses

AWAY = (PeerGoneError, StoreTakenOverError)
"""Errors of an exchange that has gone, or whose store another one has, which the next attempt finds."""

_LAST_SECONDS, _LAST_SHARE = 1.0, 0.1
"""For the attempt at the deadline: in less, a peer on another host may not even have refused the connection."""


def is_away(error: PermitflowError) -> bool:
    """May a retry succeed?  Not after a silence: that peer has had all the time there is."""
    return isinstance(error, AWAY) and not isinstance(error, PeerTimeoutError)


def in_words(channels: Sequence[str]) -> str:
    """Name the first channel, and the number of the others."""
    more = f" and {len(channels) - 1} more" if len(channels) > 1 else ""
    return f"channel {channels[0]!r}{more}"


class Patience:
    """A deadline for attempts, and growing pauses between them."""

    def __init__(
        self,
        timeout_seconds: float,
        channels: Sequence[str],
        *,
        clock: Callable[[], float] = monotonic,
        pause: Callable[[float], None] = sleep,
    ) -> None:
        """Start the clock; ``channels`` are named in the error."""
        self._timeout_seconds = timeout_seconds
        self._channels = channels
        self._clock = clock
        self._pause = pause
        self.renew()

    def renew(self) -> None:
        """Restart the clock after progress."""
        self._began = self._clock()
        self._first: PermitflowError | None = None
        self._attempts, self._pauses = 0, pauses()

    @property
    def remaining_seconds(self) -> float:
        """Seconds until the deadline; for an attempt at it a second, or a tenth of the time-out if that is less."""
        left_seconds = self._timeout_seconds - (self._clock() - self._began)
        return max(left_seconds, min(_LAST_SECONDS, _LAST_SHARE * self._timeout_seconds))

    def wait(self, error: PermitflowError) -> None:
        """Pause after a failed attempt.

        Raises:
            PermitflowError: ``error`` itself, if a retry cannot help, or the deadline has passed.
        """
        if not is_away(error):
            raise error
        self._first = self._first or error
        self._attempts += 1
        waited = self._clock() - self._began
        left_seconds = self._timeout_seconds - waited
        if left_seconds <= 0:
            error.add_note(
                f"tried {self._attempts} times in {waited:.1f} s (option timeoutSeconds: {self._timeout_seconds:g}), "
                f"for {in_words(self._channels)}"
            )
            if str(error) != str(self._first):  # as a note, because Spark shows no causes
                error.add_note(f"it began with {type(self._first).__name__}: {self._first}")
            raise error
        self._pause(min(next(self._pauses), left_seconds))  # there is a last attempt at the deadline
