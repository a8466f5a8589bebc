"""Count the rows of a chunk, and slice it.

Arrow's batches and tables are known by their shape (``num_rows``, ``slice``), never imported.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import accumulate
from operator import attrgetter, index, methodcaller
from typing import Any, TypeVar

from permitflow.errors import InvalidParametersError, UnsplittableChunkError

T = TypeVar("T")

# What their length counts is not a row, or they have no row yet.
_NOT_OF_ROWS = (str, Mapping, Set, Iterator, AsyncIterator, Awaitable)

DEFAULT_KEPT_ROWS = 1_048_576
"""The default limit.  A Spark micro-batch holds half of it and takes at least some 0.2 s, even if it is small: two
channels of 32,768 rows pass 0.15 million rows a second, two of a million rows nearly as many as Spark reads from
memory: `nox -s measure-streaming`, docs/guides/spark-streaming.md.  A limit in rows does not limit bytes: a full
channel of 100-byte rows takes 100 MiB."""

DEFAULT_CHUNK_ROWS = 32_768
"""The default for the rows of a chunk; larger chunks are cut.  A large chunk delays others, and has 16 MiB at most."""


def whole_rows(rows: object, *, name: str = "rows") -> int:
    """Check a number of rows that a caller gave.

    Raises:
        InvalidParametersError: the number is not whole, or negative.
    """
    try:
        checked = -1 if isinstance(rows, bool) else index(rows)  # type: ignore[arg-type]  # the check itself
    except TypeError:
        checked = -1
    if checked < 0:
        raise InvalidParametersError(name=name, value=rows, rule="must be a whole number of at least 0")
    return checked


def rows_of(chunk: object) -> int:
    """Rows of a chunk: its ``num_rows``, else its length, else 1 (a single value, which has no length).

    Raises:
        InvalidParametersError: ``num_rows`` is not a number, ``len(chunk)`` fails, or would not count rows: of text, a
            mapping, a set or a named tuple, and of an iterator or a coroutine, whose rows are not there yet.
    """
    if type(chunk) is list:
        return len(chunk)
    rows = getattr(chunk, "num_rows", None)
    if rows is not None:
        return rows if type(rows) is int and rows >= 0 else whole_rows(rows, name="num_rows")
    if isinstance(chunk, _NOT_OF_ROWS) or (isinstance(chunk, tuple) and hasattr(chunk, "_fields")):
        rule = "must be an Arrow batch or a sequence of rows, such as [row, row], or be sent with rows = …"
        raise InvalidParametersError(name="chunk", value=type(chunk), rule=rule)  # itself, it may be megabytes
    try:
        return len(chunk)  # type: ignore[arg-type]  # the check itself
    except TypeError as error:
        if not hasattr(type(chunk), "__len__"):
            return 1
        raise InvalidParametersError(
            name="chunk", value=chunk, rule=f"must tell its length ({error}), or be sent with rows = …"
        ) from error


# Below this, all of an Arrow batch's memory counts, though the batch may be a slice of it: the exact number takes 50
# times as long to find.
_EXACT_FROM_BYTES = 256 << 10
_KINDS_OF_CHUNKS = 256


@lru_cache(maxsize=_KINDS_OF_CHUNKS)
def byte_counter(kind: type) -> Callable[[Any], int] | None:
    """What counts the bytes of chunks of this type, for the byte window; None: they are not counted.

    Known are bytes and texts, Arrow's and Polars's batches and tables, and what has ``nbytes``, such as arrays of
    NumPy.  Nobody knows what a list of objects takes.
    """
    if issubclass(kind, bytes | bytearray | str):
        return len
    if hasattr(kind, "get_total_buffer_size"):
        return _bytes_of_arrow
    if hasattr(kind, "nbytes"):
        return attrgetter("nbytes")
    if hasattr(kind, "estimated_size"):
        return methodcaller("estimated_size")
    return None


def _bytes_of_arrow(chunk: Any) -> int:
    size: int = chunk.get_total_buffer_size()
    if size > _EXACT_FROM_BYTES:
        size = chunk.nbytes
    return size


def sums_of_bytes(chunks: Sequence[object]) -> Sequence[int] | None:
    """The bytes of the first 0, 1, 2 ... chunks together; None if ``byte_counter`` counts none of them."""
    counters = {kind: byte_counter(kind) for kind in {*map(type, chunks)}}
    if not any(counters.values()):
        return None
    if len(counters) == 1:
        (count_bytes,) = counters.values()
        sizes: Iterable[int] = map(count_bytes, chunks)  # type: ignore[arg-type]  # it is not None
    else:
        sizes = (count(chunk) if (count := counters[type(chunk)]) else 0 for chunk in chunks)
    return [*accumulate(sizes, initial=0)]


def whole_bytes(size_bytes: object) -> int:
    """Check what a caller's ``size_of`` has returned; raises as ``whole_rows``."""
    return whole_rows(size_bytes, name="size_of(chunk)")


