"""Options of the Spark data sources: strings from the user, checked once, in the driver, with the option's name.

Each source has a table of its options: where each may be used, and how its text is read.  Tables have Spark's spelling,
``rowPermits``; ``row_permits`` and ``ROWPERMITS`` are the same option.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import Flag, StrEnum, auto
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar
from uuid import uuid4

from permitflow.carriers.addresses import several
from permitflow.carriers.deadlines import require_seconds
from permitflow.carriers.security import SYSTEM, Security
from permitflow.carriers.shared_memory import SameHost
from permitflow.dispatch.mapping import VNODES
from permitflow.errors import InvalidOptionError, InvalidParametersError
from permitflow.flows.permits.parameters import ChannelParameters
from permitflow.names import stream_channels
from permitflow.sizes import UNITS, size
from permitflow.spark.other_sources import NO_OPTIONS, instead_of
from permitflow.spark.patience import in_words
from permitflow.spark.places import EARLIEST, LATEST, Places
from permitflow.spark.shape import RowShape
from permitflow.spark.stream_planning import BatchLimits
from permitflow.stream.compression import Compression

E = TypeVar("E", bound=StrEnum)

# A producer may shuffle for a while before its first row leaves; a longer wait is most likely starvation.
DEFAULT_TIMEOUT_SECONDS = 120.0
_LONGEST_TIMEOUT_SECONDS = 86_400.0
_MOST_CHANNELS = 10_000
MOST = 2**31 - 1
MOST_LONG = 2**63 - 1


_DELAY = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_UNIT_SECONDS = {
    name: seconds
    for names, seconds in (
        ("ms millisecond milliseconds", 0.001),
        ("s sec second seconds", 1.0),
        ("m min minute minutes", 60.0),
        ("h hour hours", 3_600.0),
        ("d day days", 86_400.0),
    )
    for name in names.split()
}


class Use(Flag):
    """What an option may be set for."""

    READ = auto()
    READ_STREAM = auto()
    WRITE = auto()
    WRITE_STREAM = auto()
    READING = READ | READ_STREAM
    WRITING = WRITE | WRITE_STREAM
    ANY = READING | WRITING


class Option(NamedTuple):
    """An option of a data source."""

    use: Use
    parse: Callable[[str], object]
    """Raises ValueError with the rule that the text breaks."""
    is_required: bool = False
    also: tuple[str, ...] = ()
    """Other names that it may have: former ones, and those of other sources for the same thing."""


OptionTable = Mapping[str, Option]
"""By name, as the guides spell it; Spark does not mind the case, and passes lower case on."""

Values = dict[str, Any]
"""Keyed by field: the option ``rowPermits`` is the field ``row_permits``."""


def folded(name: str) -> str:
    """The same text for all spellings of an option."""
    return name.replace("_", "").lower()


def field_of(name: str) -> str:
    """The field for an option."""
    return re.sub("([A-Z])", lambda found: f"_{found[0].lower()}", name)


def _by_spelling(known: OptionTable) -> dict[str, str]:
    return {folded(spelled): name for name, option in known.items() for spelled in (name, *option.also)}


def names_for(known: OptionTable, use: Use) -> list[str]:
    """The options that may be set for a use."""
    return [name for name, option in known.items() if option.use & use]


def checked(
    options: Mapping[str, str],
    known: OptionTable,
    use: Use,
    *,
    instead: str = "stream",
    elsewhere: Callable[[str], str | None] = lambda name: None,
) -> Values:
    """The values of the options that are set, by their fields.

    Args:
        options: the user's.
        known: those of the data source.
        use: what they are set for; of several uses, any may come.
        instead: the option to name to users who pass a path.
        elsewhere: says of an option of another source what to do instead; None: it has no such option.

    Raises:
        InvalidOptionError: an option is unknown, missing or out of its range, is for another use, or comes in two
            spellings.
    """
    spelled, given = _by_spelling(known), dict[str, str]()
    values = Values()
    for written, text in options.items():
        name = spelled.get(folded(written), written)
        _require_known(name, text, known, use, instead, elsewhere)
        if name in given:
            refuse(written, text, f"is the same as {given[name]!r}: set one of them")
        given[name] = written
        values[field_of(name)] = value_of(name, text, known[name].parse)
    for name in names_for(known, use):
        if known[name].is_required and name not in given:
            refuse(name, None, f"is missing: set .option({name!r}, ...){'' if options else NO_OPTIONS}")
    return values


def is_for_streams(options: Mapping[str, str], known: OptionTable) -> bool:
    """Is an option set that only a streaming reader has?  Spark does not say at ``load()`` whether that is meant."""
    spelled = _by_spelling(known)
    uses = (known[spelled[folded(name)]].use for name in options if folded(name) in spelled)
    return any(use & Use.READING == Use.READ_STREAM for use in uses)


def _require_known(
    name: str, text: str, known: OptionTable, use: Use, instead: str, elsewhere: Callable[[str], str | None]
) -> None:
    option = known.get(name)
    if option is None and name.lower() == "path":
        refuse(name, text, f"is not used: call load() or save() without a path and set {instead!r}")
    if option is None and (advice := elsewhere(name)) is not None:
        refuse(name, None, advice)  # the value may be a secret
    direction = Use.READING if use & Use.READING else Use.WRITING
    if option is None:
        # Spark does not say at load() whether a stream is meant: the right name may be one of a stream's.
        near = {folded(each): each for each in names_for(known, direction)}
        begun = [each for each in near if each.startswith(folded(name))]
        close = begun or get_close_matches(folded(name), near, n=1)
        meant = f"; did you mean {near[close[0]]!r}?" if close else ""
        refuse(name, text, f"is unknown{meant} (known: {', '.join(names_for(known, use))})")
    if not option.use & use:
        streams = "streaming queries" if use & (Use.READ | Use.WRITE) else "batch jobs"
        where = streams if option.use & direction else "writing" if direction is Use.READING else "reading"
        refuse(name, text, f"is for {where} only")


def value_of(name: str, text: str, parse: Callable[[str], object]) -> object:
    """The value of an option's text.

    Raises:
        InvalidOptionError: it breaks a rule.
    """
    try:
        return parse(text.strip())
    except InvalidOptionError:
        raise  # it has decided what to show
    except ValueError as rule:
        refuse(name, text, str(rule))


def refuse(name: str, value: object, reason: str) -> NoReturn:
    """Raise InvalidOptionError; with None, no value is shown."""
    raise InvalidOptionError(option=name, value=value, reason=reason) from None


def picked(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are fields of a dataclass."""
    return {field.name: values[field.name] for field in fields(kind) if field.name in values}


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


