"""Batches that came together, as fewer or as somebody's own; never so many in one that it could not hold them."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from math import inf

import pyarrow as pa

from permitflow.transports.arrow import MAX_CHUNK_BYTES, BatchCodec

__all__ = ["joined", "owned", "runs"]


def runs(
    batches: Sequence[pa.RecordBatch],
    size_of: Callable[[pa.RecordBatch], int],
    *,
    most_bytes: int,
    small_bytes: float = inf,
    most_rows: float = inf,
) -> Iterator[Sequence[pa.RecordBatch]]:
    """All batches, in order: neighbours together that may be one, as long as each is small, and all of them bounded.

    Args:
        batches: of one schema.
        size_of: bytes of a batch.
        most_bytes: of a run of several batches.
        small_bytes: a batch that takes more stays by itself.
        most_rows: of a run of several batches.
    """
    start = rows = size_bytes = 0
    was_small = False
    for position, batch in enumerate(batches):
        own_bytes = size_of(batch)
        is_small = own_bytes <= small_bytes
        is_full = size_bytes + own_bytes > most_bytes or rows + batch.num_rows > most_rows
        if position > start and (is_full or not (is_small and was_small)):
            yield batches[start:position]
            start, rows, size_bytes = position, 0, 0
        rows += batch.num_rows
        size_bytes += own_bytes
        was_small = is_small
    if start < len(batches):
        yield batches[start:]


def joined(batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """The same rows in one batch; as they came, if one cannot hold that many values."""
    if len(batches) == 1:
        return batches
    try:
        return [pa.concat_batches(batches)]
    except pa.ArrowInvalid:
        # Lists of nulls take no bytes, and yet more than offsets of 32 bits can count.
        return batches


def owned(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same batches in memory that nobody else has."""
    if not batches:
        return []
    codec = BatchCodec(batches[0].schema)
    if not codec.can_join:
        return [codec.decode(b"".join(codec.encode([batch])), [batch.num_rows]) for batch in batches]
    copied = (_copied(run) for run in runs(batches, codec.size_of, most_bytes=MAX_CHUNK_BYTES))
    return [batch for run in copied for batch in run]


def _copied(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    # With something to join, Arrow copies; one batch alone would stay where it is.
    together = joined([*batches, batches[0].slice(0, 0)])
    if len(together) > 1:
        return [copy for batch in batches for copy in _copied([batch])]
    ends = accumulate(batch.num_rows for batch in batches)
    return [together[0].slice(end - batch.num_rows, batch.num_rows) for batch, end in zip(batches, ends, strict=True)]
