"""Records into memory: for tests, and for looking at the last moments of a run."""

from collections import Counter, deque
from time import monotonic

from permitflow.errors import InvalidParametersError
from permitflow.protocol.messages import Permits
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import Counters, End, Recorder
from permitflow.tracing.events import Event, Header
from permitflow.tracing.file import recorder_of_both
from permitflow.tracing.reader import Recording, Trace, assemble

__all__ = ["MemoryTrace"]


class MemoryTrace:
    """A bounded ring of events: the newest ``limit`` of them are kept, of all channels together."""

    def __init__(self, *, limit: int = 1_000_000) -> None:
        """Start empty.

        Raises:
            InvalidParametersError: ``limit`` is not positive.
        """
        if limit < 1:
            raise InvalidParametersError(name="limit", value=limit, rule="must be at least 1")
        self._headers: list[Header] = []
        self._ring: deque[Event] = deque(maxlen=limit)
        self._recorded: Counter[tuple[str, End]] = Counter()

    @property
    def events(self) -> tuple[Event, ...]:
        """What is kept, in the order in which this process did it."""
        return tuple(self._ring)

    @property
    def dropped(self) -> int:
        """Events that the ring could not keep."""
        return self._recorded.total() - len(self._ring)

    def recorder(self, channel: str, end: End, parameters: ChannelParameters) -> Recorder:
        """Open one end of a channel; a ``RecorderFactory``.

        Raises:
            InvalidParametersError: this end of this channel was opened before.
        """
        if any(header[:2] == (channel, end) for header in self._headers):
            raise InvalidParametersError(
                name="channel", value=channel, rule=f"must be new to the trace ({end} is recorded)"
            )
        self._headers.append(Header(channel, end, parameters))
        counts, key, keep = self._recorded, (channel, end), self._ring.append

        def record(action: str, rows: int, permits: Permits, counters: Counters | None = None) -> None:
            counts[key] = sequence = counts[key] + 1
            keep(Event(channel, end, sequence, action, rows, permits, monotonic(), counters))

        return record

    def recorder_of_both(self, channel: str, parameters: ChannelParameters) -> Recorder:
        """Open both ends of a channel that lives in this process; the action tells the end.

        Raises:
            InvalidParametersError: this channel was opened before.
        """
        return recorder_of_both(
            self.recorder(channel, "sender", parameters), self.recorder(channel, "receiver", parameters)
        )

    def trace(self) -> Trace:
        """What was recorded until now, as if it had been read from a file."""
        return assemble([Recording("memory", self._headers, self.events)])