def number_of_bytes(text: str) -> int:
    """Parse a size: with a unit, or in bytes."""
    try:
        number = int(text) if text.isdecimal() else size(text)
    except ValueError:
        raise ValueError(f"must be a size, as in 4MiB or 4194304 ({', '.join(UNITS)})") from None
    return whole_number(1, MOST_LONG)(str(number))


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


def delay_seconds(text: str) -> float:
    """Parse a delay with a unit, as Spark's own options have it: ``15m``, ``90s``, ``1 minute``."""
    found = _DELAY.fullmatch(text.lower())
    seconds = _UNIT_SECONDS.get(found[2]) if found is not None else None
    if found is None or seconds is None:
        raise ValueError("must be a time with its unit, as in 90s or 15m (ms, s, m, h, d)")
    return duration_seconds(str(float(found[1]) * seconds))


def resume_seconds(text: str) -> float:
    """Parse the longest time without a connection; 0: streams are not resumed."""
    try:
        number = float(text)
    except ValueError:
        raise ValueError("must be a number of seconds") from None
    try:
        require_seconds(resume_seconds=number)
    except InvalidParametersError as error:
        raise ValueError(error.facts["rule"]) from None
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


def any_name(text: str) -> str:
    """Parse a name; the exchange checks that it knows a consumer."""
    if not text:
        raise ValueError("must be a name")
    return text


