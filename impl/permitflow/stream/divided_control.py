"""Control requests about channels that are in several places: each place gets its part, and the replies become one."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from permitflow.stream.control import (
    Acknowledge,
    AddStream,
    Changed,
    Channels,
    ControlReply,
    ControlRequest,
    Discard,
    Discarded,
    ListedChannel,
    Peek,
    Positions,
    Prepare,
    Publish,
    Published,
)
from permitflow.stream.traffic import Statistics


def about(request: ControlRequest, names: Collection[str]) -> ControlRequest:
    """The part of a request that is about these channels."""
    match request:
        case Acknowledge():
            return replace(request, rows=tuple(row for row in request.rows if row.channel in names))
        case Prepare() | Publish() | Discard():
            return replace(request, parts=tuple(part for part in request.parts if part.channel in names))
        case Peek() | AddStream():
            return request
        case _:
            return replace(request, channels=tuple(name for name in request.channels if name in names))


def merged(replies: Sequence[ControlReply[Any]], names: Sequence[str], at_seconds: float) -> ControlReply[Any]:
    """One reply out of those to the parts of a request, with the channels in the order of these names.

    ``at_seconds`` is of the asking process: clocks of several places cannot be compared.
    """
    first, *others = replies
    if not others:
        return first
    if isinstance(first, Discarded):
        return Discarded(sum(each.rows for each in replies if isinstance(each, Discarded)))
    if isinstance(first, Published):
        return next((each for each in replies if isinstance(each, Published) and each.was_published), first)
    told: dict[str, Any] = {}
    for reply in replies:
        assert isinstance(reply, Statistics | Positions | Channels | Changed), "the others are about one place"
        told |= {
            each.traffic.channel if isinstance(each, ListedChannel) else each.channel: each for each in reply.channels
        }
    in_order = tuple(told[name] for name in names if name in told)
    match first:
        case Positions():
            return Positions(in_order)
        case Channels():
            return Channels(in_order)
        case Changed():
            return Changed(in_order)
    return Statistics(at_seconds, in_order)
