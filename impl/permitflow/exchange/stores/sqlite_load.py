"""Reads back what a durable store has of its channels."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from permitflow.errors import UndecodableDataError
from permitflow.exchange.stores.sqlite_batches import load_batches
from permitflow.exchange.stores.sqlite_staging import StoredPart, load_parts
from permitflow.exchange.stores.store import KeptChannel, KeptPart
from permitflow.protocol.control import ChannelState
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.transports.arrow import BatchCodec, read_schema

__all__ = ["StoredChannel", "load_channels"]

_CHANNELS = """
SELECT id, name, row_permits, permit_batch, max_chunk_cost, barrier_permits, oversize,
       log_id, next_row, schema, state, reason
FROM channels ORDER BY id
"""


class StoredChannel(NamedTuple):
    """A channel as it was left."""

    number: int
    """By which the tables know it."""
    parameters: ChannelParameters
    kept: KeptChannel
    batches: Sequence[tuple[int, pa.RecordBatch]] = ()
    """Each with the number of its first row, in order."""
    parts: Sequence[StoredPart] = ()
    """Attempts, in the order of ``load_parts``."""

    @property
    def first_kept_row(self) -> int:
        """The first row that some consumer has not acknowledged."""
        return min((self.kept.acknowledged or {}).values(), default=self.kept.next_row)


def load_channels(connection: sqlite3.Connection) -> dict[str, StoredChannel]:
    """All channels by their names.

    Raises:
        ValueError: something is missing, or is not what it was; the message says of which channel.
    """
    channels = {name: _loaded(connection, number, name, *rest) for number, name, *rest in connection.execute(_CHANNELS)}
    ((batches,),) = connection.execute("SELECT count(*) FROM batches")
    ((named,),) = connection.execute("SELECT count(*) FROM (SELECT batch FROM kept UNION SELECT batch FROM staged)")
    if batches != named:
        raise ValueError(f"{batches} batches are there, and {named} are named")
    return channels


def _loaded(
    connection: sqlite3.Connection,
    number: int,
    name: str,
    row_permits: int,
    permit_batch: int,
    max_chunk_cost: int,
    barrier_permits: int,
    oversize: str,
    log_id: str,
    next_row: int,
    schema: bytes | None,
    state: str,
    reason: str,
) -> StoredChannel:
    try:
        codec = None if schema is None else BatchCodec(read_schema(schema))
        batches = [] if codec is None else list(load_batches(connection, codec, number))
        parts = [] if codec is None else list(load_parts(connection, codec, number))
    except (ValueError, UndecodableDataError) as error:
        raise ValueError(f"channel {name!r}: {error}") from error
    kept = KeptChannel(
        log_id=log_id,
        next_row=next_row,
        acknowledged=_numbers(connection, "SELECT name, acknowledged_row FROM consumers WHERE channel = ?", number),
        producers=_numbers(connection, "SELECT name, rows FROM producers WHERE channel = ?", number),
        schema=None if codec is None else codec.schema,
        state=ChannelState(state),
        reason=reason,
        staged=tuple(
            KeptPart(staging=part.staging, chunk_rows=tuple(chunk.num_rows for chunk in part.chunks)) for part in parts
        ),
    )
    parameters = ChannelParameters(
        row_permits=row_permits,
        permit_batch=permit_batch,
        max_chunk_cost=max_chunk_cost,
        barrier_permits=barrier_permits,
        oversize=Oversize(oversize),
    )
    channel = StoredChannel(number, parameters, kept, batches, parts)
    missing_rows = next_row - channel.first_kept_row - sum(batch.num_rows for _, batch in batches)
    if missing_rows > 0:
        raise ValueError(f"channel {name!r}: {missing_rows} rows are missing")
    if batches and batches[-1][0] + batches[-1][1].num_rows != next_row:
        raise ValueError(f"channel {name!r}: its rows do not end at row {next_row - 1}")
    return channel


def _numbers(connection: sqlite3.Connection, question: str, channel: int) -> dict[str, int]:
    return dict(connection.execute(question, (channel,)).fetchall())