def column_names(text: str) -> tuple[str, ...]:
    """Parse names of columns; the rows' schema shows whether they have them."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len({*names}) < len(names):
        raise ValueError("must list names of columns, separated by commas, each of them once")
    return names


def file_or_name(text: str) -> str:
    """Parse a path on every machine of the job, or a name."""
    if not text:
        raise ValueError("must not be empty")
    return text


def readable_file(text: str) -> str:
    """Parse the path of a file, which is on this machine as well; or ``SYSTEM``."""
    if text != SYSTEM:
        try:
            Path(text).open("rb").close()
        except OSError as error:
            raise ValueError(f"must be a file that can be read ({error.strerror})") from None
    return text


def network_address(text: str) -> str:
    """Check the form ``host:port``, or several; opening a stream shows whether an exchange listens there."""
    try:
        several(text)
    except InvalidParametersError as error:
        raise ValueError(error.rule) from None
    return text


OF_SPARK: OptionTable = {
    "checkpointLocation": Option(Use.WRITE_STREAM, str),
    "queryName": Option(Use.WRITE_STREAM, str),
}
"""Options of Spark's own, which it passes to the sink as well."""


class Epochs(StrEnum):
    """Where batches of a streaming query end."""

    NONE = "none"
    """At any row, as many as there are up to a limit."""
    ALIGNED = "aligned"
    """At barriers that have come in all channels: an epoch is a batch."""


class Delivery(StrEnum):
    """When rows become visible."""

    DIRECT = "direct"
    """As soon as they arrive.  A repeated task fails the job."""
    STAGED = "staged"
    """When all tasks have succeeded, all at once, and exactly once despite repeated tasks."""


_KEY = ("query", "batch")

_OF_SECURITY = {
    "tlsCa": "ca",
    "tlsCert": "certificate",
    "tlsKey": "key",
    "tlsServerName": "server_name",
    "tokenFile": "token_file",
}
"""Paths and names only: the options of a job are in its query plan, in its event log and on Spark's pages."""


def _ending(text: str) -> Places:
    places = Places.parse(text, elsewhere=LATEST)
    if places == Places(EARLIEST):
        raise ValueError("must be latest, or row numbers as JSON: no row is before the earliest")
    return places


CHANNEL_OPTIONS: OptionTable = {
    "address": Option(Use.ANY, network_address, is_required=True),
    "stream": Option(Use.ANY, any_name),
    "channels": Option(Use.ANY, str, is_required=True),
    "timeoutSeconds": Option(Use.ANY, duration_seconds),
    "rowPermits": Option(Use.ANY, whole_number(2, MOST)),
    "permitBatch": Option(Use.ANY, whole_number(1, MOST)),
    "byteWindow": Option(Use.ANY, number_of_bytes),
    "traceDir": Option(Use.ANY, str),
    "sameHost": Option(Use.ANY, choice(SameHost)),
    "compression": Option(Use.ANY, choice(Compression)),
    "resumeSeconds": Option(Use.ANY, resume_seconds),
    **dict.fromkeys(_OF_SECURITY, Option(Use.ANY, readable_file)),
    "tlsServerName": Option(Use.ANY, file_or_name),
    "targetLatencySeconds": Option(Use.READING, duration_seconds),
    "consumer": Option(Use.READING, any_name),
    "channelColumn": Option(Use.READING, any_name),
    "includeMetadata": Option(Use.READING, truth),
    "includeTime": Option(Use.READING, truth),
    "mergeSchema": Option(Use.READING, truth),
    "columns": Option(Use.READING, column_names),
    "startingOffsets": Option(Use.READING, Places.parse),
    "endingOffsets": Option(Use.READ, _ending),
    "failOnDataLoss": Option(Use.READING, truth),
    "pushFilters": Option(Use.READ, truth),
    "minPartitions": Option(Use.READING, whole_number(1, _MOST_CHANNELS)),
    "maxPartitions": Option(Use.READING, whole_number(1, _MOST_CHANNELS)),
    "maxRowsPerTrigger": Option(
        Use.READ_STREAM, whole_number(1, MOST_LONG), also=("maxRowsPerBatch", "maxOffsetsPerTrigger")
    ),
    "maxBytesPerTrigger": Option(Use.READ_STREAM, number_of_bytes),
    "minRowsPerTrigger": Option(Use.READ_STREAM, whole_number(1, MOST_LONG), also=("minOffsetsPerTrigger",)),
    "maxTriggerDelay": Option(Use.READ_STREAM, delay_seconds),
    "epochs": Option(Use.READ_STREAM, choice(Epochs)),
    "stallSeconds": Option(Use.READ_STREAM, duration_seconds),
    "key": Option(Use.WRITING, column_names),
    "changeColumn": Option(Use.WRITING, any_name),
    "chunkRows": Option(Use.WRITING, whole_number(1, MOST)),
    "end": Option(Use.WRITING, truth),
    "delivery": Option(Use.WRITING, choice(Delivery)),
    "query": Option(Use.WRITE, any_name),
    "batch": Option(Use.WRITE, whole_number(0, MOST_LONG)),
    **OF_SPARK,
    "checkpointLocation": Option(Use.WRITING, str),  # jobs that stage in several exchanges have one, too
}
"""Options of ``format("permitflow")``."""


