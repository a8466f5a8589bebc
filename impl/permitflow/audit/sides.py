"""One end of one channel: what is known of its parts, and its events once more, if they must be looked at closely."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from permitflow.audit.boundaries import Boundary, joined
from permitflow.audit.columns import Events, events_of
from permitflow.audit.summary import Summary
from permitflow.audit.units import Unit, read_unit
from permitflow.errors import TraceUnreadableError
from permitflow.protocol.parameters import ChannelParameters

__all__ = ["Side"]


@dataclass(slots=True)
class Side:
    """The parts of an end in order, and what they come to."""

    parameters: Mapping[str, ChannelParameters]
    """Of all channels: a part may hold several."""

    parts: list[tuple[Unit, Summary]] = field(default_factory=list)
    whole: Summary | None = None

    def add(self, unit: Unit, summary: Summary) -> Boundary:
        """The part that follows; and where it meets those before."""
        parameters = self.parameters[summary.channel]
        boundary = Boundary(self.whole, summary, parameters)
        self.parts.append((unit, summary))
        self.whole = summary if self.whole is None else joined(self.whole, summary, parameters)
        return boundary

    def read(self, number: int) -> Events:
        """The events of one part, read again.

        Raises:
            TraceUnreadableError: the file is gone, or is another one now.
        """
        unit, summary = self.parts[number]
        for events in events_of(read_unit(unit), self.parameters, source=unit.name):
            if events.end == summary.end and summary.channel in events.channels:
                return events.of(summary.channel)
        raise self.changed(number)

    def changed(self, number: int) -> TraceUnreadableError:
        """The events of a part are not those that were summed up."""
        unit, _ = self.parts[number]
        return TraceUnreadableError(path=unit.path, line=0, reason="it was changed while it was audited")