def slices(chunk: T, max_rows: int) -> Iterator[T]:
    """Cut a chunk into slices of at most ``max_rows`` rows, in order; without a copy if the chunk's type allows.

    Raises:
        InvalidParametersError: ``max_rows`` is below 1.
        UnsplittableChunkError: the chunk cannot be sliced by rows.
    """
    if max_rows < 1:
        raise InvalidParametersError(name="max_rows", value=max_rows, rule="must be at least 1")
    rows = rows_of(chunk)
    if rows <= max_rows:
        yield chunk
        return
    for start in range(0, rows, max_rows):
        yield _slice(chunk, start, min(start + max_rows, rows), max_rows)


def sized_slices(chunk: T, rows: int, max_rows: int) -> list[tuple[T, int]]:
    """Cut a chunk of more than ``max_rows`` rows as ``slices`` does; each slice comes with its number of rows.

    Raises:
        InvalidParametersError: the chunk's own number of rows is not ``rows``.
        UnsplittableChunkError: the chunk cannot be sliced by rows.
    """
    own_rows = rows_of(chunk)
    if own_rows != rows:
        rule = f"must equal the chunk's own {own_rows} where it exceeds max_chunk_cost = {max_rows} and is split"
        raise InvalidParametersError(name="rows", value=rows, rule=rule)
    return [(piece, rows_of(piece)) for piece in slices(chunk, max_rows)]


def part(chunk: T, start: int, stop: int) -> T:
    """Rows ``start`` to ``stop`` of a chunk, without the last; without a copy if the chunk's type allows.

    Raises:
        UnsplittableChunkError: the chunk cannot be sliced by rows.
    """
    return _slice(chunk, start, stop, stop - start)


def tail(chunk: T, start: int) -> T:
    """The rest of a chunk, from row ``start`` on.

    Raises:
        UnsplittableChunkError: the chunk cannot be sliced by rows.
    """
    if start == 0:  # it need not tell its rows
        return chunk
    rows = rows_of(chunk)
    return _slice(chunk, start, rows, rows - start)


def _slice(chunk: T, start: int, stop: int, max_rows: int) -> T:
    """Rows ``start`` to ``stop``: by ``slice(offset, length)`` for Arrow and Polars, by brackets for other types."""
    try:
        cut = getattr(chunk, "slice", None)
        piece = chunk[start:stop] if cut is None else cut(start, stop - start)  # type: ignore[index]  # may fail
        length = rows_of(piece)
    except (TypeError, KeyError, AttributeError, InvalidParametersError) as error:
        reason = f"slicing it failed with {type(error).__name__}: {error}"
        raise _unsplittable(chunk, max_rows, reason) from error
    if length != stop - start:
        raise _unsplittable(chunk, max_rows, f"its slice of {stop - start} rows has {length}")
    result: T = piece
    return result


def _unsplittable(chunk: object, max_rows: int, reason: str) -> UnsplittableChunkError:
    return UnsplittableChunkError(
        chunk_type=type(chunk).__name__, rows=rows_of(chunk), max_rows=max_rows, reason=reason
    )
