"""What a trace consists of, and how it is written as lines of JSON."""

import json
from dataclasses import asdict
from typing import NamedTuple

from permitflow.protocol.messages import Permits
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import End

__all__ = ["FORMAT_VERSION", "Event", "Header", "event_prefix", "header_line", "total_line"]

FORMAT_VERSION = 1


class Header(NamedTuple):
    """Says that one end of a channel was recorded, and with which parameters the channel works."""

    channel: str
    """The name of one stream; equal at both of its ends, and different for every other stream."""

    end: End
    parameters: ChannelParameters


class Event(NamedTuple):
    """One action of the specification, as one end of a channel performed it."""

    channel: str
    end: End
    sequence: int
    """Counts the events of this end of this channel from 1, without gaps."""

    action: str
    """Spelt as in the specification."""

    rows: int
    """Rows of the chunk, or 0."""

    permits: Permits
    """Permits that the message holds or, for Flush and AddPermits, those that are returned."""


def header_line(header: Header) -> str:
    """The line that opens one end of a channel in a trace file."""
    content = {
        "permitflow_trace": FORMAT_VERSION,
        "channel": header.channel,
        "end": header.end,
        "parameters": asdict(header.parameters),
    }
    return json.dumps(content) + "\n"


def event_prefix(channel: str, end: End) -> str:
    """What all event lines of one end have in common; the rest holds only numbers and the action's name."""
    return f'{{"channel": {json.dumps(channel)}, "end": "{end}", "sequence": '


def total_line(events: int) -> str:
    """The last line of a trace file that was closed in good order."""
    return json.dumps({"permitflow_trace_events": events}) + "\n"
