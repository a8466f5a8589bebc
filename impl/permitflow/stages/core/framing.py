"""Stages that cut a stream anew: frames of bytes or text, chunks of a number of rows."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import AnyStr, TypeVar

from permitflow.callables import plain_of_one
from permitflow.chunks import part, rows_of
from permitflow.errors import FrameTooLongError, InvalidParametersError, TruncatedFrameError
from permitflow.stages.core.parameters import require_at_least
from permitflow.stages.core.ports import EMPTY, Connection, HoldingStage

A = TypeVar("A")
B = TypeVar("B")

LARGEST_COPIED_REST = 1024
"""A longer rest is not copied for each further piece of its frame, so long frames take linear time."""


class _Reframing(HoldingStage[A, B]):
    """A stage that emits whenever it has gathered enough, and emits the rest at the end."""

    def next_whole(self) -> B:
        """The next one to emit, or ``EMPTY`` if more must come first."""
        raise NotImplementedError

    def last(self) -> B:
        """The rest at the end of the stream."""
        raise NotImplementedError

    def on_push(self, inlet: Connection[A]) -> None:
        """Gather, and emit if that was enough."""
        self.gather(inlet.grab())
        self.on_pull(self.outlet)

    def gather(self, element: A) -> None:
        """Keep an element."""
        raise NotImplementedError

    def on_pull(self, outlet: Connection[B]) -> None:
        """Emit what is whole or, at the end, the rest; if there is neither, ask for more."""
        made = self.next_whole()
        if made is EMPTY and not self.is_ended:
            self.ask(self.inlet)
            return
        if made is EMPTY and self.holds():
            made = self.last()
        if made is not EMPTY:
            outlet.push(made)
        if self.is_ended and not self.holds():
            self.end()

    def on_upstream_finish(self, inlet: Connection[A]) -> None:
        """The gathered elements leave when they are asked for; then the stage ends."""
        super().on_upstream_finish(inlet)
        if self.outlet.is_asked:
            self.on_pull(self.outlet)


class Frames(_Reframing[AnyStr, AnyStr]):
    """Emits the frames between delimiters, however the stream is cut; delimiters are left out."""

    def __init__(self, delimiter: AnyStr, max_length: int, *, allow_truncation: bool = False) -> None:
        """``delimiter`` is bytes or text, as the stream is.

        Args:
            delimiter: ends each frame.
            max_length: of a frame; a longer one fails the stage with ``FrameTooLongError``.
            allow_truncation: emit what follows the last delimiter as a frame; else, unless that is nothing, the stage
                fails with ``TruncatedFrameError`` where the stream has completed.

        Raises:
            InvalidParametersError: ``delimiter`` is empty, or ``max_length`` is below 1.
        """
        super().__init__()
        if not isinstance(delimiter, bytes | str) or not delimiter:
            raise InvalidParametersError(name="delimiter", value=delimiter, rule="must be bytes or text, and not empty")
        require_at_least(1, max_length=max_length)
        self._delimiter: AnyStr = delimiter
        self._max_length = max_length
        self._allow_truncation = allow_truncation
        self._content: AnyStr = delimiter[:0]
        self._start = 0
        """Where the next frame begins."""
        self._searched = 0
        """No delimiter begins before this place."""
        self._earlier: list[AnyStr] = []
        """What the next frame begins with, before the content; no delimiter begins in it."""
        self._earlier_length = 0

    def holds(self) -> bool:
        """Is anything left?"""
        return self._start < len(self._content) or bool(self._earlier)

    def gather(self, element: AnyStr) -> None:
        """Append to the rest."""
        if len(self._content) - self._start > LARGEST_COPIED_REST:
            self._earlier.append(self._content[self._start : self._searched])
            self._earlier_length += self._searched - self._start
            self._start = self._searched
        self._searched -= self._start
        self._content = self._content[self._start :] + element
        self._start = 0

    def next_whole(self) -> AnyStr:
        """The next frame that has its delimiter."""
        end = self._content.find(self._delimiter, self._searched)
        length = self._earlier_length + (len(self._content) if end < 0 else end) - self._start
        if length > self._max_length:
            self._require_length(length if end >= 0 else length - self._begun_delimiter())
        if end < 0:
            self._searched = max(self._start, len(self._content) - len(self._delimiter) + 1)
            none: AnyStr = EMPTY
            return none
        frame = self._up_to(end)
        self._start = self._searched = end + len(self._delimiter)
        return frame

    def _up_to(self, end: int) -> AnyStr:
        """The frame that ends at this place of the content."""
        frame = self._content[self._start : end]
        if self._earlier:
            self._earlier.append(frame)
            frame = frame[:0].join(self._earlier)
            self._earlier.clear()
            self._earlier_length = 0
        return frame

    def _begun_delimiter(self) -> int:
        """The length of the part of a delimiter with which the content ends."""
        lengths = range(len(self._delimiter) - 1, 0, -1)
        return next((length for length in lengths if self._content.endswith(self._delimiter[:length])), 0)

    def _require_length(self, length: int) -> None:
        if length > self._max_length:
            raise FrameTooLongError(length=length, max_length=self._max_length)

    def last(self) -> AnyStr:
        """What follows the last delimiter; if that is not allowed, the stage fails, unless the stream failed before."""
        rest = self._up_to(len(self._content))
        self._start = len(self._content)
        if self._allow_truncation:
            self._require_length(len(rest))
            return rest
        if self.has_failed:
            none: AnyStr = EMPTY
            return none
        raise TruncatedFrameError(length=len(rest), undelivered=rest)


class Rechunk(_Reframing[A, A]):
    """Emits chunks of exactly ``rows`` rows, and a smaller last one: of Arrow, or of any sequence.

    A large chunk is sliced, if its type can without a copy; small ones are joined.  Chunks without rows are left out.
    """

    def __init__(self, rows: int, join: Callable[[Sequence[A]], A] | None = None) -> None:
        """``join`` makes one chunk of several; by default as Arrow does, or with ``+``.

        The stage fails with ``InvalidParametersError`` if a joined chunk has not all rows: NumPy's ``+`` does not join.

        Raises:
            InvalidParametersError: ``rows`` is below 1.
        """
        super().__init__()
        require_at_least(1, rows=rows)
        self._rows = rows
        self._join = joined if join is None else plain_of_one(join, place="rechunk(join=…)")
        self._chunks: deque[A] = deque()
        self._offset = 0
        """Rows of the first chunk that have left."""
        self._held_rows = 0

    def holds(self) -> bool:
        """Are any rows left?"""
        return self._held_rows > 0

    def gather(self, element: A) -> None:
        """Keep a chunk."""
        if rows := rows_of(element):
            self._chunks.append(element)
            self._held_rows += rows

    def next_whole(self) -> A:
        """The next chunk that is complete."""
        if self._held_rows >= self._rows:
            return self._cut(self._rows)
        none: A = EMPTY
        return none

    def last(self) -> A:
        """The rows that are left."""
        return self._cut(self._held_rows)

    def _cut(self, rows: int) -> A:
        pieces: list[A] = []
        self._held_rows -= rows
        while rows:
            chunk = self._chunks[0]
            size = rows_of(chunk)
            stop = min(size, self._offset + rows)
            pieces.append(chunk if stop - self._offset == size else part(chunk, self._offset, stop))
            rows -= stop - self._offset
            self._offset = stop
            if stop == size:
                self._chunks.popleft()
                self._offset = 0
        return pieces[0] if len(pieces) == 1 else self._whole(pieces)

    def _whole(self, pieces: list[A]) -> A:
        chunk = self._join(pieces)
        rows, wanted = rows_of(chunk), sum(map(rows_of, pieces))
        if rows != wanted:
            # NumPy, for one, adds up with +.
            rule = f"must make {wanted} rows of {len(pieces)} chunks, as in rechunk(…, join=numpy.concatenate)"
            raise InvalidParametersError(name="join", value=f"{rows} rows of {type(chunk).__name__}", rule=rule)
        return chunk


def joined(pieces: Sequence[A]) -> A:
    """One chunk of several: record batches and tables as Arrow joins them, other sequences with ``+``."""
    if hasattr(pieces[0], "num_rows"):
        import pyarrow as pa

        join = pa.concat_batches if isinstance(pieces[0], pa.RecordBatch) else pa.concat_tables
        chunk: A = join(pieces)
        return chunk
    # In pairs, since each + copies: one after the other would take the square of the time.
    while len(pieces) > 1:
        pieces = [reduce(add, pieces[at : at + 2]) for at in range(0, len(pieces), 2)]
    return pieces[0]