def _checked(options: Mapping[str, str], use: Use) -> Values:
    return checked(options, CHANNEL_OPTIONS, use, elsewhere=instead_of)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The checked options of a reader; picklable, because workers get them."""

    address: str
    """Where the exchange listens, as in ``host:port``; or several exchanges, with commas between them."""
    channels: tuple[str, ...]
    """Names of the channels; one partition each."""
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """The longest wait for the exchange, for a row, or for a permit."""
    wanted: ChannelParameters | None = None
    """Parameters to ask for; the exchange grants the smaller window.  None takes what the exchange has."""
    byte_window: int | None = None
    """The window in bytes to ask for; the exchange grants at most its own.  None takes what it has."""
    target_latency_seconds: float | None = None
    """How long rows may wait in a stream: the window adapts to that.  None: it does not."""
    trace_dir: str | None = None
    """A folder for the recorded actions of every stream; None records nothing."""
    same_host: SameHost = SameHost.AUTO
    """Whether workers share memory with an exchange on their host."""
    compression: Compression = Compression.AUTO
    """Whether chunks are compressed between workers and an exchange on another host."""
    resume_seconds: float | None = None
    """How long a stream goes on without a connection; None: as ``aio.get`` decides."""
    security: Security | None = None
    """TLS and a token; its files are read where they are used, in the driver and in the workers."""
    consumer: str = ""
    """The consumer to read as, for a channel that keeps its rows; empty: the consumer ``default``."""
    shape: RowShape = RowShape()  # noqa: RUF009 - it is frozen
    """The columns that are wanted."""
    starting: Places | None = None
    """Where a query without a checkpoint begins; None: at the consumer's first row."""
    ending: Places | None = None
    """Where a batch job ends; None: behind the last row that is there."""
    fail_on_data_loss: bool = True
    """Does a query fail where rows are lost?  False: it goes on behind them."""
    push_filters: bool = False
    """May Spark hand filters to a batch reader?"""
    min_partitions: int = 1
    """The least tasks for the rows of a batch, if it has at least as many rows."""
    max_partitions: int | None = None
    """The most tasks; None: as many as there are channels, or ``min_partitions``."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "ReadOptions":
        """Check the options of ``spark.read``.

        Raises:
            InvalidOptionError: an option is unknown, missing or out of its range.
        """
        return cls.of(_checked(options, Use.READ))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "ReadOptions":
        """The options that reading and writing share, of values that ``checked`` has returned."""
        channels = _channel_names(values)
        made = {
            "channels": channels,
            "wanted": _wanted_parameters(values),
            "security": _security(values),
            "shape": RowShape(**picked(RowShape, values)),
            "starting": _place("startingOffsets", values, channels),
            "ending": _place("endingOffsets", values, channels),
        }
        if "trace_dir" in values and "target_latency_seconds" in values:
            refuse(
                "targetLatencySeconds",
                None,
                "cannot be with option 'traceDir': recordings have a fixed window",
            )
        if values.get("max_partitions", MOST) < values.get("min_partitions", 1):
            refuse("maxPartitions", values["max_partitions"], "must be at least option 'minPartitions'")
        return cls(**{**picked(cls, values), **made})


def _place(option: str, values: Mapping[str, Any], channels: Sequence[str]) -> Places | None:
    """The rows that an option names, of these channels."""
    places: Places | None = values.get(field_of(option))
    unread = [channel for channel, _ in places.named if channel not in channels] if places is not None else []
    if unread:
        refuse(
            option, None, f"names channel {unread[0]!r}, which this query does not read: it reads {in_words(channels)}"
        )
    return places


def _channel_names(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The channels of ``stream``, or those listed by name."""
    text: str = values["channels"]
    if "stream" in values:
        try:
            return stream_channels(values["stream"], whole_number(1, _MOST_CHANNELS)(text))
        except ValueError as rule:
            refuse("channels", text, f"{rule}, beside option 'stream'; to list the names of channels, leave that out")
    if text.lstrip("-").isdigit():
        reason = "is a number and needs option 'stream' beside it; or list channel names, separated by commas"
        refuse("channels", text, reason)
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        refuse("channels", text, "must list names, separated by commas")
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        refuse("channels", text, f"must name each channel once; {repeated!r} is twice in")
    return names


