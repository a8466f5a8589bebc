"""How long to try again when the exchange is away: until ``timeout_seconds`` have passed without any progress."""

from collections.abc import Callable, Sequence
from time import monotonic, sleep

from permitflow.errors import PeerGoneError, PermitflowError

__all__ = ["Patience", "in_words", "is_away"]

# An exchange that starts again is back within a second or two; one that is asked all the time comes no sooner.
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0


def is_away(error: PermitflowError) -> bool:
    """May the same question get an answer later?  A peer that was given all the time there is has had its chance."""
    return isinstance(error, PeerGoneError) and not isinstance(error, TimeoutError)


def in_words(channels: Sequence[str]) -> str:
    """The first of them, and how many more."""
    more = f" and {len(channels) - 1} more" if len(channels) > 1 else ""
    return f"channel {channels[0]!r}{more}"


class Patience:
    """Attempts, and ever longer pauses between them."""

    def __init__(
        self,
        timeout_seconds: float,
        channels: Sequence[str],
        *,
        clock: Callable[[], float] = monotonic,
        pause: Callable[[float], None] = sleep,
    ) -> None:
        """Begin now; ``channels`` are those that are waited for."""
        self._timeout_seconds = timeout_seconds
        self._channels = channels
        self._clock = clock
        self._pause = pause
        self.renew()

    def renew(self) -> None:
        """There was progress: the time begins anew."""
        self._began = self._clock()
        self._attempts = 0

    @property
    def remaining_seconds(self) -> float:
        """Until patience is over; at least a little, so that it is a time-out that can be asked for."""
        return max(_FIRST_PAUSE_SECONDS, self._timeout_seconds - (self._clock() - self._began))

    def wait(self, error: PermitflowError) -> None:
        """Pause after a failed attempt.

        Raises:
            PermitflowError: ``error`` itself, if waiting does not help it, or has been long enough.
        """
        if not is_away(error):
            raise error
        self._attempts += 1
        waited = self._clock() - self._began
        seconds = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(self._attempts - 1, 10))
        if waited + seconds >= self._timeout_seconds:
            error.add_note(
                f"tried {self._attempts} times in {waited:.1f} s (option timeout_seconds: {self._timeout_seconds:g}), "
                f"for {in_words(self._channels)}"
            )
            raise error
        self._pause(seconds)
