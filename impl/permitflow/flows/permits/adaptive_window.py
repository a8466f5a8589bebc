"""Which window a receiver should aim at, so that what is in the channel waits no longer than wanted.

The target is the consumer's measured throughput times the wanted latency, as in Flink's buffer debloating.  Time in
which nothing is here to consume is not counted: a consumer that waits is not slow.  A target leaves room for two of the
largest chunks that came, because with less the sender would wait while one of them is consumed.

This class only measures and decides; ``PermitReceiver.resize`` does it (docs/protocols/adaptive-window.md).
"""

from typing import NamedTuple

from permitflow.errors import InvalidParametersError
from permitflow.flows.permits.parameters import BATCH_SHARE, ChannelParameters

__all__ = ["AdaptiveWindow", "Aim", "require_latency"]

_SAMPLES_PER_LATENCY = 4
_NEWEST_SHARE = 0.5
"""Of the newest sample in the smoothed throughput: it follows a change within a few samples, so about one latency."""
_LEAST_CHANGE = 1 / 8
"""A target that differs by less is no change."""
_CHUNKS_IN_TARGET = 2


class Aim(NamedTuple):
    """What ``PermitReceiver.resize`` gets."""

    target: int
    """Row permits that shall circulate."""
    batch: int
    """Row permits that return at once."""


def require_latency(seconds: object, *, name: str = "target_latency_seconds") -> float:
    """Check a wanted latency that a caller gave.

    Raises:
        InvalidParametersError: it is not a number above 0 and at most an hour.
    """
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds <= 3600:
        return float(seconds)
    raise InvalidParametersError(name=name, value=seconds, rule="must be a number of seconds, above 0 and at most 3600")


class AdaptiveWindow:
    """Measures a consumer, and says when its receiver should aim at another window."""

    __slots__ = ("_busy_rows", "_busy_seconds", "_latency_seconds", "_parameters", "_seen", "aim", "rows_per_second")

    def __init__(self, parameters: ChannelParameters, latency_seconds: float) -> None:
        """Nothing is measured yet: the aim is the agreed window.

        Raises:
            InvalidParametersError: as ``require_latency``.
        """
        self._parameters = parameters
        self._latency_seconds = require_latency(latency_seconds)
        self._seen: tuple[float, int, bool] | None = None
        self._busy_seconds, self._busy_rows = 0.0, 0
        self.rows_per_second: float | None = None
        """What the consumer consumes while there is something; None: not measured yet."""
        self.aim = Aim(parameters.row_permits, parameters.permit_batch)
        """The present one."""

    def observe(self, at_seconds: float, consumed_rows: int, *, is_busy: bool, largest_cost: int) -> Aim | None:
        """Note what has been consumed until now; a new aim, if it changes.

        Args:
            at_seconds: the time, of a clock that never goes back.
            consumed_rows: of all chunks so far.
            is_busy: is something here that is not consumed?
            largest_cost: permits of the largest chunk that has come.
        """
        seen, self._seen = self._seen, (at_seconds, consumed_rows, is_busy)
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
        return self._changed(self.rows_per_second, largest_cost)

    def _changed(self, rows_per_second: float, largest_cost: int) -> Aim | None:
        most = self._parameters.row_permits
        wanted = max(round(rows_per_second * self._latency_seconds), _CHUNKS_IN_TARGET * largest_cost, 1)
        target, present = min(wanted, most), self.aim.target
        if target == present or (target < most and abs(target - present) < _LEAST_CHANGE * present):
            return None
        self.aim = Aim(target, min(self._parameters.permit_batch, max(1, target // BATCH_SHARE)))
        return self.aim
