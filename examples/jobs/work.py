"""What a job is: a number to work on; and the channels between the master and a worker."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

JOBS = pa.schema([("client", pa.string()), ("number", pa.int64()), ("work", pa.int64())])
RESULTS = pa.schema([("client", pa.string()), ("number", pa.int64()), ("result", pa.int64()), ("worker", pa.string())])


def result_of(work: int) -> int:
    """The result of a job."""
    return 2 * work + 1


class Result(NamedTuple):
    """A row of the channel with results."""

    client: str
    """Empty: this is none, but says that the worker is there."""
    number: int
    result: int
    worker: str
    """The start of the worker, as in ``w1#2``."""


def jobs_stream(worker: str) -> str:
    """The stream to a worker."""
    return f"jobs-{worker}"


def results_stream(worker: str) -> str:
    """The stream from a worker."""
    return f"results-{worker}"


def results_of(chunk: pa.RecordBatch) -> Iterator[Result]:
    """The rows of a chunk of results."""
    columns = (column.to_pylist() for column in chunk.columns)
    return map(Result, *columns)


def chunk_of(*results: Result) -> pa.RecordBatch:
    """A chunk of results."""
    return pa.record_batch([list(column) for column in zip(*results, strict=True)], schema=RESULTS)
