"""Recordings of the channels' actions, in the specification's own terms.

A trace file holds JSON lines: for each end of each channel a header with the channel's parameters, then one line for
each action in the order in which this process performed them, and at the end a line with their number.
Nothing in it depends on clocks.  The model replays it: see ``permitflow_testing.traces``.
"""

from permitflow.tracing.events import Event, Header
from permitflow.tracing.file import FileTrace, MemoryTrace
from permitflow.tracing.reader import ChannelTrace, Trace, read_trace

__all__ = ["ChannelTrace", "Event", "FileTrace", "Header", "MemoryTrace", "Trace", "read_trace"]
