"""The share of the time in which producers were blocked, between two progress reports of a streaming query; no I/O."""

from permitflow.spark.stream_planning import Positions


class BlockedShare:
    """How long producers waited for room in the most blocked channel: 0 never, 1 always.  Picklable.

    It is ``blocked_share`` of ``permitflow top``, since the last report, or since the query asked first.
    """

    def __init__(self) -> None:
        """Nothing is known yet: the share is 0."""
        self._before: tuple[dict[str, float], float] | None = None
        self._now: tuple[dict[str, float], float] | None = None
        self._share = 0.0

    def note(self, positions: Positions, at_seconds: float) -> None:
        """Note what an exchange has told at this moment, by a clock that does not go backwards."""
        self._now = {channel: each.waiting_seconds for channel, each in positions.items()}, at_seconds
        self._before = self._before or self._now

    def share(self) -> float:
        """The share since this method was called last; if nothing was noted since then, the same again."""
        if self._now is not None and self._before is not None and self._now[1] > self._before[1]:
            (before, since_seconds), (now, at_seconds) = self._before, self._now
            waited = [_since(before.get(channel, seconds), seconds) for channel, seconds in now.items()]
            self._share = min(1.0, max(waited, default=0.0) / (at_seconds - since_seconds))
            self._before = self._now
        return self._share


def _since(before_seconds: float, seconds: float) -> float:
    # An exchange that was started again counts from 0.
    return seconds if seconds < before_seconds else seconds - before_seconds
