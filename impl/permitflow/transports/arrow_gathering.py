"""Several large record batches as one IPC message, while their columns stay where they are.

Joining batches copies them.  Where each row takes the same in a column, and nothing is null, the joined column is the
batches' columns one after the other.  What stands around them depends on the number of rows alone: it is made once, by
joining, and remembered.
"""

import math
from collections.abc import Sequence

import pyarrow as pa

from permitflow.transports.arrow_pieces import PieceWriter
from permitflow.transports.carrier import Buffer
from permitflow.transports.shared_memory.sized_parts import SizedParts

__all__ = ["Gathering"]

# Of one column of one batch: below that a copy costs less than a piece of its own.
_LEAST_PIECE_BYTES = 8 << 10
_MOST_GATHERED = 256
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
        can = min(self._widths, default=0) > 0
        self.least_bytes = _LEAST_PIECE_BYTES * len(self._widths) if can else math.inf
        """Of each batch, or on an average: shorter ones are not gathered, because a copy costs less."""
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
        if size_bytes < count * self.least_bytes or count * len(self._widths) > _MOST_GATHERED:
            return None
        found: list[Sequence[Buffer]] = []
        rows, count, sizes = 0, -1, list[int]()
        for batch in batches:
            if batch.num_rows != count:
                count = batch.num_rows
                sizes = [count * width for width in self._widths]
            rows += count
            # All buffers at once: asked for one by one, columns cost more than everything else here.  First comes the
            # batch's own, then two of each column: which values are null, and the values.
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
        return SizedParts(message, rows * sum(self._widths) + sum(map(len, gaps)))

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
