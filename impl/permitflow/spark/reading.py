"""Reads rows in a worker, and passes them to Spark.

A range of kept rows is read as often as Spark asks; after an absence of the exchange, reading resumes where it stopped.

"Handed to Spark" is not "processed".  A yielded batch passes a buffer of the Python worker and a socket, and waits in
the JVM before any operator sees it.  Permits return when Spark asks for the next batch, so they do not bound these
rows; so a Unix socket's buffer is made small (of a TCP connection, the other end decides the size).
"""

import logging
import os
import socket
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructType

from permitflow.errors import (
    EndOfStream,
    InvalidOptionError,
    PeerTimeoutError,
    ReplayError,
    RowsExpiredError,
    RowsForgottenError,
    UnexpectedFrameError,
)
from permitflow.flows.seam import Parameters
from permitflow.spark.options import ReadOptions
from permitflow.spark.patience import AWAY, Patience
from permitflow.spark.recording import StreamRecording
from permitflow.spark.reused_worker import leave_imports_alone
from permitflow.spark.shape import TIME_COLUMN
from permitflow.spark.stream_planning import LOSSES, RowRange, lost

if TYPE_CHECKING:
    import pyarrow as pa

    from permitflow.client.blocking import BlockingSource
    from permitflow.wire.joined import JoinedChunks

_log = logging.getLogger(__name__)

SOCKET_BYTES: Final = 32 * 1024
"""Size of the socket's buffer; the kernel doubles it for its own overhead.  With less, both ends wait more often."""

_OPEN_FILES = Path("/proc/self/fd")

# While Spark works on one half of the window, the other half is on its way.
_WINDOW_SHARE = 2
_MOST_ROWS = 65_536  # for a flow without a window
_FIRST_ROWS = 8_192
_SOON_SECONDS = 0.5


def rows_together(parameters: Parameters) -> int:
    """The most rows of a batch that joins several chunks; a single larger chunk stays one batch."""
    return _MOST_ROWS if parameters.window_rows is None else max(1, parameters.window_rows // _WINDOW_SHARE)


def paced(source: "BlockingSource", most_rows: int) -> "Iterator[JoinedChunks]":
    """Receive chunks joined: twice as many rows as before if a batch has come and gone soon, half as many if not.

    A fast job gets long batches, because each one costs time.  The permits of a batch return when Spark asks for the
    next one, so a slow job gets short ones: its producer takes a long wait for a reader that is stuck.  A wait for the
    producer counts, too: where rows come slowly, batches need not be long.
    """
    from permitflow.wire.joined import JoinedChunks

    rows, asked = min(_FIRST_ROWS, most_rows), monotonic()
    while True:
        try:
            received = source.receive_joined(rows)
        except EndOfStream:
            return
        # No call between the two: a signal's exception would end this generator and lose the received chunks.
        match received:
            case JoinedChunks():
                yield received
        before, asked = asked, monotonic()
        rows = min(2 * rows, most_rows) if asked - before < _SOON_SECONDS else max(1, rows // 2)


def first_copied(batches: "Generator[pa.RecordBatch, None, None]") -> "Iterator[pa.RecordBatch]":
    """Yield a copy of the first batch, then the others as they are.

    Spark keeps the first one until all are read, to look at its type.  Shared memory returns its space in order, so
    that a first batch which lies there would keep all of it, and later messages would go over the socket.
    """
    import pyarrow as pa

    memory = pa.default_cpu_memory_manager()
    with closing(batches):
        yield from (batch.copy_to(memory) for batch in islice(batches, 1))
        yield from batches


def spark_socket() -> socket.socket | None:
    """Duplicate the Unix socket between this worker and Spark, to be closed by the caller; None if there is none.

    Spark's daemon accepts it at a path in a folder that an environment variable names.
    """
    folder = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_DIR")
    if not folder or not _OPEN_FILES.is_dir():
        return None
    for entry in sorted(_OPEN_FILES.iterdir(), key=lambda entry: int(entry.name)):
        if (found := _socket_of(entry)) is None:
            continue
        if _is_accepted_in(folder, found):
            return found
        found.close()
    return None


def _socket_of(entry: Path) -> socket.socket | None:
    """A duplicate of an open file if it is still a socket."""
    try:
        if not os.readlink(entry).startswith("socket:"):
            return None
        return socket.socket(fileno=os.dup(int(entry.name)))
    except OSError:
        return None


def _is_accepted_in(folder: str, candidate: socket.socket) -> bool:
    if candidate.family != socket.AF_UNIX:
        return False
    name = candidate.getsockname()
    return isinstance(name, str) and name.startswith(f"{folder.rstrip('/')}/.") and name.endswith(".sock")


@contextmanager
def narrow_socket() -> Iterator[None]:
    """Make the buffer of Spark's socket small during the block, and restore it for the worker's later tasks."""
    found = spark_socket()
    if found is None:
        yield
        return
    with found:
        # The kernel reports twice the value that was set.
        before = found.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // 2
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, min(SOCKET_BYTES, before))
        try:
            yield
        finally:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, before)


