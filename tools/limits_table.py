"""The table of limits in docs/guides/limits.md: those that ``permitflow serve`` has options for, and the others.

    python -m tools.limits_table      writes the table again

A test compares the document with what this would write.
"""

from pathlib import Path
from typing import Final

from permitflow.carriers.connection import HARD_METADATA_BYTES, METADATA_BYTES, MOST_CALLS, MOST_PENDING
from permitflow.carriers.datagrams.packets import MOST_WINDOW
from permitflow.carriers.resumption import MOST_UNTOLD, MOST_UNTOLD_BYTES
from permitflow.errors import (
    InvalidParametersError,
    OverspendError,
    PermitflowError,
    TooManyAttemptsError,
    TooManyProducersError,
    TooManyTasksError,
    UndecodableDataError,
)
from permitflow.exchange.books.attempts import MOST_TASKS
from permitflow.exchange.books.kept_barriers import MOST_BARRIERS
from permitflow.exchange.books.replay import MOST_PRODUCERS
from permitflow.exchange.books.staging import MOST_ATTEMPTS, MOST_QUERIES
from permitflow.exchange.limits import OPTIONS, Limit
from permitflow.names import MOST_NAME_CHARACTERS
from permitflow.stream.control import MOST_CHANNELS, MOST_PEEKED, MOST_PUBLISHED
from permitflow.wire.arrow import MAX_MESSAGE_BYTES
from permitflow.wire.arrow_compression import MOST_EXPANSION
from permitflow.wire.arrow_metadata import MAX_DICTIONARIES, MAX_SCHEMA_BYTES, MAX_SCHEMA_FIELDS, MOST_CUSTOM_BYTES
from permitflow.wire.codec import MOST_EMPTY_CHUNKS, MOST_FRAMES, MOST_FRAMES_BYTES, MOST_MARKER_BYTES
from permitflow.wire.control_codec import MOST_REPLY_BYTES, MOST_REQUEST_BYTES
from tools.marks import pasted

DOCUMENT = Path(__file__).resolve().parent.parent / "docs/guides/limits.md"


def _fixed(what: str, most: int, beyond: type[PermitflowError] | None, why: str, unit: str = "") -> Limit:
    return Limit("", what, most, unit, beyond, why)


_Undecodable, _Invalid = UndecodableDataError, InvalidParametersError

