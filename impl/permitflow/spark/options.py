"""Options of the Spark data source: strings from the user, checked once, in the driver, with the option's name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar
from uuid import uuid4

from permitflow.channels.interface import stream_channels
from permitflow.errors import InvalidOptionError, InvalidParametersError
from permitflow.protocol.compression import Compression
from permitflow.protocol.permits import ChannelParameters
from permitflow.transports.addresses import ONE_ADDRESS
from permitflow.transports.shared_memory import SameHost

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

# A producer may shuffle for a while before its first row leaves; a longer wait is most likely starvation.
DEFAULT_TIMEOUT_SECONDS = 120.0
_LONGEST_TIMEOUT_SECONDS = 86_400.0
_MOST_CHANNELS = 10_000

SHARED_OPTIONS = (
    "address",
    "stream",
    "channels",
    "timeout_seconds",
    "row_permits",
    "permit_batch",
    "trace_dir",
    "same_host",
    "compression",
)
READ_ONLY_OPTIONS = ("consumer", "channel_column")
_MAX_ROWS_OPTIONS = ("maxrowsperbatch", "max_rows_per_batch")
STREAM_READ_OPTIONS = (*_MAX_ROWS_OPTIONS, "epochs", "stall_seconds")
WRITE_ONLY_OPTIONS = ("chunk_rows", "end", "delivery", "query", "batch")

_MAX_ROWS = "maxRowsPerBatch"

# Options of Spark's own, which it passes to the sink as well.
_OF_SPARK = ("checkpointlocation", "queryname")

_KEY_OPTIONS = ("query", "batch")


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The checked options of a reader; picklable, because workers get them."""

    address: str
    """Where the exchange listens, as in ``host:port``."""
    channels: tuple[str, ...]
    """Names of the channels; one partition each."""
    timeout_seconds: float
    """The longest wait for the exchange, for a row, or for a permit."""
    wanted: ChannelParameters | None
    """Parameters to ask for; the exchange grants the smaller window.  None takes what the exchange has."""
    trace_dir: str | None
    """A folder for the recorded actions of every stream; None records nothing."""
    same_host: SameHost = SameHost.AUTO
    """Whether workers share memory with an exchange on their host."""
    compression: Compression = Compression.AUTO
    """Whether chunks are compressed between workers and an exchange on another host."""
    consumer: str = ""
    """The consumer to read as, for a channel that keeps its rows; empty: the consumer ``default``."""
    channel_column: str = ""
    """The name of a column for the channel's name, beside the columns of all channels; empty: there is none."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "ReadOptions":
        """Check the options of ``spark.read``.

        Raises:
            InvalidOptionError: an option is unknown, missing or out of its range.
        """
        _refuse_elsewhere(options, STREAM_READ_OPTIONS, where="streams")
        refuse_unknown(options, known=SHARED_OPTIONS + READ_ONLY_OPTIONS, elsewhere=WRITE_ONLY_OPTIONS, where="writing")
        return _shared_options(options)


def _refuse_elsewhere(options: Mapping[str, str], elsewhere: tuple[str, ...], *, where: str) -> None:
    """Refuse the first option that belongs to another use of a channel."""
    for option, value in options.items():
        if option.lower() in elsewhere:
            raise InvalidOptionError(option=option, value=value, reason=f"is for {where} only")


def refuse_unknown(
    options: Mapping[str, str],
    *,
    known: tuple[str, ...],
    elsewhere: tuple[str, ...] = (),
    where: str = "",
    instead: str = "stream",
) -> None:
    """Refuse the first unknown option, and suggest a similar name."""
    _refuse_elsewhere(options, elsewhere, where=where)
    for option, value in options.items():
        if option.lower() in known:
            continue
        if option.lower() == "path":
            reason = f"is not used: call load() or save() without a path and set {instead!r}"
            raise InvalidOptionError(option=option, value=value, reason=reason)
        close = get_close_matches(option.lower(), known, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise InvalidOptionError(option=option, value=value, reason=f"is unknown{meant} (known: {', '.join(known)})")


def _shared_options(options: Mapping[str, str]) -> ReadOptions:
    """The checked values of the options that reading and writing share."""
    return ReadOptions(
        address=value_of(options, "address", network_address),
        channels=_channel_names(options),
        timeout_seconds=value_of(options, "timeout_seconds", duration_seconds, DEFAULT_TIMEOUT_SECONDS),
        wanted=_wanted_parameters(options),
        trace_dir=options.get("trace_dir"),
        same_host=value_of(options, "same_host", choice(SameHost), SameHost.AUTO),
        compression=value_of(options, "compression", choice(Compression), Compression.AUTO),
        consumer=value_of(options, "consumer", _consumer_name, ""),
        channel_column=value_of(options, "channel_column", _name, ""),
    )


def value_of(options: Mapping[str, str], option: str, parse: Callable[[str], T], default: T | None = None) -> T:
    """Parse one option, or take its default.

    Raises:
        InvalidOptionError: it is missing and has no default, or ``parse`` raised ValueError with the rule.
    """
    text = options.get(option)
    if text is None:
        if default is None:
            raise InvalidOptionError(option=option, value=None, reason=f"is missing: set .option({option!r}, ...)")
        return default
    try:
        return parse(text.strip())
    except ValueError as rule:
        raise InvalidOptionError(option=option, value=text, reason=str(rule)) from None


def _channel_names(options: Mapping[str, str]) -> tuple[str, ...]:
    """The channels of ``stream``, or those listed by name."""
    stream = options.get("stream")
    text = value_of(options, "channels", str)
    if stream is not None:
        if not stream.strip():
            raise InvalidOptionError(option="stream", value=stream, reason="must be a name")
        count = value_of(options, "channels", whole_number(1, _MOST_CHANNELS))
        return stream_channels(stream.strip(), count)
    if text.lstrip("-").isdigit():
        raise InvalidOptionError(
            option="channels",
            value=text,
            reason="is a number and needs option 'stream' beside it; or list channel names, separated by commas",
        )
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise InvalidOptionError(option="channels", value=text, reason="must list names, separated by commas")
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InvalidOptionError(
            option="channels", value=text, reason=f"must name each channel once; {repeated!r} is twice in"
        )
    return names


def _wanted_parameters(options: Mapping[str, str]) -> ChannelParameters | None:
    """The window that the user asks for, if any."""
    if "row_permits" not in options:
        if "permit_batch" in options:
            batch = options["permit_batch"]
            raise InvalidOptionError(option="permit_batch", value=batch, reason="needs option 'row_permits' beside it")
        return None
    row_permits = value_of(options, "row_permits", whole_number(2, 2**31 - 1))
    permit_batch = value_of(options, "permit_batch", whole_number(1, 2**31 - 1), 0)
    try:
        return ChannelParameters(row_permits=row_permits, permit_batch=permit_batch)
    except InvalidParametersError as error:
        reason = error.message.removeprefix(error.name).strip()
        raise InvalidOptionError(option=error.name, value=None, reason=reason) from error


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """A parser for whole numbers in a range."""

    def parse(text: str) -> int:
        rule = f"must be a whole number from {least} to {most}"
        try:
            number = int(text)
        except ValueError:
            raise ValueError(rule) from None
        if not least <= number <= most:
            raise ValueError(rule)
        return number

    return parse


def duration_seconds(text: str) -> float:
    """Parse a duration."""
    rule = f"must be a number of seconds above 0 and up to {_LONGEST_TIMEOUT_SECONDS:.0f}"
    try:
        number = float(text)
    except ValueError:
        raise ValueError(rule) from None
    if not 0 < number <= _LONGEST_TIMEOUT_SECONDS:
        raise ValueError(rule)
    return number


def truth(text: str) -> bool:
    """Parse ``true`` or ``false``."""
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


def choice(kind: type[E]) -> Callable[[str], E]:
    """A parser for the words of an enumeration."""

    def parse(text: str) -> E:
        try:
            return kind(text.lower())
        except ValueError:
            raise ValueError(f"must be one of {', '.join(kind)}") from None

    return parse


def _consumer_name(text: str) -> str:
    """Check the form of a consumer's name; the exchange checks that it was declared."""
    if not text:
        raise ValueError("must be a name that the exchange knows")
    return text