def _security(values: Mapping[str, Any]) -> Security | None:
    """What an end shows and trusts, if anything is said about it."""
    fields_given = {name: values[field_of(name)] for name in _OF_SECURITY if field_of(name) in values}
    given = {_OF_SECURITY[name]: value for name, value in fields_given.items()}
    if not given:
        return None
    try:
        security = Security(**given)
        security.require_trust()
    except InvalidParametersError as error:
        name = next(name for name, field in _OF_SECURITY.items() if field == error.name)
        refuse(name, fields_given.get(name), error.rule)
    return security


def _wanted_parameters(values: Mapping[str, Any]) -> ChannelParameters | None:
    """The window that the user asks for, if any."""
    if "row_permits" not in values:
        if "permit_batch" in values:
            refuse("permitBatch", values["permit_batch"], "needs option 'rowPermits' beside it")
        return None
    try:
        return ChannelParameters(row_permits=values["row_permits"], permit_batch=values.get("permit_batch", 0))
    except InvalidParametersError as error:
        reason = error.message.removeprefix(error.name).strip().replace("row_permits", "rowPermits")
        option = next(name for name in CHANNEL_OPTIONS if field_of(name) == error.name)
        raise InvalidOptionError(option=option, value=None, reason=reason) from error


_LIMITS = ("maxRowsPerTrigger", "maxBytesPerTrigger", "minRowsPerTrigger", "maxTriggerDelay")


