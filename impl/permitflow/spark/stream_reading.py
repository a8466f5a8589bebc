"""Reads a range of rows in a worker: as often as Spark asks, and on from where it was if the exchange was away."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

from permitflow.errors import PeerGoneError, PeerTimeoutError, UnexpectedFrameError
from permitflow.spark.hand_over import rows_together
from permitflow.spark.options import ReadOptions
from permitflow.spark.patience import Patience
from permitflow.spark.recording import StreamRecording
from permitflow.spark.reused_worker import leave_imports_alone
from permitflow.spark.schema import arrow_schema, check_user_schema, conform
from permitflow.spark.stream_planning import LOSSES, RowRange, lost

if TYPE_CHECKING:
    from permitflow.transports.blocking_ends import BlockingSource

__all__ = ["opened", "read_range"]


def opened(
    options: ReadOptions,
    channel: str,
    streams: StreamRecording,
    *,
    from_row: int | None = None,
    to_row: int | None = None,
    log_id: str = "",
) -> "BlockingSource":
    """Dial as a reader; see ``open_source``."""
    # gRPC must not be loaded before Spark's daemon has forked.
    from permitflow.transports.grpc_blocking import open_source

    leave_imports_alone()
    return open_source(
        options.address,
        channel,
        consumer=options.consumer,
        from_row=from_row,
        to_row=to_row,
        log_id=log_id,
        wanted=options.wanted,
        timeout_seconds=options.timeout_seconds,
        record=streams.record,
        same_host=options.same_host,
        compression=options.compression,
    )


def read_range(
    options: ReadOptions, rows: RowRange, schema: StructType, streams: StreamRecording
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, each once and in order, whatever happens to the exchange meanwhile.

    Raises:
        RowsLostError: the exchange has not all of them any more.
        SchemaMismatchError: the user's schema is not the channel's.
        PeerGoneError: the exchange is gone, and did not come back in ``timeout_seconds``.
        PeerTimeoutError: it is there, and sent nothing for so long.
        UnexpectedFrameError: it sent other rows than these.
    """
    target = arrow_schema(schema)
    patience = Patience(options.timeout_seconds, [rows.channel])
    at = rows.from_row
    while at < rows.to_row:
        try:
            with opened(options, rows.channel, streams, from_row=at, to_row=rows.to_row, log_id=rows.log_id) as source:
                check_user_schema(schema, source.schema, channel=rows.channel)
                streams.add(source)
                for chunks in source.joined(rows_together(source.parameters)):
                    _require_within(rows, at + chunks.num_rows <= rows.to_row, at + chunks.num_rows)
                    yield conform(chunks.batch, target)
                    at += chunks.num_rows
                    patience.renew()
            _require_within(rows, at == rows.to_row, at)
        except LOSSES as error:
            raise lost(error, channel=rows.channel, consumer=options.consumer or "default", wanted_row=at) from error
        except PeerTimeoutError as error:
            raise _overloaded(options, rows, at) from error
        except PeerGoneError as error:
            patience.wait(error)


def _overloaded(options: ReadOptions, rows: RowRange, at: int) -> PeerTimeoutError:
    """No producer is waited for: all of these rows are there."""
    return PeerTimeoutError(
        who=f"the exchange at {options.address} (channel {rows.channel!r})",
        reason=f"nothing came for {options.timeout_seconds:g} s, though it keeps the rows [{at}, {rows.to_row}): "
        "is it, or the network, overloaded? (option timeout_seconds)",
    )


def _require_within(rows: RowRange, is_right: bool, end: int) -> None:
    """An exchange that sends other rows than it was asked for is not trusted."""
    if not is_right:
        raise UnexpectedFrameError(
            frame=f"the rows of channel {rows.channel!r} up to {end}",
            expected=f"those of [{rows.from_row}, {rows.to_row})",
        )
