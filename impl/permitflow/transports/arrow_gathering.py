"""Several large record batches as one IPC message, while their columns stay where they are.

Joining batches copies them.  Where each row takes the same in a column, and nothing is null, the joined column is the
batches' columns one after the other.  What stands around them depends on the number of rows alone: it is made once, by
joining, and remembered.
"""

from collections.abc import Sequence

import pyarrow as pa

from permitflow.transports.arrow_pieces import PieceWriter
from permitflow.transports.carrier import Buffer

__all__ = ["Gathering"]

# Of one column of one batch: below that a copy costs less than a piece of its own.
_LEAST_PIECE_BYTES = 16 << 10
_MOST_PIECES = 128
# A stream's trains are of a few lengths.
_MOST_REMEMBERED = 64

_Gaps = list[bytes]
"""What stands before each column, and behind the last one."""


class Gathering:
    """For batches of one schema, without dictionaries."""

    def __init__(self, schema: pa.Schema, pieces: PieceWriter) -> None:
        """Batches of exactly this schema; ``pieces`` is of the same one."""
        self._widths = [_row_bytes(field.type) for field in schema]
        self._pieces = pieces
        self._can = bool(self._widths) and min(self._widths) > 0
        self._least_bytes = _LEAST_PIECE_BYTES * len(self._widths)
        self._gaps: dict[int, _Gaps] = {}

    def message(self, batches: Sequence[pa.RecordBatch], size_bytes: float) -> list[Buffer] | None:
        """All rows of these batches as one message; the pieces refer to the batches.

        Args:
            batches: at least one.
            size_bytes: about what they take.

        Returns:
            None if they cannot be gathered, or are so short that a copy costs less.
        """
        count = len(batches)
        if not self._can or size_bytes < count * self._least_bytes or count * len(self._widths) > _MOST_PIECES:
            return None
        found = []
        rows = 0
        for batch in batches:
            if (values := self._values(batch)) is None:
                return None
            found.append(values)
            rows += batch.num_rows
        gaps = self._gaps.get(rows) or self._learnt(batches, rows)
        message: list[Buffer] = [gaps[0]]
        for column, gap in zip(zip(*found, strict=True), gaps[1:], strict=True):
            message += column
            if gap:
                message.append(gap)
        return message

    def _values(self, batch: pa.RecordBatch) -> Sequence[Buffer] | None:
        """What each column of a batch holds; None if one of them holds something that is null."""
        sizes = [batch.num_rows * width for width in self._widths]
        # All buffers at once: asked for one by one, columns cost more than everything else here.
        _, *buffers = batch.to_struct_array().buffers()
        validities, values = buffers[::2], buffers[1::2]
        is_whole = all(validity is None for validity in validities)
        if is_whole and [0 if value is None else len(value) for value in values] == sizes:
            return [memoryview(value or b"") for value in values]
        return self._values_of_slices(batch, sizes)

    def _values_of_slices(self, batch: pa.RecordBatch, sizes: Sequence[int]) -> Sequence[Buffer] | None:
        """The same for columns that are a part of their buffers, or know which values are null."""
        found: list[Buffer] = []
        for column, width, size in zip(batch.columns, self._widths, sizes, strict=True):
            if column.null_count:
                return None
            start = column.offset * width
            found.append(memoryview(column.buffers()[1] or b"")[start : start + size])
        return found

    def _learnt(self, batches: Sequence[pa.RecordBatch], rows: int) -> _Gaps:
        """Join batches once, to see what stands around their columns."""
        gaps: _Gaps = [b""]
        widths = iter(self._widths)
        for piece in self._pieces.pieces(pa.concat_batches(batches)):
            if isinstance(piece, bytes):
                gaps[-1] += piece
            else:
                # Columns end at a multiple of eight bytes; some of that may be the column's own memory.
                gaps.append(bytes(len(piece) - rows * next(widths)))
        if len(self._gaps) >= _MOST_REMEMBERED:
            self._gaps.clear()
        self._gaps[rows] = gaps
        return gaps


def _row_bytes(kind: pa.DataType) -> int:
    """Bytes of a value in a column where values lie one after the other; 0 for all other columns."""
    if pa.types.is_boolean(kind) or not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind)):
        return 0
    return int(kind.bit_width // 8)