def schema_of(options: ReadOptions, channel: str) -> "pa.Schema":
    """Ask for the schema of a channel; see ``probe``."""
    # gRPC must not be loaded before Spark's daemon has forked.
    from permitflow.client.blocking import probe

    leave_imports_alone()
    seconds, security = options.timeout_seconds, options.security
    asked = probe(
        options.address, channel, timeout_seconds=seconds, resume_seconds=options.resume_seconds, security=security
    )
    return asked.schema


def opened(
    options: ReadOptions,
    channel: str,
    streams: StreamRecording,
    *,
    from_row: int | None = None,
    to_row: int | None = None,
    log_id: str = "",
) -> "BlockingSource":
    """Connect as a reader; see ``open_source``.  Only the wanted columns of a range come, if the exchange chooses."""
    # gRPC must not be loaded before Spark's daemon has forked.
    from permitflow.client.blocking import open_source

    leave_imports_alone()
    return open_source(
        options.address,
        channel,
        consumer=options.consumer,
        from_row=from_row,
        to_row=to_row,
        log_id=log_id,
        columns=options.shape.columns if from_row is not None else (),
        with_time=options.shape.include_time,
        wanted=options.wanted,
        timeout_seconds=options.timeout_seconds,
        record=streams.record,
        same_host=options.same_host,
        compression=options.compression,
        resume_seconds=options.resume_seconds,
        byte_window=options.byte_window,
        target_latency_seconds=options.target_latency_seconds,
        security=options.security,
    )


def read_range(
    options: ReadOptions, rows: RowRange, schema: StructType, streams: StreamRecording
) -> "Iterator[pa.RecordBatch]":
    """Yield the rows of a range, each once and in order, also if the exchange restarts meanwhile.

    Raises:
        RowsLostError: the exchange no longer has all of them; unless the user lets them be left out.
        SchemaMismatchError: the user's schema is not the channel's.
        PeerGoneError: the exchange is gone, and did not come back in ``timeout_seconds``.
        PeerTimeoutError: it is reachable, but sent nothing for ``timeout_seconds``.
        UnexpectedFrameError: it sent rows outside the range.
    """
    from permitflow.spark.schema import RowForm

    form = RowForm(schema, options.shape)
    patience = Patience(options.timeout_seconds, [rows.channel])
    at = rows.from_row
    while at < rows.to_row:
        try:
            with opened(options, rows.channel, streams, from_row=at, to_row=rows.to_row, log_id=rows.log_id) as source:
                form.require_fitting(_without_time(options, source.schema), channel=rows.channel, may_grow=True)
                streams.add(source)
                for chunks in source.joined(rows_together(source.parameters)):
                    _require_within(rows, at + chunks.num_rows <= rows.to_row, at + chunks.num_rows)
                    yield form.conform(chunks.batch, channel=rows.channel, first_row=at, log_id=rows.log_id)
                    at += chunks.num_rows
                    patience.renew()
            _require_within(rows, at == rows.to_row, at)
        except LOSSES as error:
            if not options.fail_on_data_loss:
                at = _past_loss(error, rows, at)
                continue
            raise lost(error, channel=rows.channel, consumer=options.consumer or "default", wanted_row=at) from error
        except PeerTimeoutError as error:
            raise _overloaded(options, rows, at) from error
        except AWAY as error:
            patience.wait(error)


def _without_time(options: ReadOptions, schema: "pa.Schema") -> "pa.Schema":
    """The channel's own columns, of those that the exchange sends."""
    if not options.shape.include_time:
        return schema
    place = schema.get_field_index(TIME_COLUMN)
    if place < 0:
        reason = f"needs an exchange that tells times, and the one at {options.address} is older: update it"
        raise InvalidOptionError(option="includeTime", value="true", reason=reason)
    return schema.remove(place)


def _past_loss(error: ReplayError, rows: RowRange, at: int) -> int:
    """Where reading goes on behind lost rows of a range, which the log tells."""
    following = rows.to_row
    if isinstance(error, RowsForgottenError | RowsExpiredError):
        following = min(error.first_kept_row, rows.to_row)
    _log.warning("the rows [%d, %d) of channel %r are lost, and left out: %s", at, following, rows.channel, error)
    return following


def _overloaded(options: ReadOptions, rows: RowRange, at: int) -> PeerTimeoutError:
    """The error for silence: the exchange has all of these rows, so the cause is not a slow producer."""
    return PeerTimeoutError(
        who=f"the exchange at {options.address} (channel {rows.channel!r})",
        reason=f"nothing came for {options.timeout_seconds:g} s, though it keeps the rows [{at}, {rows.to_row}): "
        "is it, or the network, overloaded? (option timeoutSeconds)",
    )


def _require_within(rows: RowRange, is_right: bool, end: int) -> None:
    """Refuse rows outside the range that was asked for."""
    if not is_right:
        raise UnexpectedFrameError(
            frame=f"the rows of channel {rows.channel!r} up to {end}",
            expected=f"those of [{rows.from_row}, {rows.to_row})",
        )
