"""Options of calls from Spark: strings from the user, checked once, in the driver, with the option's name."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from permitflow.spark.calls.metadata import Metadata, public_pairs
from permitflow.spark.options import (
    MOST,
    MOST_LONG,
    OF_SPARK,
    Option,
    OptionTable,
    Use,
    checked,
    choice,
    duration_seconds,
    field_of,
    file_or_name,
    network_address,
    number_of_bytes,
    picked,
    refuse,
    truth,
    whole_number,
)


class CallDelivery(StrEnum):
    """What a streaming query gets of a call, whatever is restarted."""

    BEST_EFFORT = "best-effort"
    """What was read and not processed is lost in a restart, and what the service sends again comes again."""
    EXACTLY_ONCE = "exactly-once"
    """The call is made again, and what was processed is skipped: the service must answer the same again."""


_DELIVERY_HINT = (
    "a call cannot be rewound: after a restart a batch may be lost, and what the service sends again comes again. Say "
    "'best-effort'; or 'exactly-once' with 'repeatable' true, if the service answers the same request with the same "
    "messages again; or let it write into an exchange that keeps its rows (permitflow serve --retention replay)"
)

# Schemes of gRPC's own, which name more than a host and a port.
_SCHEMES = ("dns:", "ipv4:", "ipv6:", "unix:", "unix-abstract:", "vsock:", "xds:")


class Nulls(StrEnum):
    """What becomes of a null where protobuf does not keep the absence of a value."""

    REFUSE = "refuse"
    """It fails the task: the service could not tell it from 0 or an empty text."""
    DEFAULT = "default"
    """The field's default: 0, false, an empty text, list or map."""


def service_address(text: str) -> str:
    """Check the address of a gRPC service: ``host:port``, or with a scheme of gRPC's as ``unix:/path``."""
    if text.startswith(_SCHEMES):
        return text
    scheme, separator, _ = text.partition("://")
    if separator:
        raise ValueError(f"must be host:port, as gRPC names a service, without {scheme}://")
    return network_address(text)


def _method_name(text: str) -> str:
    name = text.removeprefix("/")
    service, slash, method = name.partition("/")
    if not (service and slash and method) or "/" in method:
        raise ValueError("must be a method's full name, as in package.Service/Method")
    return name


def _module_name(text: str) -> str:
    if not all(part.isidentifier() for part in text.split(".")):
        raise ValueError("must be the name of a module that workers can import, as in telemetry_pb2")
    return text


def _function_name(text: str) -> str:
    module, colon, name = text.partition(":")
    if not (colon and name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise ValueError("must be a function of a module that workers can import, as in module:function")
    return text


def _delivery(text: str) -> CallDelivery:
    try:
        return choice(CallDelivery)(text)
    except ValueError as rule:
        raise ValueError(f"{rule}: {_DELIVERY_HINT}") from None


def _window_bytes(text: str) -> int:
    return whole_number(5, MOST)(str(number_of_bytes(text)))


CALL_OPTIONS: OptionTable = {
    "address": Option(Use.ANY, service_address, is_required=True),
    "method": Option(Use.ANY, _method_name, is_required=True),
    "module": Option(Use.ANY, _module_name),
    "serializer": Option(Use.ANY, _function_name),
    "deserializer": Option(Use.ANY, _function_name),
    "channel": Option(Use.ANY, _function_name),
    "deadlineSeconds": Option(Use.ANY, duration_seconds),
    "metadata": Option(Use.ANY, public_pairs),
    "metadataFile": Option(Use.ANY, file_or_name),
    "repeatable": Option(Use.ANY, truth),
    "request": Option(Use.READING, str),
    "rows": Option(Use.READING, _function_name),
    "windowBytes": Option(Use.READING, _window_bytes),
    "batchMessages": Option(Use.READING, whole_number(1, MOST)),
    "batchSeconds": Option(Use.READING, duration_seconds),
    "maxMessages": Option(Use.READ, whole_number(1, MOST_LONG)),
    "delivery": Option(Use.READ_STREAM, _delivery),
    "message": Option(Use.WRITING, _function_name),
    "nulls": Option(Use.WRITING, choice(Nulls)),
    **OF_SPARK,
}
"""Options of ``format("permitflow-grpc")``."""


_SHARED = (
    "address",
    "method",
    "module",
    "serializer",
    "deserializer",
    "channel",
    "deadlineSeconds",
    "metadata",
    "metadataFile",
    "repeatable",
    "rows",
    "windowBytes",
    "batchMessages",
    "message",
    "nulls",
)
THROUGH_OPTIONS: OptionTable = {
    **{field_of(name): CALL_OPTIONS[name]._replace(use=Use.ANY) for name in _SHARED},
    "in_flight": Option(Use.ANY, whole_number(1, MOST)),
    "one_to_one": Option(Use.ANY, truth),
    "timeout_seconds": Option(Use.ANY, duration_seconds),
}
"""Arguments of ``through``."""


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """How to make a call; picklable."""

    address: str
    method: str
    """``package.Service/Method``"""
    module: str = ""
    """The name of the generated module with the service; empty: the functions below serialize."""
    serializer: str = ""
    deserializer: str = ""
    channel: str = ""
    """A function that opens the channel; empty: one without TLS."""
    deadline_seconds: float | None = None
    metadata: Metadata = ()
    """What each call carries, in lower case."""
    metadata_file: str = ""
    """A JSON file with more of it, wherever a call is made; empty: none."""
    repeatable: bool = False
    """May a call be made again: does the service answer the same again, or take the same rows again?"""

    def __post_init__(self) -> None:
        """Require a module, or functions.

        Raises:
            InvalidOptionError: there is neither, or both.
        """
        for option in ("serializer", "deserializer"):
            name = getattr(self, option)
            if self.module and name:
                refuse(option, name, "cannot be combined with option 'module'")
            if not self.module and not name:
                both = "is missing: name the generated module with option 'module', or functions with 'serializer' and"
                refuse(option, None, f"{both} 'deserializer'")


@dataclass(frozen=True, kw_only=True)
class ReadCallOptions:
    """The checked options of a reader."""

    call: CallOptions
    requests: tuple[str, ...]
    """A call for each: JSON of the request, or any text for an own serializer."""
    rows: str = ""
    """A function from a message to its rows; empty: the message's fields are the columns."""
    window_bytes: int = 65_536
    batch_messages: int = 1_000
    batch_seconds: float = 1.0
    max_messages: int | None = None
    delivery: CallDelivery | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streams: bool = False) -> "ReadCallOptions":
        """Check the options of ``spark.read``, or of ``spark.readStream``.

        Raises:
            InvalidOptionError: an option is unknown, missing or out of its range, or asks for more than can be had.
        """
        values = checked(options, CALL_OPTIONS, Use.READ_STREAM if streams else Use.READ, instead="method")
        call = CallOptions(**picked(CallOptions, values))
        requests = _requests(values, call)
        if streams:
            _require_possible(values, call, requests)
        return cls(call=call, requests=requests, **picked(cls, values))


