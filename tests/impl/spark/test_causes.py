"""A program finds out which error of this package has ended its job."""

import traceback
from collections.abc import Iterator

import pytest
from pyspark.sql.types import StructType

from permitflow.errors import (
    ChannelSpentError,
    InvalidOptionError,
    PeerGoneError,
    PermitflowError,
    RowsLostError,
    TransportError,
)
from permitflow.spark import cause_of
from permitflow.spark.calls.source import GrpcDataSource
from permitflow.spark.causes import read_in_words, told_in_words
from permitflow.spark.source import ChannelPartition, PermitflowDataSource
from permitflow.spark.stream_planning import RowRange
from permitflow.spark.stream_source import ChannelRows

TEXT = """[STREAM_FAILED] Query [id = 5, runId = 6] terminated with exception: [PYTHON_DATA_SOURCE_ERROR]
Traceback (most recent call last):
  File "reading.py", line 1, in read_range
permitflow.errors.RowsForgottenError: row 7 of channel 'orders/0' was acknowledged and is forgotten

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "reading.py", line 2, in read_range
permitflow.errors.RowsLostError: consumer 'etl' has lost rows of channel 'orders/0'
 SQLSTATE: XXKST"""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError(TEXT), RowsLostError),
        (RuntimeError("pyspark.errors.X: permitflow.errors.ChannelSpentError: it was read"), ChannelSpentError),
        (PeerGoneError(who="x", reason="y"), PeerGoneError),
        (RuntimeError("permitflow.errors.NoSuchError: y"), None),
        (ValueError("of the user"), None),
    ],
)
def test_the_last_error_in_sparks_text_is_the_cause(error: Exception, kind: type[PermitflowError] | None) -> None:
    assert cause_of(error) is kind


@pytest.mark.parametrize("source", [PermitflowDataSource, GrpcDataSource])
def test_a_wrong_option_is_told_without_the_calls_inside(
    source: type[PermitflowDataSource | GrpcDataSource],
) -> None:
    made = source({"stram": "orders"})
    for plan in (
        made.schema,
        lambda: made.reader(StructType()),
        lambda: made.writer(StructType(), overwrite=False),
        lambda: made.streamWriter(StructType(), overwrite=False),
    ):
        with pytest.raises(InvalidOptionError) as caught:
            plan()
        assert traceback.extract_tb(caught.tb)[-1].name == "plan"
        assert caught.value.__suppress_context__


def test_a_failed_task_or_batch_is_told_without_the_calls_inside() -> None:
    made = PermitflowDataSource(
        {"address": "127.0.0.1:1", "stream": "orders", "channels": "1", "timeoutSeconds": "0.1"}
    )
    stream, rows = made.streamReader(StructType()), RowRange("orders/0", "log", 0, 1)
    for ask in (
        stream.initialOffset,
        lambda: list(stream.read(ChannelRows((rows,)))),
        lambda: list(made.reader(StructType()).read(ChannelPartition("orders/0"))),
        lambda: made.streamWriter(StructType().add("id", "long"), overwrite=False).commit([None], 0),
    ):
        with pytest.raises(PermitflowError) as caught:
            ask()
        assert traceback.extract_tb(caught.tb)[-1].name in ("plan", "read")
        assert caught.value.__suppress_context__


def test_a_failure_that_is_none_of_ours_is_told_with_its_cause() -> None:
    def fail() -> Iterator[int]:
        raise TransportError.of(what="the sender of channel 'orders/0' failed", cause=MemoryError())

    for failing in (told_in_words(fail), lambda: list(read_in_words(fail)())):
        with pytest.raises(TransportError) as caught:
            failing()
        assert isinstance(caught.value.__cause__, MemoryError)
