"""Arrow record batches and schemas as bytes.

The schema travels once, in the handshake.  Chunks that travel together are the rows of one batch, which is one IPC
message without the schema; the receiver slices it, which copies nothing.  Dictionaries are the exception: an IPC
message cannot carry them, so that chunks of such a schema are whole IPC streams.
"""

import io
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, compress, takewhile
from operator import attrgetter

import pyarrow as pa

from permitflow.chunks import slices
from permitflow.errors import ChunkTooLargeError, UndecodableDataError
from permitflow.stream.compression import Codec
from permitflow.wire.arrow_compression import decompressed
from permitflow.wire.arrow_metadata import (
    BATCH,
    DICTIONARY,
    SCHEMA,
    Stated,
    check_message,
    check_schema,
    stream_messages,
)
from permitflow.wire.buffers import Buffer
from permitflow.wire.schemas import OF_BATCH, facts_of, fitted, require_equal_schemas, widened

# gRPC's own limit is 4 MiB, a few thousand wide rows.  A limit is necessary: the size that a peer states decides how
# much memory is allocated before permits are checked.  And while a message is copied, decoded or compressed, an event
# loop serves no other stream: 2 to 3 ms for each MiB.
MAX_MESSAGE_BYTES = 16 << 20
# The rest of a message: the frame around the chunk.
MAX_CHUNK_BYTES = MAX_MESSAGE_BYTES - 4096
# Chunks up to this size are short: handled singly, they cost more than one copy of all.
_MOST_PIECES = 256
# Of one column of one batch: below this a copy costs less than a separate piece.
_LEAST_PIECE_BYTES = 8 << 10
# Of a message, where a batch is cut into several.
_FILLED = 0.95
# A single row cannot be cut.
_LEAST_ROWS_TO_CUT = 2
# A stream's messages are of a few lengths.
_MOST_REMEMBERED = 64
# Below this one copy costs less than many pieces.
_PIECES_FROM_BYTES = 128 << 10
# A single batch this short is not tested for gathering.
_COPIED_BELOW_BYTES = 16 << 10
# Of a column, and of a message, of which Arrow's writers round up what they write.
_PADDING_BYTES = 16
# What a stream has around each of its messages.
_STREAM_BYTES = 512
_ROWS_OF: Callable[[pa.RecordBatch], int] = attrgetter("num_rows")
_SCHEMA_OF: Callable[[pa.RecordBatch], pa.Schema] = attrgetter("schema")
_UNREADABLE = (pa.ArrowException, OSError, ValueError, EOFError, StopIteration)


