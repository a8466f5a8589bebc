"""A record batch as an IPC message in pieces: its columns are not copied, but named.

``RecordBatch.serialize`` copies all columns into one buffer.  Arrow's stream writer hands each buffer on as it is;
all that is needed is something that remembers what it is handed.
"""

import io

import pyarrow as pa

from permitflow.transports.carrier import Buffer

__all__ = ["PieceWriter"]

# So many are short, and cost more one by one than a copy of all.
_MOST_PIECES = 256


class _Memory(io.RawIOBase):
    """A file that keeps what is written, without copying it."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[Buffer] = []

    def writable(self) -> bool:
        return True

    def write(self, piece: "bytes | pa.Buffer") -> int:
        self.pieces.append(piece if isinstance(piece, bytes) else memoryview(piece).cast("B"))
        return len(piece)


class PieceWriter:
    """For batches of one schema, without dictionaries."""

    def __init__(self, schema: pa.Schema, options: pa.ipc.IpcWriteOptions | None = None) -> None:
        """Batches of exactly this schema, written with these options."""
        self._memory = _Memory()
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._memory, "w"), schema, options=options)
        # A stream begins with its schema, which the handshake carries.
        nothing = [pa.nulls(0, field.type) for field in schema]
        self._writer.write_batch(pa.RecordBatch.from_arrays(nothing, schema=schema))
        self._memory.pieces = []

    def pieces(self, batch: pa.RecordBatch) -> list[Buffer]:
        """The message.  The pieces refer to the batch."""
        self._writer.write_batch(batch)
        pieces, self._memory.pieces = self._memory.pieces, []
        if len(pieces) > _MOST_PIECES:
            return [b"".join(pieces)]
        # Before the first column stand a few words and the metadata.
        columns = next((at for at, piece in enumerate(pieces) if isinstance(piece, memoryview)), len(pieces))
        return [b"".join(pieces[:columns]), *pieces[columns:]]
