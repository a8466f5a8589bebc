"""What a trace consists of, checked value by value where it is read: files may come from anywhere."""

from collections.abc import Mapping
from typing import NamedTuple

from permitflow.errors import InvalidParametersError
from permitflow.protocol.messages import Permits
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RECEIVER_ACTIONS, SENDER_ACTIONS, Counters, End

__all__ = ["FORMAT_VERSION", "Event", "Header", "check_action", "end_of", "event_of", "header_of", "text_of"]

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

    time_seconds: float | None = None
    """By the monotonic clock of the end's machine: for people, never for the order of events."""

    counters: Counters | None = None
    """What the end itself counted after the action; ``protocol.recording.COUNTERS`` names the three numbers."""


_ACTIONS_OF: dict[End, frozenset[str]] = {"sender": SENDER_ACTIONS, "receiver": RECEIVER_ACTIONS}

# As in columns of Parquet.
_NUMBERS = range(-(1 << 63), 1 << 63)


def header_of(content: Mapping[str, object]) -> Header:
    """Read a header.

    Raises:
        KeyError: something is missing.
        TypeError, ValueError: something is not what it should be.
    """
    parameters = content["parameters"]
    if not isinstance(parameters, dict):
        raise TypeError("parameters must be an object")
    for value in parameters.values():
        _require_holdable(value)
    try:
        read = ChannelParameters(**parameters)
    except InvalidParametersError as error:
        raise ValueError(str(error)) from error
    return Header(text_of(content["channel"]), end_of(content["end"]), read)


def event_of(content: Mapping[str, object], names: dict[str, str]) -> Event:
    """Read an event; ``names`` keeps one string for each name, where JSON makes a new one for every value.

    Raises:
        KeyError: something is missing.
        TypeError, ValueError: something is not what it should be.
    """
    channel, end, action = text_of(content["channel"]), end_of(content["end"]), text_of(content["action"])
    check_action(end, action)
    rows, sequence = _number(content["rows"]), _number(content["sequence"])
    permits = Permits(*_three_numbers("permits", content["permits"]))
    counted = content.get("counters")
    counters = None if counted is None else _three_numbers("counters", counted)
    seconds = content.get("time_seconds")
    if seconds is not None and not isinstance(seconds, int | float):
        raise TypeError(f"time_seconds must be a number, not {seconds!r}")
    _require_holdable(seconds)
    channel, action = names.setdefault(channel, channel), names.setdefault(action, action)
    return Event(channel, end, sequence, action, rows, permits, seconds, counters)


def check_action(end: End, action: str) -> None:
    """Refuse an action that does not happen at this end.

    Raises:
        ValueError: it does not.
    """
    if action not in _ACTIONS_OF[end]:
        raise ValueError(f"the {end} has no action {action!r}")


def end_of(value: object) -> End:
    """The name of an end.

    Raises:
        ValueError: it is none.
    """
    if value == "sender":
        return "sender"
    if value == "receiver":
        return "receiver"
    raise ValueError(f"end must be sender or receiver, not {value!r}")


def text_of(value: object) -> str:
    """A string.

    Raises:
        TypeError: it is none.
        ValueError: it cannot be written.
    """
    if not isinstance(value, str):
        raise TypeError(f"{value!r} must be a string")
    if not value.isascii():
        value.encode()  # JSON can say halves of characters, which nothing can show
    return value


def _three_numbers(name: str, value: object) -> Counters:
    if not isinstance(value, list):
        raise TypeError(f"{name} must be a list")
    if len(value) != 3:
        raise ValueError(f"{name} must be 3 numbers")
    return _number(value[0]), _number(value[1]), _number(value[2])


def _number(value: object) -> int:
    if type(value) is not int:  # true is one, and no number
        raise TypeError(f"{value!r} must be a whole number")
    _require_holdable(value)
    return value


def _require_holdable(value: object) -> None:
    if isinstance(value, int) and value not in _NUMBERS:
        raise ValueError(f"{value:,} is more than a recording can hold")
