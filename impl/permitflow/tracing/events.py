"""The records of a trace; every value is checked when it is read, because files may come from anywhere."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from permitflow.errors import InvalidParametersError
from permitflow.flows.recording import ENDS, ActionTable, End, ParameterValue, fields_of
from permitflow.flows.table import flow_named, flow_names

FORMAT_VERSION = 2


class Header(NamedTuple):
    """Opens the recording of one end of a channel, with its protocol and parameters."""

    channel: str
    """The name of one stream; equal at both of its ends, and different for every other stream."""
    end: End
    table: ActionTable
    parameters: Mapping[str, ParameterValue]


class Event(NamedTuple):
    """One action of the specification, as one end of a channel performed it."""

    channel: str
    end: End
    sequence: int
    """Counts the events of this end of this channel from 1, without gaps."""
    action: str
    """Spelt as in the specification."""
    arguments: tuple[int, ...]
    """The channel's ``ActionTable`` names them."""
    time_seconds: float | None = None
    """Read from the monotonic clock of the end's machine: for readers, never for the order of events."""
    counters: tuple[int, ...] = ()
    """The end's own counters after the action, if recorded; the channel's ``ActionTable`` names them."""


class Recording(NamedTuple):
    """The recording of one process."""

    source: str
    """Its name, for messages."""
    headers: Sequence[Header]
    events: Sequence[Event]
    is_closed: bool = True
    """Does it have its closing record?  If not, its last events may be missing."""


# As in columns of Parquet.
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def content_of(header: Header, known: set[str]) -> dict[str, object]:
    """The JSON form of a header; the first one of a protocol, which is not yet ``known``, holds its table."""
    table = header.table
    content: dict[str, object] = {
        "channel": header.channel,
        "end": header.end,
        "flow": table.flow,
        "parameters": dict(header.parameters),
    }
    if table.flow not in known:
        known.add(table.flow)
        content |= {"actions": table.actions, "counters": table.counters}
    return content


def header_of(content: Mapping[str, object], tables: dict[str, ActionTable]) -> Header:
    """Read a header; ``tables`` are those of the headers before it in the file, by protocol.

    Raises:
        KeyError: something is missing.
        TypeError, ValueError: a value is malformed.
    """
    flow = text_of(content.get("flow", "permits"))
    if "actions" in content:
        tables[flow] = _table_of(flow, content)
    elif flow not in tables:
        if flow not in flow_names():
            raise ValueError(f"no flow is named {flow!r}; known are {', '.join(flow_names())}")
        tables[flow] = flow_named(flow).table
    parameters = content["parameters"]
    if not isinstance(parameters, dict):
        raise TypeError("parameters must be an object")
    for name, value in parameters.items():
        if value is not None and not isinstance(value, str | int | float):
            raise TypeError(f"the parameter {name!r} must be plain, not {value!r}")
        _require_holdable(value)
    return Header(text_of(content["channel"]), end_of(content["end"]), tables[flow], parameters)


def _table_of(flow: str, content: Mapping[str, object]) -> ActionTable:
    actions, counters = _by_end(content["actions"]), _by_end(content["counters"])
    arguments: dict[End, dict[str, tuple[str, ...]]] = {}
    for end, of_end in actions.items():
        if not isinstance(of_end, dict):
            raise TypeError("actions must be an object for each end")
        arguments[end] = {text_of(action): _names(names) for action, names in of_end.items()}
    try:
        return ActionTable(flow, arguments, {end: _names(names) for end, names in counters.items()})
    except InvalidParametersError as error:
        raise ValueError(str(error)) from error


def _by_end(content: object) -> dict[End, object]:
    if not isinstance(content, dict):
        raise TypeError("actions and counters must be objects")
    return {end: content[end] for end in ENDS}


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("names must be a list")
    return tuple(text_of(name) for name in value)


class Shape(NamedTuple):
    """What the events of an action at one end of a channel have in common."""

    channel: str
    end: End
    action: str
    fields: tuple[tuple[str, int], ...]
    """The names of the arguments of ``fields_of``."""
    counters: int
    """How many there are."""


def shape_of(content: Mapping[str, object], table: ActionTable) -> Shape:
    """The shape of an event.

    Raises:
        KeyError: something is missing.
        TypeError, ValueError: a value is malformed.
    """
    channel, end, action = text_of(content["channel"]), end_of(content["end"]), text_of(content["action"])
    return Shape(channel, end, action, fields_of(arguments_of(table, end, action)), len(table.counters[end]))


def event_of(content: Mapping[str, Any], shape: Shape) -> Event:
    """Read an event of this shape.

    Raises:
        KeyError: something is missing.
        TypeError, ValueError: a value is malformed.
    """
    arguments: list[int] = []
    for name, parts in shape.fields:
        if parts:
            arguments += _listed(name, content[name], parts)
        else:
            arguments.append(content[name])
    sequence, counted, seconds = content["sequence"], content.get("counters"), content.get("time_seconds")
    counters = () if counted is None else tuple(_listed("counters", counted, shape.counters))
    for number in (sequence, *arguments, *counters):
        # bool is a subclass of int, but no number.
        if type(number) is not int or not _LEAST <= number <= _MOST:
            _refuse(number)
    if type(seconds) is not float and seconds is not None:
        if not isinstance(seconds, int):
            raise TypeError(f"time_seconds must be a number, not {seconds!r}")
        _require_holdable(seconds)
    return Event(shape.channel, shape.end, sequence, shape.action, tuple(arguments), seconds, counters)


def _listed(name: str, value: object, count: int) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{name} must be a list")
    if len(value) != count:
        raise ValueError(f"{name} must be {count} numbers")
    return value


def _refuse(value: object) -> NoReturn:
    if type(value) is not int:
        raise TypeError(f"{value!r} must be a whole number")
    raise ValueError(f"{value:,} is more than a recording can hold")


def arguments_of(table: ActionTable, end: End, action: str) -> tuple[str, ...]:
    """The names of an action's arguments.

    Raises:
        ValueError: the action does not happen at this end.
    """
    names = table.actions[end].get(action)
    if names is None:
        raise ValueError(f"the {end} has no action {action!r}; it has {', '.join(table.actions[end])}")
    return names


def end_of(value: object) -> End:
    """The name of an end.

    Raises:
        ValueError: no end has this name.
    """
    for end in ENDS:
        if value == end:
            return end
    raise ValueError(f"end must be sender or receiver, not {value!r}")


def text_of(value: object) -> str:
    """A string.

    Raises:
        TypeError: it is no string.
        ValueError: it cannot be written.
    """
    if not isinstance(value, str):
        raise TypeError(f"{value!r} must be a string")
    if not value.isascii():
        value.encode()  # JSON allows lone surrogates, which cannot be printed
    return value


def _require_holdable(value: object) -> None:
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        _refuse(value)
