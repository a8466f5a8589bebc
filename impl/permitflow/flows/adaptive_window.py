"""How many rows a receiver should let circulate, so that what is there waits no longer than wanted.

The target is the consumer's measured throughput times the wanted latency, as in Flink's buffer debloating.  Time in
which nothing is here to consume is not counted: a consumer that waits is not slow.  A target leaves the room that the
flow needs whatever is measured, because with less the sender would wait while a chunk is consumed.

This class only measures and decides; the flow's ``resize`` does it (docs/protocols/adaptive-window.md).
"""

from permitflow.errors import InvalidParametersError

OUT_OF_REACH = (
    "%s: rows wait about %.3g s and not %.3g s, because two of its chunks take so long at the rate that was measured; "
    "send smaller chunks, or want a longer latency"
)
"""A warning: of which channel, the latency that it can have and the one that was wanted, in seconds."""

_SAMPLES_PER_LATENCY = 4
_NEWEST_SHARE = 0.5
"""The newest sample's share of the smoothed throughput, which so follows a change within a few samples: one latency."""
_CHANGE_SHARE = 8
"""A target that differs by less than this part of the present one is not a change."""


def require_latency(seconds: object) -> float:
    """Check a wanted latency that a caller gave.

    Raises:
        InvalidParametersError: it is not a number above 0 and at most an hour.
    """
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds <= 3600:
        return float(seconds)
    rule = "must be a number of seconds, above 0 and at most 3600"
    raise InvalidParametersError(name="target_latency_seconds", value=seconds, rule=rule)


class AdaptiveWindow:
    """Measures a consumer, and says when its receiver should aim at another window."""

    __slots__ = (
        "_busy_rows",
        "_busy_seconds",
        "_latency_seconds",
        "_most_rows",
        "_seen",
        "least_rows",
        "rows_per_second",
        "target",
    )

    def __init__(self, most_rows: int, latency_seconds: float) -> None:
        """Nothing is measured yet: the target is all of the agreed window, ``most_rows``.

        Raises:
            InvalidParametersError: as ``require_latency``.
        """
        self._most_rows = most_rows
        self._latency_seconds = require_latency(latency_seconds)
        self._seen: tuple[float, int, bool] | None = None
        self._busy_seconds, self._busy_rows = 0.0, 0
        self.rows_per_second: float | None = None
        """What the consumer consumes while there is something; None: not measured yet."""
        self.least_rows = 1
        """The room that the flow needs: no target is below it."""
        self.target = most_rows
        """Rows that shall circulate."""

    @property
    def least_latency_seconds(self) -> float | None:
        """How long rows wait, because the flow needs more room than is wanted; None: it does not, as far as is known.

        A round trip adds to it, which this end does not know.
        """
        rate = self.rows_per_second
        if not rate or self.least_rows <= rate * self._latency_seconds:
            return None
        return min(self.least_rows, self._most_rows) / rate

    def observe(self, at_seconds: float, consumed_rows: int, *, is_busy: bool, least_rows: int) -> int | None:
        """Note what has been consumed until now; a new target, if it changes.

        Args:
            at_seconds: the time, of a clock that never goes back.
            consumed_rows: of all chunks so far.
            is_busy: is something here that is not consumed?
            least_rows: the room that the flow needs now.
        """
        seen, self._seen = self._seen, (at_seconds, consumed_rows, is_busy)
        self.least_rows = max(1, least_rows)
        if seen is None:
            return None
        before_seconds, before_rows, was_busy = seen
        rows = consumed_rows - before_rows
        self._busy_rows += rows
        if was_busy:
            self._busy_seconds += at_seconds - before_seconds
        # Only with rows: of a chunk that takes long nothing is known before its end.
        if not rows or self._busy_seconds < self._latency_seconds / _SAMPLES_PER_LATENCY:
            return None
        sample, known = self._busy_rows / self._busy_seconds, self.rows_per_second
        self._busy_seconds, self._busy_rows = 0.0, 0
        self.rows_per_second = sample if known is None else known + _NEWEST_SHARE * (sample - known)
        return self._changed(self.rows_per_second)

    def _changed(self, rows_per_second: float) -> int | None:
        most, present = self._most_rows, self.target
        target = min(max(round(rows_per_second * self._latency_seconds), self.least_rows), most)
        if target == present or (target < most and _CHANGE_SHARE * abs(target - present) < present):
            return None
        self.target = target
        return target