class BatchCodec:
    """Turns record batches of one schema into bytes and back."""

    def __init__(self, schema: pa.Schema, codec: Codec | None = None) -> None:
        """Encode chunks of exactly this schema; both ends agreed on ``codec``, None: no compression."""
        self.schema, self._facts = schema, facts_of(schema)
        self.schema_bytes = self._facts.encoded
        """The schema as the handshake carries it."""
        self._has_dictionaries = self._facts.dictionaries > 0
        self.can_join = bool(len(schema)) and not self._has_dictionaries
        """Can several batches be encoded as one?"""
        self.row_bytes = self._facts.row_bytes
        """About how many bytes a row takes, where all columns have a fixed width."""
        self.empty_bytes = self._facts.empty_bytes
        """The most bytes of a message without rows, if all columns have a fixed width."""
        self._is_ours: Callable[[pa.Schema], bool] = schema.equals
        self._most_rows = int(MAX_CHUNK_BYTES / self.row_bytes) if self.row_bytes else -1
        self._short_rows = math.ceil(_COPIED_BELOW_BYTES / self.row_bytes) if self.row_bytes and self.can_join else 0
        """A batch of fewer rows is encoded by Arrow's ``serialize``."""
        # Of more columns, the pieces would be joined again.
        can_be_pieces = not self._has_dictionaries and self._facts.columns <= _MOST_PIECES
        self._piece_writer = PieceWriter(schema) if can_be_pieces else None
        self._gathering = None if self._piece_writer is None else _Gathering(schema, self._piece_writer)
        self.gathered_from_bytes = math.inf if self._gathering is None else self._gathering.least_bytes
        """Chunks of at least this many bytes are gathered, if they hold no null."""
        # Of a chunk with dictionaries, which is a whole stream.
        self._checked_schema = b""
        self.codec = codec
        """The codec that compresses messages; None: no compression."""

    def accepts(self, batch: object) -> bool:
        """Would ``cut`` leave this as it is?  A quick check, which may say False too often."""
        return (
            isinstance(batch, pa.RecordBatch)
            and self.schema.equals(batch.schema, check_metadata=False)
            and batch.get_total_buffer_size() <= MAX_CHUNK_BYTES
        )

    def accepted(self, batches: Iterable[object]) -> tuple[list[pa.RecordBatch], list[int]]:
        """The first of these batches, up to one that ``accepts`` rejects; and the rows of each."""
        found: list[pa.RecordBatch] = list(batches)
        if {pa.RecordBatch}.issuperset(map(type, found)) and all(map(self._is_ours, map(_SCHEMA_OF, found))):
            rows = list(map(_ROWS_OF, found))
            # If every row takes the same bytes, checking the largest batch is enough.
            if max(rows, default=0) <= self._most_rows or self._are_all_small(found):
                return found, rows
        found = list(takewhile(self.accepts, found))
        return found, [batch.num_rows for batch in found]

    def _are_all_small(self, batches: Sequence[pa.RecordBatch]) -> bool:
        if self.row_bytes:
            return False
        return all(size <= MAX_CHUNK_BYTES for size in map(pa.RecordBatch.get_total_buffer_size, batches))

    def cut(self, batch: pa.RecordBatch, most_rows: int | None = None) -> list[pa.RecordBatch]:
        """Check a batch, and cut it into slices that each fit into one message of the carrier.

        Args:
            batch: stays as it is, and uncut if it fits.
            most_rows: of a slice; None: any number.

        Raises:
            SchemaMismatchError: the batch has another schema than the stream.
            ChunkTooLargeError: a single row of it does not fit into one message.
            TypeError: it is not a record batch.
        """
        if not isinstance(batch, pa.RecordBatch):
            raise TypeError(f"a remote channel carries pyarrow.RecordBatch, not {type(batch).__name__}")
        require_equal_schemas(ours=self.schema, theirs=batch.schema, owners=OF_BATCH)
        pieces = [batch] if most_rows is None else slices(batch, most_rows)
        return [fitting for piece in pieces for fitting in _fitting(piece)]

    def size_of(self, batch: pa.RecordBatch) -> int:
        """Estimate the bytes of an accepted batch."""
        if self.row_bytes is not None:
            return int(batch.num_rows * self.row_bytes)
        size: int = pa.ipc.get_record_batch_size(batch)
        return size

    def most_bytes_of(self, batch: pa.RecordBatch) -> int:
        """The most bytes that an accepted batch adds to a message, whether it is encoded alone or with others."""
        if self._has_dictionaries:
            return self._most_bytes_of_stream(batch)
        if self.row_bytes is not None:
            return int(batch.num_rows * self.row_bytes) + self.empty_bytes
        size: int = pa.ipc.get_record_batch_size(batch)
        # Joined with batches that hold nulls, its columns get bitmaps.
        return size + self._facts.fields * (batch.num_rows // 8 + _PADDING_BYTES) + _PADDING_BYTES

    def _most_bytes_of_stream(self, batch: pa.RecordBatch) -> int:
        """The bytes of a batch with its dictionaries, which travel with it."""
        size: int = pa.ipc.get_record_batch_size(batch) + len(self.schema_bytes) + _STREAM_BYTES
        for column in batch.columns:
            if pa.types.is_dictionary(column.type) and not column.type.value_type.num_fields:
                values: int = pa.ipc.get_record_batch_size(pa.record_batch([column.dictionary], names=[""]))
                size += values + _STREAM_BYTES
            elif column.type.num_fields or isinstance(column.type, pa.BaseExtensionType):
                return MAX_CHUNK_BYTES  # dictionaries may be inside
        return min(size, MAX_CHUNK_BYTES)

    def encode(self, batches: Sequence[pa.RecordBatch], rows: int | None = None) -> list[Buffer]:
        """Encode chunks that ``cut`` has returned, as the rows of one batch, in pieces that may refer to them.

        Args:
            batches: at least one.
            rows: of all batches together, if the caller knows.

        Raises:
            ChunkTooLargeError: the dictionaries do not fit; only encoding shows that.
        """
        if rows is None:
            rows = sum(map(_ROWS_OF, batches))
        if len(batches) == 1 and rows < self._short_rows:
            return [memoryview(batches[0].serialize()).cast("B")]
        pieces = self.gathered(batches, rows) or self._joined(batches)
        if (size_bytes := sum(map(len, pieces))) > MAX_CHUNK_BYTES:
            _require_size(rows, size_bytes)
        return pieces

    def gathered(self, batches: Sequence[pa.RecordBatch], rows: int) -> list[Buffer] | None:
        """As ``encode``, in pieces that refer to the batches; None if a copy is necessary, or cheaper.

        ``rows`` counts all batches together; they fit into one message.
        """
        if self._gathering is None or self.row_bytes is None:
            return None
        if len(batches) == 1 and self.row_bytes * rows < _COPIED_BELOW_BYTES:
            return None
        return self._gathering.message(batches, self.row_bytes * rows)

    def _joined(self, batches: Sequence[pa.RecordBatch]) -> list[Buffer]:
        batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        if self._has_dictionaries:
            return [self._as_stream(batch)]
        if self._piece_writer is not None and self.size_of(batch) >= _PIECES_FROM_BYTES:
            return self._piece_writer.pieces(batch)
        return [memoryview(batch.serialize()).cast("B")]

    def decode(self, data: "Buffer | pa.Buffer", rows: Sequence[int], uncompressed_bytes: int = 0) -> pa.RecordBatch:
        """Decode a peer's chunks and check them fully: a wrong offset must not reach the batch's reader.

        Nothing is copied: the batch keeps all of ``data`` alive, unless ``data`` is compressed.

        Args:
            data: one batch.
            rows: of each of its chunks.
            uncompressed_bytes: of the batch, as the peer states; 0: not compressed.

        Raises:
            UndecodableDataError: ``data`` is not a batch of this schema, or its rows differ from ``rows``.
        """
        try:
            if uncompressed_bytes:
                data = decompressed(data, uncompressed_bytes, self.codec, sum(rows), self._most_bytes(sum(rows)))
            if self._has_dictionaries:
                batch = self._from_stream(data)
            else:
                self._require_columns(check_message(data))
                batch = pa.ipc.read_record_batch(pa.ipc.read_message(data), self.schema)
            if self._facts.has_text_views:
                _require_few_texts(batch)
            batch.validate(full=True)
        except _UNREADABLE as error:
            raise _undecodable(rows, str(error) or type(error).__name__) from error
        if batch.num_rows != sum(rows) or min(rows, default=-1) < 0:
            raise _undecodable(rows, f"it holds {batch.num_rows} rows")
        return batch

    def _most_bytes(self, rows: int) -> int:
        """The most bytes of a message with this many rows."""
        if self.row_bytes is None or self._has_dictionaries:
            return MAX_CHUNK_BYTES
        return int(min(MAX_CHUNK_BYTES, self.empty_bytes + rows * self.row_bytes))

    def _as_stream(self, batch: pa.RecordBatch) -> Buffer:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.schema) as writer:
            writer.write_batch(batch)
        return memoryview(sink.getvalue()).cast("B")

    def _require_columns(self, stated: Stated) -> None:
        """Arrow would read further columns, and ignore them."""
        most = self._facts.columns if stated.kind == BATCH else self._facts.fields
        if stated.columns > most:
            words = f"it has {stated.columns} columns, with those inside of others, and the schema has {most}"
            raise ValueError(words)

    def _from_stream(self, data: "Buffer | pa.Buffer") -> pa.RecordBatch:
        found = Counter[int]()
        for metadata, stated in stream_messages(data):
            found[stated.kind] += 1
            # Arrow takes as long for each as for a schema, however short it is.
            if found[stated.kind] > (most := self._facts.dictionaries if stated.kind == DICTIONARY else 1):
                what = {SCHEMA: "schemas", DICTIONARY: "dictionaries", BATCH: "batches"}.get(stated.kind, "tensors")
                raise ValueError(f"it holds {found[stated.kind]} {what}, not {most}")
            if stated.kind == SCHEMA and metadata != self._checked_schema:
                check_schema(metadata)
                self._checked_schema = bytes(metadata)
            self._require_columns(stated)
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            if not fitted(reader.schema, self.schema).equals(self.schema):
                raise ValueError("its schema is not that of the stream")
            batches = list(reader)
        if len(batches) != 1:
            raise ValueError(f"it holds {len(batches)} batches, not 1")
        return widened(batches[0], self.schema)


