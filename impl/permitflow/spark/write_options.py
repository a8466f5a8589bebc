"""Options of ``df.write`` and ``df.writeStream``."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from uuid import uuid4

from permitflow.errors import InvalidOptionError
from permitflow.spark.options import (
    READ_ONLY_OPTIONS,
    SHARED_OPTIONS,
    STREAM_READ_OPTIONS,
    WRITE_ONLY_OPTIONS,
    ReadOptions,
    choice,
    refuse_elsewhere,
    refuse_unknown,
    shared_options,
    truth,
    value_of,
    whole_number,
)

__all__ = ["BatchKey", "Delivery", "WriteOptions"]

# Spark hands these to the sink as well: its own business.
_OF_SPARK = ("checkpointlocation", "queryname")
_KEY_OPTIONS = ("query", "batch")


class Delivery(StrEnum):
    """When rows become visible."""

    DIRECT = "direct"
    """As soon as they are there: a stream.  A task that is repeated fails the job."""
    STAGED = "staged"
    """When all tasks have succeeded, all at once, and once whatever is repeated."""


@dataclass(frozen=True, kw_only=True)
class BatchKey:
    """What is published once."""

    query: str
    batch: int


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """What a writer needs to know."""

    exchange: ReadOptions
    """Which channels, where, and how long to wait."""

    chunk_rows: int
    """The most rows of one chunk; 0 sends Spark's Arrow batches as they are."""

    ends_stream: bool
    """Does the job's commit end the channels for their readers?"""

    delivery: Delivery = Delivery.DIRECT

    key: BatchKey | None = None
    """Of a staged batch job; None: a key of its own."""

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
            reason = "is for batch jobs only: a streaming query never knows that it was its last batch"
            raise InvalidOptionError(option="end", value=options["end"], reason=reason)
        known = SHARED_OPTIONS + WRITE_ONLY_OPTIONS + _OF_SPARK
        return _parsed(options, Delivery.STAGED, known, ends_stream=False)

    def batch_key(self) -> BatchKey:
        """The key of this job: the one that was given, or one that no other job has."""
        return self.key or BatchKey(query=f"job-{uuid4().hex}", batch=0)


def _parsed(
    options: Mapping[str, str], delivery: Delivery, known: tuple[str, ...], *, ends_stream: bool
) -> WriteOptions:
    refuse_elsewhere(options, READ_ONLY_OPTIONS + STREAM_READ_OPTIONS, where="reading")
    refuse_unknown(options, known=known)
    return WriteOptions(
        exchange=shared_options(options),
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
