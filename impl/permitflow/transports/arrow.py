"""Arrow record batches and schemas as bytes.

The schema travels once, in the handshake; a chunk is one IPC message without it.  Dictionaries are the exception:
an IPC message cannot carry them, so that chunks of such a schema are whole IPC streams.
"""

import pyarrow as pa

from permitflow.errors import ChunkTooLargeError, SchemaMismatchError, UndecodableDataError

__all__ = ["MAX_CHUNK_BYTES", "MAX_MESSAGE_BYTES", "BatchCodec", "read_schema", "require_equal_schemas"]

# gRPC's own limit is 4 MiB, a few thousand wide rows.  Some limit has to be: a peer's claim decides how much memory
# is taken before permits are looked at.
MAX_MESSAGE_BYTES = 256 << 20
# The rest of a message: the frame around the chunk.
MAX_CHUNK_BYTES = MAX_MESSAGE_BYTES - 4096


def read_schema(data: bytes) -> pa.Schema:
    """Read a schema that the peer stated.

    Raises:
        UndecodableDataError: it is none.
    """
    try:
        return pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UndecodableDataError(what="the schema", reason=str(error)) from error


def require_equal_schemas(*, ours: pa.Schema, theirs: pa.Schema) -> None:
    """Refuse a peer whose names, types or nullability differ; metadata may.

    Raises:
        SchemaMismatchError: they differ; the message shows both.
    """
    if not ours.equals(theirs, check_metadata=False):
        raise SchemaMismatchError(ours=_text(ours), theirs=_text(theirs))


def _text(schema: pa.Schema) -> str:
    text: str = schema.to_string(show_field_metadata=False, show_schema_metadata=False)
    return text


class BatchCodec:
    """Turns record batches of one schema into bytes and back."""

    def __init__(self, schema: pa.Schema) -> None:
        """Chunks of exactly this schema."""
        self.schema = schema
        self.schema_bytes: bytes = schema.serialize().to_pybytes()
        """The schema as the handshake carries it."""
        self._has_dictionaries = any(_holds_dictionary(field.type) for field in schema)

    def require(self, batch: pa.RecordBatch) -> None:
        """Refuse what this stream cannot carry.

        Raises:
            SchemaMismatchError: the batch has another schema than the stream.
            ChunkTooLargeError: it does not fit into one message of the carrier.
            TypeError: it is no record batch.
        """
        if not isinstance(batch, pa.RecordBatch):
            raise TypeError(f"a remote channel carries pyarrow.RecordBatch, not {type(batch).__name__}")
        require_equal_schemas(ours=self.schema, theirs=batch.schema)
        size_bytes = pa.ipc.get_record_batch_size(batch)
        if size_bytes > MAX_CHUNK_BYTES:
            raise ChunkTooLargeError(rows=batch.num_rows, size_bytes=size_bytes, limit_bytes=MAX_CHUNK_BYTES)

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """Encode one chunk.

        Raises:
            SchemaMismatchError, ChunkTooLargeError, TypeError: as for ``require``.
        """
        self.require(batch)
        return self.encode_accepted(batch)

    def encode_accepted(self, batch: pa.RecordBatch) -> bytes:
        """Encode one chunk that ``require`` has accepted.

        Raises:
            ChunkTooLargeError: its dictionaries do not fit, which only shows now.
        """
        encoded = self._as_stream(batch) if self._has_dictionaries else batch.serialize()
        if encoded.size > MAX_CHUNK_BYTES:
            raise ChunkTooLargeError(rows=batch.num_rows, size_bytes=encoded.size, limit_bytes=MAX_CHUNK_BYTES)
        data: bytes = encoded.to_pybytes()
        return data

    def decode(self, data: bytes, rows: int) -> pa.RecordBatch:
        """Decode one chunk of a peer, and check all of it: a lying offset must not reach whoever reads the batch.

        Raises:
            UndecodableDataError: it is no batch of this schema, or has other rows than the peer stated.
        """
        what = f"a chunk of {rows} rows"
        try:
            buffer = pa.py_buffer(data)
            batch = (
                self._from_stream(buffer) if self._has_dictionaries else pa.ipc.read_record_batch(buffer, self.schema)
            )
            batch.validate(full=True)
        except (pa.ArrowException, OSError, ValueError, EOFError, StopIteration) as error:
            raise UndecodableDataError(what=what, reason=str(error) or type(error).__name__) from error
        if batch.num_rows != rows:
            raise UndecodableDataError(what=what, reason=f"it holds {batch.num_rows} rows")
        return batch

    def _as_stream(self, batch: pa.RecordBatch) -> pa.Buffer:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue()

    def _from_stream(self, buffer: pa.Buffer) -> pa.RecordBatch:
        with pa.ipc.open_stream(buffer) as reader:
            if not reader.schema.equals(self.schema, check_metadata=False):
                raise ValueError("its schema is not that of the stream")
            batches = list(reader)
        if len(batches) != 1:
            raise ValueError(f"it holds {len(batches)} batches, not 1")
        return batches[0]


def _holds_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_holds_dictionary(kind.field(position).type) for position in range(kind.num_fields))