def _require_few_texts(batch: pa.RecordBatch) -> None:
    """Refuse text views that are long because they share their bytes: checking each takes its length.

    Raises:
        ValueError: all texts of a column are longer than a chunk may be.
    """
    batch.validate()
    rest: list[pa.Array] = list(batch.columns)
    while rest:
        array = rest.pop()
        kind = array.type
        if pa.types.is_string_view(kind):
            views = memoryview(array.buffers()[1]).cast("B")[16 * array.offset :][: 16 * len(array)].cast("i")
            lengths: list[int] = views[::4].tolist()
            are_here = array.is_valid().to_pylist() if array.null_count else [True] * len(array)
            if (size_bytes := sum(compress(lengths, are_here))) > MAX_CHUNK_BYTES:
                raise ValueError(f"its texts would take {size_bytes} bytes; {MAX_CHUNK_BYTES} are the most")
        else:
            rest.extend(_inner(array))


def _inner(array: pa.Array) -> Iterable[pa.Array]:
    """The arrays inside of this one."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return (array.storage,)
    if pa.types.is_dictionary(kind):
        return (array.dictionary,)
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return map(array.field, range(kind.num_fields))
    if pa.types.is_map(kind):
        return (array.keys, array.items)
    # Lists of all sorts, and run ends.
    return (array.values,) if kind.num_fields else ()


def _fitting(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch into slices that fit into a message; their rows may be of very different lengths."""
    size_bytes = pa.ipc.get_record_batch_size(batch)
    if size_bytes <= MAX_CHUNK_BYTES:
        yield batch
        return
    rows = batch.num_rows
    if rows < _LEAST_ROWS_TO_CUT:
        _require_size(rows, size_bytes)
    # Less than would just fit, for what all slices have in common takes its bytes in each.
    most = max(1, min(int(rows * _FILLED * MAX_CHUNK_BYTES / size_bytes), (rows + 1) // 2))
    for piece in slices(batch, most):
        yield from _fitting(piece)


def _require_size(rows: int, size_bytes: int) -> None:
    if size_bytes > MAX_CHUNK_BYTES:
        raise ChunkTooLargeError(rows=rows, size_bytes=size_bytes, limit_bytes=MAX_CHUNK_BYTES)


def _undecodable(rows: Sequence[int], reason: str) -> UndecodableDataError:
    what = f"a chunk of {rows[0]} rows" if len(rows) == 1 else f"a batch of {len(rows)} chunks"
    return UndecodableDataError(what=what, reason=reason)


def runs(
    batches: Sequence[pa.RecordBatch],
    size_of: Callable[[pa.RecordBatch], int],
    *,
    most_bytes: int,
    small_bytes: float = math.inf,
    most_rows: float = math.inf,
) -> Iterator[Sequence[pa.RecordBatch]]:
    """Group all batches, in order: neighbouring small batches form a run of bounded size.

    Args:
        batches: of one schema.
        size_of: bytes of a batch.
        most_bytes: of a run of several batches.
        small_bytes: a larger batch forms a run of its own.
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
    """Join the batches into one; return them unchanged if one batch cannot hold that many values."""
    if len(batches) == 1:
        return batches
    try:
        return [pa.concat_batches(batches)]
    except pa.ArrowInvalid:
        # Lists of nulls take no bytes, but can exceed what 32-bit offsets count.
        return batches


def owned(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same batches in memory that no other object uses."""
    if not batches:
        return []
    codec = BatchCodec(batches[0].schema)
    if not codec.can_join:
        return [codec.decode(b"".join(codec.encode([batch])), [batch.num_rows]) for batch in batches]
    copied = (_copied(run) for run in runs(batches, codec.size_of, most_bytes=MAX_CHUNK_BYTES))
    return [batch for run in copied for batch in run]


def _copied(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    # Arrow copies several batches when it joins them; it would not copy a single one.
    together = joined([*batches, batches[0].slice(0, 0)])
    if len(together) > 1:
        return [copy for batch in batches for copy in _copied([batch])]
    ends = accumulate(batch.num_rows for batch in batches)
    return [together[0].slice(end - batch.num_rows, batch.num_rows) for batch, end in zip(batches, ends, strict=True)]


class PieceWriter:
    """Writes batches as IPC messages in pieces that refer to the columns instead of copying them.

    ``RecordBatch.serialize`` copies all columns into one buffer.  Arrow's stream writer passes each buffer on as it is
    to a file object that collects them.  For batches of one schema, without dictionaries.
    """

    def __init__(self, schema: pa.Schema) -> None:
        """Write batches of exactly this schema."""
        self._memory, self._schema = _Memory(), schema

    @cached_property
    def _writer(self) -> pa.RecordBatchStreamWriter:
        """Made for the first batch: most streams of short batches never need it."""
        writer = pa.ipc.new_stream(pa.PythonFile(self._memory, "w"), self._schema)
        # Skip the schema at the stream's beginning: the handshake carries it.
        nothing = [pa.nulls(0, field.type) for field in self._schema]
        writer.write_batch(pa.RecordBatch.from_arrays(nothing, schema=self._schema))
        self._memory.pieces = []
        return writer

    def pieces(self, batch: pa.RecordBatch) -> list[Buffer]:
        """Encode a batch as one message; the pieces refer to the batch."""
        self._writer.write_batch(batch)
        pieces, self._memory.pieces = self._memory.pieces, []
        if len(pieces) > _MOST_PIECES:
            return [b"".join(pieces)]
        # Before the first column stand a few words and the metadata.
        columns = next((at for at, piece in enumerate(pieces) if isinstance(piece, memoryview)), len(pieces))
        return [b"".join(pieces[:columns]), *pieces[columns:]]


class _Memory(io.RawIOBase):
    """A file object that keeps the written buffers without copying them."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[Buffer] = []

    def writable(self) -> bool:
        return True

    def write(self, piece: "bytes | pa.Buffer") -> int:
        self.pieces.append(piece if isinstance(piece, bytes) else memoryview(piece).cast("B"))
        return len(piece)


class _Gathering:
    """Makes one IPC message of several large batches without copying their columns.

    Joining batches copies them.  In a column of fixed width without nulls, the joined column is the batches' columns
    one after the other.  The bytes around the columns depend on the number of rows alone: they are made once, by
    joining, and cached.  For batches of one schema, without dictionaries.
    """

    def __init__(self, schema: pa.Schema, pieces: PieceWriter) -> None:
        """Gather batches of exactly this schema; ``pieces`` has the same one."""
        self._widths = [_value_bytes(field.type) for field in schema]
        self._pieces = pieces
        can = min(self._widths, default=0) > 0
        self.least_bytes = _LEAST_PIECE_BYTES * len(self._widths) if can else math.inf
        """The least average bytes of a batch: for shorter ones a copy costs less than gathering."""
        # By the number of rows: the bytes before each column, and behind the last one.
        self._gaps: dict[int, list[bytes]] = {}

    def message(self, batches: Sequence[pa.RecordBatch], size_bytes: float) -> list[Buffer] | None:
        """Gather all rows of these batches into one message; the pieces refer to the batches.

        Args:
            batches: at least one.
            size_bytes: of all batches, estimated.

        Returns:
            None if they cannot be gathered, or are so short that a copy costs less.
        """
        count = len(batches)
        if size_bytes < count * self.least_bytes or count * len(self._widths) > _MOST_PIECES:
            return None
        found: list[Sequence[Buffer]] = []
        rows, count, sizes = 0, -1, list[int]()
        for batch in batches:
            if batch.num_rows != count:
                count = batch.num_rows
                sizes = [count * width for width in self._widths]
            rows += count
            # All buffers at once: reading columns one by one costs more than everything else here.  The batch's own
            # buffer comes first, then two for each column: the null bitmap and the values.
            buffers = batch.to_struct_array().buffers()
            values = buffers[2::2]
            if any(buffers[1::2]) or not all(values) or list(map(len, values)) != sizes:
                values = self._values_of_slices(batch, sizes)
                if values is None:
                    return None
            found.append(values)
        gaps = self._gaps.get(rows) or self._learnt(batches, rows)
        message: list[Buffer] = [gaps[0]]
        for column, gap in zip(zip(*found, strict=True), gaps[1:], strict=True):
            message += column
            if gap:
                message.append(gap)
        return message

    def _values_of_slices(self, batch: pa.RecordBatch, sizes: Sequence[int]) -> Sequence[Buffer] | None:
        """Find the values of columns that are slices of their buffers, or have a null bitmap; None if one has nulls."""
        found: list[Buffer] = []
        for column, width, size in zip(batch.columns, self._widths, sizes, strict=True):
            if column.null_count:
                return None
            start = column.offset * width
            found.append(memoryview(column.buffers()[1] or b"")[start : start + size])
        return found

    def _learnt(self, batches: Sequence[pa.RecordBatch], rows: int) -> list[bytes]:
        """Join batches once, to learn the bytes around their columns."""
        gaps = [b""]
        widths = iter(self._widths)
        for piece in self._pieces.pieces(pa.concat_batches(batches)):
            if isinstance(piece, bytes):
                gaps[-1] += piece
            else:
                # Columns end at a multiple of eight bytes; part of the padding may be the column's own memory.
                gaps.append(bytes(len(piece) - rows * next(widths)))
        if len(self._gaps) >= _MOST_REMEMBERED:
            self._gaps.clear()
        self._gaps[rows] = gaps
        return gaps


def _value_bytes(kind: pa.DataType) -> int:
    """Bytes of a value in a column of fixed width; 0 for all other columns."""
    if pa.types.is_boolean(kind) or not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind)):
        return 0
    return int(kind.bit_width // 8)
