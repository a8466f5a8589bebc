"""Options of calls from Spark: strings from the user, checked once, in the driver, with the option's name."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from permitflow.errors import InvalidOptionError
from permitflow.spark.options import (
    choice,
    duration_seconds,
    network_address,
    refuse_unknown,
    truth,
    value_of,
    whole_number,
)

CALL_OPTIONS = (
    "address",
    "method",
    "module",
    "serializer",
    "deserializer",
    "channel",
    "deadline_seconds",
    "repeatable",
)
CALL_READ_OPTIONS = ("request", "rows", "window_bytes", "batch_messages", "batch_seconds", "max_messages")
CALL_STREAM_READ_OPTIONS = ("delivery",)
CALL_WRITE_OPTIONS = ("message",)
_OF_SPARK = ("checkpointlocation", "queryname")

_MOST = 2**31 - 1
_WITHOUT_MODULE = ("serializer", "deserializer")


class CallDelivery(StrEnum):
    """What a streaming query gets of a call, whatever is restarted."""

    AT_MOST_ONCE = "at-most-once"
    """What was read and not processed is lost: a call cannot be rewound."""
    EXACTLY_ONCE = "exactly-once"
    """The call is made again, and what was processed is skipped: the service must answer the same again."""


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """How to make a call; picklable."""

    address: str
    method: str
    """``package.Service/Method``"""
    module: str
    """The name of the generated module with the service; empty: the functions below serialize."""
    serializer: str
    deserializer: str
    channel: str
    """A function that opens the channel; empty: one without TLS."""
    deadline_seconds: float | None
    repeatable: bool
    """May a call be made again: does the service answer the same again, or take the same rows again?"""


@dataclass(frozen=True, kw_only=True)
class ReadCallOptions:
    """The checked options of a reader."""

    call: CallOptions
    requests: tuple[str, ...]
    """A call for each: JSON of the request, or any text for an own serializer."""
    rows: str
    """A function from a message to its rows; empty: the message's fields are the columns."""
    window_bytes: int
    batch_messages: int
    batch_seconds: float
    max_messages: int | None
    delivery: CallDelivery | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streams: bool = False) -> "ReadCallOptions":
        """Check the options of ``spark.read``, or of ``spark.readStream``.

        Raises:
            InvalidOptionError: an option is unknown, missing or out of its range, or asks for more than can be had.
        """
        known = CALL_OPTIONS + CALL_READ_OPTIONS + (CALL_STREAM_READ_OPTIONS if streams else ())
        elsewhere = CALL_WRITE_OPTIONS + (() if streams else CALL_STREAM_READ_OPTIONS)
        where = "writing" if streams else "writing, or for streaming queries"
        refuse_unknown(options, known=known, elsewhere=elsewhere, where=where, instead="method")
        call = _call(options)
        requests = _requests(options, call)
        return cls(
            call=call,
            requests=requests,
            rows=value_of(options, "rows", _function_name, ""),
            window_bytes=value_of(options, "window_bytes", whole_number(5, _MOST), 65_536),
            batch_messages=value_of(options, "batch_messages", whole_number(1, _MOST), 1_000),
            batch_seconds=value_of(options, "batch_seconds", duration_seconds, 1.0),
            max_messages=_max_messages(options, streams=streams),
            delivery=_delivery(options, call, requests) if streams else None,
        )