FIXED: Final = (
    _fixed(
        "a message of a producer",
        MAX_MESSAGE_BYTES,
        _Undecodable,
        "copying and decoding it takes the exchange 2 to 3 ms for each MiB; gRPC's own word beyond it is "
        "RESOURCE_EXHAUSTED",
        "bytes",
    ),
    _fixed(
        "a message without its record batches",
        MOST_FRAMES_BYTES,
        _Undecodable,
        "all of a consumer's; a schema, and 64 KiB for the rest",
        "bytes",
    ),
    _fixed(
        "frames of a message", MOST_FRAMES, _Undecodable, "each takes some microseconds to decode, however short it is"
    ),
    _fixed(
        "empty chunks of a message",
        MOST_EMPTY_CHUNKS,
        _Undecodable,
        "each takes a byte, and as much work as a full one",
    ),
    Limit("", "chunks of a message", None, "", OverspendError, "no more than the producer has permits"),
    _fixed(
        "a schema", MAX_SCHEMA_BYTES, _Undecodable, "serialised, also if its fields share names or metadata", "bytes"
    ),
    _fixed(
        "fields of a schema",
        MAX_SCHEMA_FIELDS,
        _Undecodable,
        "with those inside of others: an end prepares itself for each, 5 ms for a thousand",
    ),
    _fixed(
        "dictionaries of a schema",
        MAX_DICTIONARIES,
        _Undecodable,
        "each chunk brings all of them again: 10 ms for a thousand",
    ),
    _fixed(
        "metadata of a batch",
        MOST_CUSTOM_BYTES,
        _Undecodable,
        "beside its columns, of which it has as many as its schema, and whose buffers share no bytes: Arrow copies "
        "what is shared for each that refers to it",
        "bytes",
    ),
    _fixed(
        "a decompressed batch, for each compressed byte",
        MOST_EXPANSION,
        _Undecodable,
        "a few bytes could become gigabytes; it may also take no more than an uncompressed one",
        "bytes",
    ),
    _fixed(
        "what a barrier or watermark carries",
        MOST_MARKER_BYTES,
        _Undecodable,
        "it travels among the frames; our own producers get `InvalidParametersError`, and send nothing",
        "bytes",
    ),
    _fixed("barriers that a channel keeps", MOST_BARRIERS, None, "their producers wait; of a channel with replay"),
    _fixed(
        "a control request",
        MOST_REQUEST_BYTES,
        _Undecodable,
        "it is carried out in one go; over gRPC all that a client sends ahead of their replies have as much together",
        "bytes",
    ),
    _fixed(
        "channels or discarded attempts of a control request",
        MOST_CHANNELS,
        _Invalid,
        "each channel once: 10 to 60 ms for a thousand; our clients split larger requests",
    ),
    _fixed(
        "attempts of a publication",
        MOST_PUBLISHED,
        _Invalid,
        "it cannot be split, and the largest takes 0.3 s: write to fewer channels, or in fewer partitions",
    ),
    _fixed("channels of a stream that is added", MOST_CHANNELS, _Invalid, "more at the start: permitflow serve"),
    _fixed("rows of a peek", MOST_PEEKED, _Invalid, "fewer come if they take more than 8 MiB"),
    _fixed(
        "a reply",
        MOST_REPLY_BYTES,
        _Invalid,
        "positions of channels come with their schemas: ask for fewer channels at a time. An acknowledgement or a "
        "close whose reply is too large was still carried out, and may be repeated in portions",
        "bytes",
    ),
    _fixed(
        "a name of a producer, a query or an attempt",
        MOST_NAME_CHARACTERS,
        _Invalid,
        "it is stored; an unknown channel or consumer of a longer name is refused as well",
        "characters",
    ),
    _fixed(
        "named producers of a channel, ever",
        MOST_PRODUCERS,
        TooManyProducersError,
        "the channel remembers the position of each",
    ),
    _fixed(
        "attempts that are neither published nor given up",
        MOST_ATTEMPTS,
        TooManyAttemptsError,
        "of all queries: each is remembered, though it has no rows",
    ),
    _fixed("queries whose last batch is remembered", MOST_QUERIES, None, "those that published most recently"),
    _fixed(
        "tasks of Spark jobs that write directly",
        MOST_TASKS,
        TooManyTasksError,
        "of a single job; of several, whole jobs are forgotten, first the one that began first and has no open "
        "stream. The exchange takes rows of one attempt at each. A forgotten job that still runs fails at its end; a "
        "late attempt of one that has ended is taken for a new task, if the channel is still open",
    ),
    _fixed(
        "messages that an end has not acknowledged, of a stream that can resume",
        MOST_UNTOLD,
        None,
        f"or {MOST_UNTOLD_BYTES >> 20} MiB of them: then it must acknowledge. The other end keeps those that are not; "
        "the permits bound them",
    ),
    _fixed(
        "metadata of a gRPC call",
        METADATA_BYTES,
        None,
        f"from there on calls are refused by chance, from {HARD_METADATA_BYTES >> 10} KiB on all, by gRPC itself with "
        "RESOURCE_EXHAUSTED, and with `UndecodableDataError` until a client has acknowledged the settings of HTTP/2; "
        "a client that goes on after that error is disconnected",
        "bytes",
    ),
    _fixed(
        "calls of one gRPC connection",
        MOST_CALLS,
        None,
        "at the same time; a client's library keeps further ones back until others are over: give each stream of a "
        "client with that many a connection of its own, as our clients do",
    ),
    _fixed(
        "gRPC calls that wait for the exchange",
        MOST_PENDING,
        None,
        "with their metadata; from half as many on gRPC refuses some by chance, with RESOURCE_EXHAUSTED, and our "
        "clients try again. None waits for longer than a handshake may take",
    ),
    _fixed(
        "packets under way in one direction over UDP",
        MOST_WINDOW,
        None,
        "further ones are dropped, and come again",
    ),
)
"""The limits that cannot be chosen."""


_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def _amount(limit: Limit) -> str:
    if limit.most is None:
        return ""
    if limit.unit == "bytes":
        for size, unit in _UNITS:
            if limit.most % size == 0:
                return f"{limit.most // size:,} {unit}"
    return f"{limit.most:,}{f' {limit.unit}' if limit.unit else ''}"


def _row(limit: Limit) -> str:
    beyond = f"`{limit.beyond.__name__}`" if limit.beyond else ""
    option = f"`{limit.option}`" if limit.option else ""
    return f"| {limit.what} | {_amount(limit)} | {option} | {beyond} | {limit.why} |"


def table() -> str:
    """All limits, those with options first."""
    head = ("| What | At most | Option | Beyond it | |", "|---|--:|---|---|---|")
    return "".join(f"{line}\n" for line in (*head, *map(_row, (*OPTIONS, *FIXED))))


def page(text: str) -> str:
    """The document, with the table."""
    return pasted(text, "limits", table())


if __name__ == "__main__":
    DOCUMENT.write_text(page(DOCUMENT.read_text("utf-8")), "utf-8")