@dataclass(frozen=True, kw_only=True)
class WriteCallOptions:
    """The checked options of a writer."""

    call: CallOptions
    message: str = ""
    """A function from a row to its message; empty: the columns are the message's fields."""
    nulls: Nulls = Nulls.REFUSE

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streams: bool = False) -> "WriteCallOptions":
        """Check the options of ``df.write``, or of ``df.writeStream``.

        Raises:
            InvalidOptionError: an option is unknown, missing or out of its range; or a streaming query, which repeats a
                batch after a crash, writes to a service that does not take rows again.
        """
        values = checked(options, CALL_OPTIONS, Use.WRITE_STREAM if streams else Use.WRITE, instead="method")
        call = CallOptions(**picked(CallOptions, values))
        if streams and not call.repeatable:
            reason = "must be 'true' for a streaming query: it writes a batch again after a crash (at least once)"
            refuse("repeatable", "false" if "repeatable" in values else None, reason)
        require_message(values, call)
        return cls(call=call, **picked(cls, values))


@dataclass(frozen=True, kw_only=True)
class ThroughOptions:
    """The checked arguments of ``through``, which describes them; picklable."""

    call: CallOptions
    keep: tuple[str, ...]
    message: str = ""
    rows: str = ""
    nulls: Nulls = Nulls.REFUSE
    one_to_one: bool
    in_flight: int
    timeout_seconds: float
    window_bytes: int
    batch_messages: int

    @classmethod
    def of(cls, given: Mapping[str, object]) -> "ThroughOptions":
        """Check the arguments as if they were options in words; those that are empty are not set.

        Raises:
            InvalidOptionError: one is missing or out of its range, or asks for more than can be had.
        """
        texts = {name: str(value) for name, value in given.items() if name != "keep" and value not in ("", None)}
        if texts["nulls"] == Nulls.REFUSE:
            del texts["nulls"]  # as it is anyway, also beside a function
        values = checked(texts, THROUGH_OPTIONS, Use.ANY, instead="method")
        call = CallOptions(**picked(CallOptions, values))
        require_message(values, call)
        keep = given["keep"]
        if isinstance(keep, str) or not isinstance(keep, Sequence):
            refuse("keep", keep, "must be a list of columns")
        if keep and not values["one_to_one"]:
            refuse("keep", list(keep), "needs one_to_one: otherwise nobody knows to which row a response belongs")
        return cls(call=call, **{**picked(cls, values), "keep": tuple(keep)})


def require_message(values: Mapping[str, Any], call: CallOptions) -> None:
    """Require a function where no module says what a message is, and no rule for nulls where a function decides.

    Raises:
        InvalidOptionError: it is missing, or there are both.
    """
    if not call.module and "message" not in values:
        refuse("message", None, "is missing: without option 'module', a function makes the message of a row")
    if "message" in values and "nulls" in values:
        refuse("nulls", values["nulls"].value, "cannot be combined with option 'message': its function decides")


def _requests(values: Mapping[str, Any], call: CallOptions) -> tuple[str, ...]:
    text = values.get("request", "{}" if call.module else "")
    if not call.module:
        return (text,)
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        refuse("request", text, f"must be JSON ({error})")
    requests = given if isinstance(given, list) else [given]
    if not requests or not all(isinstance(request, dict) for request in requests):
        refuse("request", text, "must be a JSON object, or a list of objects: a call, and a partition, for each")
    return tuple(map(json.dumps, requests))


def _require_possible(values: Mapping[str, Any], call: CallOptions, requests: tuple[str, ...]) -> None:
    """Require of a streaming query one call, and a promise that can be kept."""
    if len(requests) > 1:
        refuse("request", values["request"], "must be a single object for a streaming query, which reads one call")
    if "delivery" not in values:
        refuse("delivery", None, f"is missing: {_DELIVERY_HINT}")
    if values["delivery"] is CallDelivery.EXACTLY_ONCE and not call.repeatable:
        refuse("delivery", values["delivery"].value, f"cannot be had: {_DELIVERY_HINT}")