@dataclass(frozen=True, kw_only=True)
class WriteCallOptions:
    """The checked options of a writer."""

    call: CallOptions
    message: str
    """A function from a row to its message; empty: the columns are the message's fields."""

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streams: bool = False) -> "WriteCallOptions":
        """Check the options of ``df.write``, or of ``df.writeStream``.

        Raises:
            InvalidOptionError: an option is unknown, missing or out of its range; or a streaming query, which repeats a
                batch after a crash, writes to a service that does not take rows again.
        """
        known = CALL_OPTIONS + CALL_WRITE_OPTIONS + (_OF_SPARK if streams else ())
        refuse_unknown(
            options,
            known=known,
            elsewhere=CALL_READ_OPTIONS + CALL_STREAM_READ_OPTIONS,
            where="reading",
            instead="method",
        )
        call, message = _call(options), value_of(options, "message", _function_name, "")
        if streams and not call.repeatable:
            reason = "must be 'true' for a streaming query: it writes a batch again after a crash (at least once)"
            raise InvalidOptionError(option="repeatable", value=options.get("repeatable"), reason=reason)
        if not call.module and not message:
            reason = "is missing: without option 'module', a function makes the message of a row"
            raise InvalidOptionError(option="message", value=None, reason=reason)
        return cls(call=call, message=message)


def _call(options: Mapping[str, str]) -> CallOptions:
    module = value_of(options, "module", _module_name, "")
    codec = {option: value_of(options, option, _function_name, "") for option in _WITHOUT_MODULE}
    for option, name in codec.items():
        if module and name:
            raise InvalidOptionError(option=option, value=name, reason="cannot be combined with option 'module'")
        if not module and not name:
            both = "is missing: name the generated module with option 'module', or functions with 'serializer' and"
            raise InvalidOptionError(option=option, value=None, reason=f"{both} 'deserializer'")
    return CallOptions(
        address=value_of(options, "address", network_address),
        method=value_of(options, "method", _method_name),
        module=module,
        **codec,
        channel=value_of(options, "channel", _function_name, ""),
        deadline_seconds=value_of(options, "deadline_seconds", duration_seconds)
        if "deadline_seconds" in options
        else None,
        repeatable=value_of(options, "repeatable", truth, False),
    )


def _requests(options: Mapping[str, str], call: CallOptions) -> tuple[str, ...]:
    text = value_of(options, "request", str, "{}" if call.module else "")
    if not call.module:
        return (text,)
    try:
        given = json.loads(text)
    except ValueError as error:
        raise InvalidOptionError(option="request", value=text, reason=f"must be JSON ({error})") from None
    requests = given if isinstance(given, list) else [given]
    if not requests or not all(isinstance(request, dict) for request in requests):
        reason = "must be a JSON object, or a list of objects: a call, and a partition, for each"
        raise InvalidOptionError(option="request", value=text, reason=reason)
    return tuple(map(json.dumps, requests))


def _max_messages(options: Mapping[str, str], *, streams: bool) -> int | None:
    if "max_messages" not in options:
        return None
    if streams:
        reason = "is for batch jobs only: a streaming batch has at most 'batch_messages'"
        raise InvalidOptionError(option="max_messages", value=options["max_messages"], reason=reason)
    return value_of(options, "max_messages", whole_number(1, 2**63 - 1))


def _delivery(options: Mapping[str, str], call: CallOptions, requests: tuple[str, ...]) -> CallDelivery:
    if len(requests) > 1:
        reason = "must be a single object for a streaming query, which reads one call"
        raise InvalidOptionError(option="request", value=options["request"], reason=reason)
    hint = (
        "a call cannot be rewound, so a batch that a crash interrupts is lost: say 'at-most-once'; or 'exactly-once' "
        "with 'repeatable' true, if the service answers the same request with the same messages again; or let the "
        "service write into an exchange that keeps its rows (permitflow serve --retention replay)"
    )
    if "delivery" not in options:
        raise InvalidOptionError(option="delivery", value=None, reason=f"is missing: {hint}")
    try:
        delivery = choice(CallDelivery)(options["delivery"].strip())
    except ValueError as rule:
        raise InvalidOptionError(option="delivery", value=options["delivery"], reason=f"{rule}: {hint}") from None
    if delivery is CallDelivery.EXACTLY_ONCE and not call.repeatable:
        raise InvalidOptionError(option="delivery", value=delivery.value, reason=f"cannot be had: {hint}")
    return delivery


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
