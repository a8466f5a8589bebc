"""A streaming reader that was refused: it tells the user why at Spark's first question.

Spark's process for streaming sources hides what a reader's constructor raises behind an UnboundLocalError of its own.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from permitflow.errors import PermitflowError

if TYPE_CHECKING:
    import pyarrow as pa


class RefusedStreamReader(DataSourceStreamReader):
    """Answers each question with the error; a query that goes on from its checkpoint skips the first one."""

    def __init__(self, error: PermitflowError) -> None:
        self._error = error

    def _refuse(self) -> NoReturn:
        raise self._error.with_traceback(None) from None  # in words, as what planning refuses

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Refuse."""
        self._refuse()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        """Refuse."""
        self._refuse()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """Refuse."""
        self._refuse()

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Refuse."""
        self._refuse()