def _limits(values: Values) -> BatchLimits:
    by_name = ("max_rows", "max_bytes", "min_rows", "max_delay_seconds")
    given = {
        limit: values[field_of(option)]
        for limit, option in zip(by_name, _LIMITS, strict=True)
        if field_of(option) in values
    }
    limits = BatchLimits(**given)
    if limits.max_rows is not None and limits.min_rows > limits.max_rows:
        refuse("minRowsPerTrigger", limits.min_rows, "must be at most option 'maxRowsPerTrigger'")
    if "max_delay_seconds" in given and "min_rows" not in given:
        refuse("maxTriggerDelay", None, "needs option 'minRowsPerTrigger' beside it")
    return limits


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """The checked options of a streaming source; picklable."""

    exchange: ReadOptions
    """Which channels, where, as which consumer, and how long to wait."""
    limits: BatchLimits
    """How many rows a batch has."""
    epochs: Epochs = Epochs.NONE
    stall_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """How long a barrier may wait for channels in which nothing comes."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "StreamOptions":
        """Check the options of ``spark.readStream``.

        Raises:
            InvalidOptionError: an option is unknown, missing or out of its range.
        """
        values = _checked(options, Use.READ_STREAM)
        is_aligned = values.get("epochs") is Epochs.ALIGNED
        for name in _LIMITS if is_aligned else ():
            if field_of(name) in values:
                refuse(name, None, "cannot be combined with epochs=aligned: a batch has all rows of its epoch")
        if "stall_seconds" in values and not is_aligned:
            refuse("stallSeconds", values["stall_seconds"], "needs option 'epochs' to be 'aligned'")
        exchange = ReadOptions.of(values)
        if exchange.starting not in (None, Places()):
            if is_aligned:
                refuse("startingOffsets", None, "must be earliest with epochs=aligned, which begin at a barrier")
            if exchange.trace_dir is not None:
                refuse("startingOffsets", None, "must be earliest with option 'traceDir': the model skips no rows")
        if not exchange.fail_on_data_loss and is_aligned:
            refuse("failOnDataLoss", "false", "must be true with epochs=aligned: an epoch has all of its rows")
        if not exchange.fail_on_data_loss and exchange.trace_dir is not None:
            refuse("failOnDataLoss", "false", "must be true with option 'traceDir': the model skips no rows")
        if exchange.trace_dir is not None and exchange.min_partitions > 1:
            reason = "must be 1 with option 'traceDir': the model reads a range in one task"
            refuse("minPartitions", exchange.min_partitions, reason)
        return cls(exchange=exchange, limits=_limits(values), **picked(cls, values))


def _is_divided(values: Mapping[str, Any]) -> bool:
    """Are rows to be staged in several exchanges?"""
    return values["delivery"] is Delivery.STAGED and len(several(values["address"])) > 1


def _require_checkpoint(values: Mapping[str, Any]) -> None:
    """Staged rows in several exchanges are published as one by what the driver has written down."""
    if _is_divided(values) and "checkpoint_location" not in values:
        reason = (
            "is needed to stage in several exchanges: a folder that outlives the driver, in which it writes down what "
            "they have to publish"
        )
        refuse("checkpointLocation", None, reason)


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
    chunk_rows: int = 0
    """The most rows of one chunk; 0 sends Spark's Arrow batches as they are."""
    end: bool
    """Does the job's commit end the channels for their readers?"""
    delivery: Delivery
    publication: BatchKey | None = None
    """The key of a staged batch job; None: a new key."""
    key: tuple[str, ...] = ()
    """The columns by which rows are spread over the channels; none: each task writes into one channel."""
    change_column: str | None = None
    """The column that says what each row does to the key's row; None: there is none."""
    checkpoint_location: str | None = None
    """A folder in which the driver writes down what several exchanges have to publish."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "WriteOptions":
        """Check the options of ``df.write``.

        Raises:
            InvalidOptionError: an option is unknown, missing or out of its range.
        """
        values = {"delivery": Delivery.DIRECT, "end": True, **_checked(options, Use.WRITE)}
        given = [name for name in _KEY if name in values]
        if given and values["delivery"] is Delivery.DIRECT:
            refuse(given[0], values[given[0]], "needs option 'delivery' to be 'staged'")
        for name in _KEY:
            if given and name not in given:
                refuse(given[0], values[given[0]], f"needs option {name!r} beside it")
        publication = BatchKey(**picked(BatchKey, values)) if given else None
        if _is_divided(values) and publication is None:
            refuse(
                "query", None, "and 'batch' are needed to stage in several exchanges, so that a repeated job goes on"
            )
        if "checkpoint_location" in values and not _is_divided(values):
            refuse("checkpointLocation", None, "is for streaming queries, and for jobs that stage in several exchanges")
        _require_checkpoint(values)
        return cls(exchange=_keyed(values), publication=publication, **picked(cls, values))

    @classmethod
    def parse_stream(cls, options: Mapping[str, str]) -> "WriteOptions":
        """Check the options of ``df.writeStream``.

        Raises:
            InvalidOptionError: an option is unknown, missing or out of its range, or is for batch jobs only.
        """
        values = {"delivery": Delivery.STAGED, "end": False, **_checked(options, Use.WRITE_STREAM)}
        if values["delivery"] is Delivery.DIRECT:
            reason = "must be 'staged' for a streaming query, which repeats a batch after a crash"
            refuse("delivery", values["delivery"].value, reason)
        if values["end"]:
            reason = "is for batch jobs only: a streaming query does not know which batch is its last"
            refuse("end", "true", reason)
        _require_checkpoint(values)
        return cls(exchange=_keyed(values), **picked(cls, values))

    def batch_key(self) -> BatchKey:
        """The key of this job: the given one, or a new one that no other job has."""
        return self.publication or BatchKey(query=f"job-{uuid4().hex}", batch=0)


def _keyed(values: Mapping[str, Any]) -> ReadOptions:
    """Where a writer writes, after a look at its key."""
    exchange = ReadOptions.of(values)
    if "key" in values and len(exchange.channels) > VNODES:
        refuse("channels", len(exchange.channels), f"must be at most {VNODES} where rows are spread by a key")
    if "change_column" in values and "key" not in values:
        refuse("changeColumn", values["change_column"], "needs option 'key' beside it")
    return exchange