def network_address(text: str) -> str:
    """Check the form ``host:port``; opening a stream shows whether an exchange listens there."""
    if "," in text:
        raise ValueError(ONE_ADDRESS)
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 65_536):
        raise ValueError("must be host:port, as in localhost:5433")
    return text


class Epochs(StrEnum):
    """Where batches of a streaming query end."""

    NONE = "none"
    """At any row, as many as there are up to a limit."""
    ALIGNED = "aligned"
    """At barriers that have come in all channels: an epoch is a batch."""


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """The checked options of a streaming source; picklable."""

    exchange: ReadOptions
    """Which channels, where, as which consumer, and how long to wait."""
    max_rows: int | None
    """Rows of a batch, over all channels; None: half the window of each channel."""
    epochs: Epochs = Epochs.NONE

    stall_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """How long a barrier may wait for channels in which nothing comes."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "StreamOptions":
        """Check the options of ``spark.readStream``.

        Raises:
            InvalidOptionError: an option is unknown, missing or out of its range.
        """
        known = SHARED_OPTIONS + READ_ONLY_OPTIONS + STREAM_READ_OPTIONS
        refuse_unknown(options, known=known, elsewhere=WRITE_ONLY_OPTIONS, where="writing")
        epochs = value_of(options, "epochs", choice(Epochs), Epochs.NONE)
        if epochs is Epochs.ALIGNED:
            reason = "cannot be combined with epochs=aligned: a batch has all rows of its epoch"
            for option in (option for option in options if option.lower() in _MAX_ROWS_OPTIONS):
                raise InvalidOptionError(option=option, value=options[option], reason=reason)
        else:
            _refuse(options, ("stall_seconds",), "needs option 'epochs' to be 'aligned'")
        return cls(
            exchange=_shared_options(options),
            max_rows=_max_rows(options),
            epochs=epochs,
            stall_seconds=value_of(options, "stall_seconds", duration_seconds, DEFAULT_TIMEOUT_SECONDS),
        )


def _max_rows(options: Mapping[str, str]) -> int | None:
    # Spark's own sources write such options in camel case, this package's in snake case; Spark does not mind the case.
    given = [option for option in options if option.lower() in _MAX_ROWS_OPTIONS]
    if not given:
        return None
    if len(given) > 1:
        raise InvalidOptionError(option=given[1], value=options[given[1]], reason=f"is the same as {given[0]!r}")
    # Spark passes option names in lower case.
    return value_of({_MAX_ROWS: options[given[0]]}, _MAX_ROWS, whole_number(1, 2**63 - 1))


class Delivery(StrEnum):
    """When rows become visible."""

    DIRECT = "direct"
    """As soon as they arrive.  A repeated task fails the job."""
    STAGED = "staged"
    """When all tasks have succeeded, all at once, and exactly once despite repeated tasks."""


@dataclass(frozen=True, kw_only=True)
class BatchKey:
    """The key under which a batch is published once."""

    query: str
    batch: int


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """The checked options of a writer."""

    exchange: ReadOptions
    """Which channels, where, and how long to wait."""
    chunk_rows: int
    """The most rows of one chunk; 0 sends Spark's Arrow batches as they are."""
    ends_stream: bool
    """Does the job's commit end the channels for their readers?"""
    delivery: Delivery = Delivery.DIRECT

    key: BatchKey | None = None
    """The key of a staged batch job; None: a new key."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "WriteOptions":
        """Check the options of ``df.write``.

        Raises:
            InvalidOptionError: an option is unknown, missing or out of its range.
        """
        delivery = value_of(options, "delivery", choice(Delivery), Delivery.DIRECT)
        if delivery is Delivery.DIRECT:
            _refuse(options, _KEY_OPTIONS, "needs option 'delivery' to be 'staged'")
        return _parsed(options, delivery, SHARED_OPTIONS + WRITE_ONLY_OPTIONS, ends_stream=True)

    @classmethod
    def parse_stream(cls, options: Mapping[str, str]) -> "WriteOptions":
        """Check the options of ``df.writeStream``.

        Raises:
            InvalidOptionError: an option is unknown, missing or out of its range, or is for batch jobs only.
        """
        if value_of(options, "delivery", choice(Delivery), Delivery.STAGED) is Delivery.DIRECT:
            reason = "must be 'staged' for a streaming query, which repeats a batch after a crash"
            raise InvalidOptionError(option="delivery", value=options["delivery"], reason=reason)
        _refuse(options, _KEY_OPTIONS, "is for batch jobs only: a streaming query has an id and numbers its batches")
        if value_of(options, "end", truth, False):
            reason = "is for batch jobs only: a streaming query does not know which batch is its last"
            raise InvalidOptionError(option="end", value=options["end"], reason=reason)
        known = SHARED_OPTIONS + WRITE_ONLY_OPTIONS + _OF_SPARK
        return _parsed(options, Delivery.STAGED, known, ends_stream=False)

    def batch_key(self) -> BatchKey:
        """The key of this job: the given one, or a new one that no other job has."""
        return self.key or BatchKey(query=f"job-{uuid4().hex}", batch=0)


def _parsed(
    options: Mapping[str, str], delivery: Delivery, known: tuple[str, ...], *, ends_stream: bool
) -> WriteOptions:
    _refuse_elsewhere(options, READ_ONLY_OPTIONS + STREAM_READ_OPTIONS, where="reading")
    refuse_unknown(options, known=known)
    return WriteOptions(
        exchange=_shared_options(options),
        chunk_rows=value_of(options, "chunk_rows", whole_number(1, 2**31 - 1), 0),
        ends_stream=value_of(options, "end", truth, ends_stream),
        delivery=delivery,
        key=_key(options),
    )


def _key(options: Mapping[str, str]) -> BatchKey | None:
    given = [option for option in _KEY_OPTIONS if option in options]
    if not given:
        return None
    if len(given) == 1:
        other = next(option for option in _KEY_OPTIONS if option not in given)
        raise InvalidOptionError(option=given[0], value=options[given[0]], reason=f"needs option {other!r} beside it")
    return BatchKey(
        query=value_of(options, "query", _name), batch=value_of(options, "batch", whole_number(0, 2**63 - 1))
    )


def _refuse(options: Mapping[str, str], names: tuple[str, ...], reason: str) -> None:
    for option in names:
        if option in options:
            raise InvalidOptionError(option=option, value=options[option], reason=reason)


def _name(text: str) -> str:
    if not text:
        raise ValueError("must be a name")
    return text
