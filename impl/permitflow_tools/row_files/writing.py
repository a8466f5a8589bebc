"""Writes rows into a file or a pipe, batch by batch.

A file has another name, ``NAME.part``, until it is whole.  What has come so far can be read there, because each format
is brought to its end.
"""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from permitflow.errors import RowFileError
from permitflow_tools.row_files import RowFormat
from permitflow_tools.row_files.values import as_json, rows_of

# Of a row group of Parquet, or the bytes of its rows.
_GROUP_ROWS = 65_536
_GROUP_BYTES = 64 << 20


class RowWriter(ABC):
    """Writes batches of one schema into an open file, which it does not close."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch.

        Raises:
            OSError: the file takes no more; a broken pipe is one.
            ArrowInvalid, ArrowNotImplementedError, ValueError: the format cannot hold it.
        """

    @abstractmethod
    def close(self) -> None:
        """Write the format's end."""


class _Arrow(RowWriter):
    def __init__(self, file: BinaryIO, schema: pa.Schema, *, is_stream: bool) -> None:
        self._writer = (pa.ipc.new_stream if is_stream else pa.ipc.new_file)(file, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _Csv(RowWriter):
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._schema = _with_types(schema, lambda kind: _OF_VIEWS.get(kind, kind))
        self._writer = pyarrow.csv.CSVWriter(file, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch.cast(self._schema))

    def close(self) -> None:
        self._writer.close()


class _Parquet(RowWriter):
    """Rows are gathered into groups: those of a small batch each would make the file slow to read."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pyarrow.parquet.ParquetWriter(file, schema)
        self._schema = schema
        self._gathered: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._gathered.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        gathered, self._gathered, self._rows, self._bytes = self._gathered, [], 0, 0
        if gathered:
            self._writer.write_table(pa.Table.from_batches(gathered, self._schema))

    def close(self) -> None:
        self._write_group()
        self._writer.close()


class _JsonLines(RowWriter):
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        if len(set(schema.names)) < len(schema.names):
            raise ValueError("JSON cannot hold two columns of one name")
        self._file, self._schema = file, _with_types(schema, _without_maps)

    def write(self, batch: pa.RecordBatch) -> None:
        self._file.write("".join(map(_line, rows_of(batch.cast(self._schema)))).encode())

    def close(self) -> None:
        """Each line is whole."""


# What Arrow writes as CSV, for what it does not.
_OF_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def _with_types(schema: pa.Schema, fitting: Callable[[pa.DataType], pa.DataType]) -> pa.Schema:
    return pa.schema([(field.name, fitting(field.type)) for field in schema])


def _without_maps(kind: pa.DataType) -> pa.DataType:
    """With lists of objects in place of maps: of pairs, whose two values have two types, Arrow reads no list."""
    if pa.types.is_map(kind):
        pair = [("key", _without_maps(kind.key_type)), ("value", _without_maps(kind.item_type))]
        return pa.list_(pa.struct(pair))
    if not _has_map(kind):
        return kind
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _without_maps(field.type)) for field in kind.fields])
    return pa.list_(_without_maps(kind.value_type))


def _has_map(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(_has_map(kind.field(place).type) for place in range(kind.num_fields))


def _line(row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False, default=as_json) + "\n"
    except ValueError:  # JSON has no infinity and nothing that is not a number
        return json.dumps(as_json(row), ensure_ascii=False) + "\n"


class _Counted:
    """A pipe whose place can be asked for, as the end of a file of Arrow or Parquet needs."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._place = file, 0

    def write(self, content: bytes) -> int:
        self._file.write(content)
        self._place += len(content)
        return len(content)

    def tell(self) -> int:
        return self._place

    def flush(self) -> None:
        self._file.flush()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Leave the file open."""


def open_writer(file: BinaryIO, row_format: RowFormat, schema: pa.Schema, *, is_stream: bool = False) -> RowWriter:
    """Begin to write rows into a file.

    Args:
        file: open for writing; it need not seek.
        row_format: how rows stand there.
        schema: of the rows.
        is_stream: of Arrow: in its stream format.

    Raises:
        ArrowInvalid, ArrowNotImplementedError, ValueError: the format cannot hold such rows.
    """
    with suppress(pa.ArrowInvalid):  # some column takes no nulls
        # Some types are refused only with a row, which has left its channel by then.
        trial = _opened(BytesIO(), row_format, schema, is_stream=is_stream)
        trial.write(pa.record_batch([pa.nulls(1, kind) for kind in schema.types], schema=schema))
        trial.close()
    return _opened(file, row_format, schema, is_stream=is_stream)


def _opened(file: BinaryIO, row_format: RowFormat, schema: pa.Schema, *, is_stream: bool) -> RowWriter:
    counted: Any = _Counted(file)
    match row_format:
        case RowFormat.ARROW:
            return _Arrow(counted, schema, is_stream=is_stream)
        case RowFormat.PARQUET:
            return _Parquet(counted, schema)
        case RowFormat.CSV:
            return _Csv(counted, schema)
        case RowFormat.JSON_LINES:
            return _JsonLines(file, schema)


class OutputFile:
    """A file that has another name until it is whole."""

    def __init__(self, path: Path) -> None:
        """Begin it.

        Raises:
            RowFileError: it cannot be written, or what an earlier run has left is there.
        """
        self.path = Path(os.path.realpath(path))  # of a link, what it points to
        self.part = self.path.with_name(f"{self.path.name}.part")
        self.is_whole = False
        try:
            if self.path.is_dir():
                raise IsADirectoryError(0, "it is a folder; name a file in it")
            self.file: BinaryIO = self.part.open("xb")
        except FileExistsError:
            reason = "it has rows of an earlier run, which are perhaps nowhere else: move it away first"
            raise RowFileError(path=str(self.part), place="", reason=reason) from None
        except OSError as error:
            reason = f"cannot be written: {error.strerror or error}"
            raise RowFileError(path=str(path), place="", reason=reason) from error

    def finish(self) -> None:
        """It is whole: give it its name."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        os.replace(self.part, self.path)
        self.is_whole = True

    def leave(self, *, keeps: bool) -> None:
        """It will not be whole: leave what there is under its other name, or remove it."""
        with suppress(OSError):  # the disk that was full is still full
            self.file.close()
        if not keeps:
            self.part.unlink(missing_ok=True)
