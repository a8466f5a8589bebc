"""Reads rows from a file or a pipe, batch by batch: some MiB are in memory."""

import codecs
import io
import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from permitflow.errors import RowFileError
from permitflow_tools.row_files import RowFormat

_BLOCK_BYTES = 1 << 20
_MOST_LINE_BYTES = 16 << 20  # that of a message
_SHOWN_DIGITS = 40
_FEWEST_ROWS_AT_ONCE, _MOST_ROWS_AT_ONCE, _BYTES_AT_ONCE = 8, 8_192, 8 << 20  # of Parquet
_FILE_MAGIC = b"ARROW1"
_UNREADABLE = (pa.ArrowException, OSError, ValueError, EOFError, KeyError)


class RowReader(NamedTuple):
    """The rows of an input; iterating raises ``RowFileError`` behind the last batch that could be read."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def open_rows(file: BinaryIO, what: str, row_format: RowFormat, schema: pa.Schema | None = None) -> RowReader:
    """Open an input, and learn its schema.

    Without ``schema``, that of CSV and JSON lines is inferred from the first MiB: it is read before anything else.

    Args:
        file: the input, at its beginning; only Parquet and Arrow's file format need one that can seek.
        what: its name, for errors.
        row_format: how the rows stand there.
        schema: of the rows; Arrow and Parquet bring their own, which is cast to it.

    Raises:
        RowFileError: it is not of this format, or has no rows from which a schema could be inferred.
    """
    try:
        if row_format is RowFormat.CSV:
            return _csv(file, what, schema)
        if row_format is RowFormat.JSON_LINES:
            return _JsonLines(file, what, schema).reader()
        reader = _parquet(file, what) if row_format is RowFormat.PARQUET else _arrow(file, what)
    except RowFileError:
        raise
    except _UNREADABLE as error:
        raise RowFileError(path=what, place="", reason=f"it is no {_WORDS[row_format]}: {_short(error)}") from error
    return reader if schema is None else _cast(reader, schema, what)


_WORDS = {
    RowFormat.ARROW: "Arrow IPC",
    RowFormat.PARQUET: "Parquet",
    RowFormat.CSV: "CSV",
    RowFormat.JSON_LINES: "JSON lines",
}


def _short(error: BaseException) -> str:
    words = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)  # not as a literal
    return " ".join(words.removeprefix("JSON parse error: ").split())[:300].rstrip(".")  # more may follow


def _placed(batches: Iterator[pa.RecordBatch], what: str) -> Iterator[pa.RecordBatch]:
    """Each batch, if it is valid; an error says behind which row it is."""
    rows = 0
    try:
        for batch in batches:
            batch.validate(full=True)  # damaged ones can be read, and break what they are given to
            yield batch
            rows += batch.num_rows
    except RowFileError:
        raise
    except _UNREADABLE as error:
        raise RowFileError(path=what, place=f", behind row {rows:,}", reason=_short(error)) from error


def _cast(reader: RowReader, schema: pa.Schema, what: str) -> RowReader:
    def cast(table: pa.Table) -> pa.Table:
        return table.select(schema.names).cast(schema)

    try:
        cast(reader.schema.empty_table())  # to complain before anything is sent
    except _UNREADABLE as error:
        reason = f"its columns cannot become those of --schema: {_short(error)}"
        raise RowFileError(path=what, place="", reason=reason) from error
    batches = (one for batch in reader.batches for one in cast(pa.Table.from_batches([batch])).to_batches())
    return RowReader(schema, _placed(batches, what))


# Arrow and Parquet.


def _arrow(file: BinaryIO, what: str) -> RowReader:
    first = file.read(len(_FILE_MAGIC))
    if first == _FILE_MAGIC:
        if not file.seekable():
            reason = "it is in Arrow's file format, which cannot be read from a pipe: name the file, or pipe a stream"
            raise RowFileError(path=what, place="", reason=reason)
        file.seek(0)
        found = pa.ipc.open_file(file)
        batches = (found.get_batch(number) for number in range(found.num_record_batches))
        return RowReader(found.schema, _placed(batches, what))
    stream = pa.ipc.open_stream(_Ahead(first, file))
    return RowReader(stream.schema, _placed(iter(stream), what))


def _parquet(file: BinaryIO, what: str) -> RowReader:
    if not file.seekable():
        reason = "Parquet cannot be read from a pipe, because its index is at its end: name the file"
        raise RowFileError(path=what, place="", reason=reason)
    found = pyarrow.parquet.ParquetFile(file, pre_buffer=False)
    return RowReader(found.schema_arrow, _placed(_parquet_batches(found), what))


def _parquet_batches(found: pyarrow.parquet.ParquetFile) -> Iterator[pa.RecordBatch]:
    """Batches of some MiB if rows are of about one length: by that of the last ones it is chosen how many come next.

    A file of a few hundred bytes may repeat a long one for ever.
    """
    for batch in found.iter_batches(_FEWEST_ROWS_AT_ONCE, use_threads=False):
        yield batch
        # What a dictionary takes does not depend on the number of rows.
        columns = (each.indices if pa.types.is_dictionary(each.type) else each for each in batch.columns)
        of_row_bytes = max(1, sum(column.nbytes for column in columns) // max(1, batch.num_rows))
        rows = min(_MOST_ROWS_AT_ONCE, 8 * batch.num_rows, _BYTES_AT_ONCE // of_row_bytes)
        found.reader.set_batch_size(max(_FEWEST_ROWS_AT_ONCE, rows))  # from the next batch on


class _Ahead(io.RawIOBase):
    """A file of which some bytes were read already."""

    def __init__(self, first: bytes, file: BinaryIO) -> None:
        self._first, self._file = first, file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        first, self._first = self._first, b""
        if 0 <= size < len(first):
            first, self._first = first[:size], first[size:]
            return first
        return first + self._file.read(size - len(first) if size >= 0 else -1)


_MOST_WHOLE = str((1 << 63) - 1)


def _is_too_wide(text: str | None) -> bool:
    """Is this a whole number that Arrow would make a float, and so another number?"""
    digits = (text or "").removeprefix("-").lstrip("0")
    return (len(digits), digits) > (len(_MOST_WHOLE), _MOST_WHOLE) and digits.isdecimal()


def _too_wide(number: str, name: str) -> str:
    shown = number if len(number) <= _SHOWN_DIGITS else f"{number[:_SHOWN_DIGITS]}..."
    return f"{shown} would lose digits as a float: give the schema with --schema, where {name} is uint64, or float64"


# CSV.


# One thread: only then errors tell the row.
_CSV_READ = pyarrow.csv.ReadOptions(use_threads=False, block_size=2 * _MOST_LINE_BYTES)
_CSV_PARSE = pyarrow.csv.ParseOptions(newlines_in_values=True)
# Nothing between two commas is null; "" is an empty text.
_CSV_NULLS = {"null_values": [""], "strings_can_be_null": True, "quoted_strings_can_be_null": False}


# As Arrow reads it: a quote opens at the beginning of a field only, and what follows a closed one is as it is.
_FIELD = rb'(?:"[^"]*+(?:""[^"]*+)*+"|(?!"))[^,\r\n]*+'
_FIELDS = re.compile(rb"(?:%b(?:,|\r?\n|\r))*+" % _FIELD)
_ROWS = re.compile(rb"(?:%b(?:,%b)*+(?:\r?\n|\r(?!\n|\Z)))*+" % (_FIELD, _FIELD))
# Pairs of quotes, as long as each one that opens is at the beginning of a field.
_QUOTED = re.compile(rb'(?:[^"]*+(?<![^,\r\n"])"[^"]*+")*+')


class _WholeRows(io.RawIOBase):
    """CSV, about a MiB of whole rows at a time: of a row that is cut off, Arrow would make a whole one."""

    def __init__(self, file: BinaryIO, what: str) -> None:
        self._what = what
        mark = file.read(len(codecs.BOM_UTF8))
        self._file: BinaryIO | _Ahead = file if mark == codecs.BOM_UTF8 else _Ahead(mark, file)
        self._first = self._left = b""
        self._lines = 0
        self._is_over = False
        self._error: RowFileError | None = None

    def readable(self) -> bool:
        return True

    def read(self, _size: int = -1) -> bytes:
        """The next rows, the last one with its end; nothing behind them, or behind those before a wrong one."""
        if self._first:
            first, self._first = self._first, b""
            return first
        while not self._is_over:
            more = self._file.read(_BLOCK_BYTES)
            self._left += more
            if len(more) < _BLOCK_BYTES:
                self._is_over = True
                self._left += b"" if self._left[-1:] in (b"", b"\n") else b"\n"
            end = _end_of_rows(self._left)
            if self._is_over and end < len(self._left):
                reason = "the quote that opens there is not closed: the input is cut off, or has a quote too many"
                self._end(_end_of(_FIELDS, self._left), reason)
            elif len(self._left) - end > _MOST_LINE_BYTES:
                self._end(end, f"the row is longer than {_MOST_LINE_BYTES >> 20} MiB, or a quote in it is not closed")
            if self._is_over or end > _BLOCK_BYTES // 2:  # of names alone no types could be inferred
                rows, self._left = self._left[:end], self._left[end:]
                self._lines += _lines_in(rows)
                return rows
        return b""

    def first(self) -> bytes:
        """The first rows, which will be read again.

        Raises:
            RowFileError: one of them cannot be read.
        """
        self._first = self.read()
        self.require_whole()
        return self._first

    def _end(self, place: int, reason: str) -> None:
        line = self._lines + _lines_in(self._left[:place]) + 1
        self._is_over = True
        self._error = RowFileError(path=self._what, place=f", line {line:,}", reason=reason)

    def require_whole(self) -> None:
        """Raise the error, if what was read so far ends with a row that cannot be read."""
        if self._error is not None:
            raise self._error


def _end_of_rows(text: bytes) -> int:
    stop = len(text)
    if b'"' in text:
        opened = text.find(b'"', _end_of(_QUOTED, text))
        if opened > 0 and text[opened - 1] not in b',\r\n"':
            return _end_of(_ROWS, text)  # a quote within a field, which opens nothing: exact, and slower
        stop = opened if opened >= 0 else stop
    while True:
        quote = text.rfind(b'"', 0, stop)
        end = max(text.rfind(b"\n", quote + 1, stop), text.rfind(b"\r", quote + 1, min(stop, len(text) - 1))) + 1
        if end or quote < 0:
            return end
        stop = text.rfind(b'"', 0, quote)  # where what this one closes is opened: look before it


def _end_of(pattern: re.Pattern[bytes], text: bytes) -> int:
    found = pattern.match(text)
    assert found is not None, "it matches nothing at all, too"
    return found.end()


def _lines_in(text: bytes) -> int:
    returns = text.count(b"\r")
    return text.count(b"\n") + (returns and returns - text.count(b"\r\n"))


def _csv(file: BinaryIO, what: str, schema: pa.Schema | None) -> RowReader:
    whole = _WholeRows(file, what)
    found = _inferred_csv(whole.first(), what, must_be_exact=schema is None)
    if twice := next((name for name in found.names if found.names.count(name) > 1), None):
        raise RowFileError(path=what, place="", reason=f"it has two columns of the name {twice!r}: rename one")
    if schema is None:
        if wrong := next((field.name for field in found if pa.types.is_binary(field.type)), None):
            raise RowFileError(path=what, place="", reason=f"column {wrong!r} is not text in UTF-8")
        schema = _without_nulls(found)
    elif missing := next((name for name in schema.names if name not in found.names), None):
        raise RowFileError(path=what, place="", reason=f"it has no column {missing!r}, but {', '.join(found.names)}")
    try:
        opened = pyarrow.csv.open_csv(
            whole,
            read_options=_CSV_READ,
            parse_options=_CSV_PARSE,
            convert_options=pyarrow.csv.ConvertOptions(column_types=schema, include_columns=schema.names, **_CSV_NULLS),
        )
    except _UNREADABLE as error:  # of the first block
        raise RowFileError(path=what, place="", reason=_short(error)) from error

    def batches() -> Iterator[pa.RecordBatch]:
        yield from opened
        whole.require_whole()

    return RowReader(schema, _placed(batches(), what))


def _inferred_csv(first: bytes, what: str, *, must_be_exact: bool) -> pa.Schema:
    if not first.strip():
        raise RowFileError(path=what, place="", reason="it is empty: CSV begins with a line of names")

    def opened(**options: Any) -> pyarrow.csv.CSVStreamingReader:
        convert = pyarrow.csv.ConvertOptions(**_CSV_NULLS, **options)
        return pyarrow.csv.open_csv(io.BytesIO(first), _CSV_READ, _CSV_PARSE, convert)

    try:
        with opened() as reader:
            found = reader.schema
        floats = [field.name for field in found if pa.types.is_floating(field.type)]
        if not floats or not must_be_exact or len({*found.names}) < len(found):
            return found
        with opened(include_columns=floats, column_types=dict.fromkeys(floats, pa.string())) as reader:
            texts = reader.read_next_batch()
    except _UNREADABLE as error:
        raise RowFileError(path=what, place="", reason=f"it is not CSV: {_short(error)}") from error
    for name, column in zip(texts.schema.names, texts.columns, strict=True):
        if wide := next(filter(_is_too_wide, column.to_pylist()), None):
            raise RowFileError(path=what, place="", reason=_too_wide(wide, repr(name)))
    return found


def _without_nulls(schema: pa.Schema) -> pa.Schema:
    """Columns without any value so far hold text."""
    types = (pa.string() if pa.types.is_null(field.type) else field.type for field in schema)
    return pa.schema([*zip(schema.names, types, strict=True)])


# JSON lines.


class _JsonLines:
    """Objects, one a line; lines that have come are read at once."""

    def __init__(self, file: BinaryIO, what: str, schema: pa.Schema | None) -> None:
        self._file, self._what = file, what
        self._lines = 0
        self._schema = schema

    def reader(self) -> RowReader:
        blocks = self._blocks()
        first: list[bytes] = []
        if self._schema is None:
            first = [next(blocks, b"")]
            if not first[0].strip():
                reason = "it has no lines: give the schema with --schema"
                raise RowFileError(path=self._what, place="", reason=reason)
            self._schema = self._inferred(first[0])
        return RowReader(self._schema, self._batches(chain(first, blocks)))

    def _blocks(self) -> Iterator[bytes]:
        """Whole lines; without a schema, first as many as it is inferred from."""
        left = b""
        if self._schema is None:
            left = self._file.read(_BLOCK_BYTES)
        while True:
            end = left.rfind(b"\n") + 1
            if end:
                yield left[:end]
                left = left[end:]
            elif len(left) > _MOST_LINE_BYTES:
                place = f", line {self._lines + 1:,}"
                reason = f"the line is longer than {_MOST_LINE_BYTES >> 20} MiB"
                raise RowFileError(path=self._what, place=place, reason=reason)
            more = _some(self._file)
            if not more:
                break
            left += more
        if left.strip():
            yield left

    def _inferred(self, block: bytes) -> pa.Schema:
        for found in _LONG_NUMBER.finditer(block):
            if _is_too_wide(number := found[1].decode()):
                place = f", line {len(block[: found.end()].splitlines()):,}"
                raise RowFileError(path=self._what, place=place, reason=_too_wide(number, "its field"))
        try:
            return _without_nulls(_json(block, None).schema)
        except _UNREADABLE as error:
            lines = block.splitlines()
            number = _first_refused(lines, None)
            if reason := _refused(lines[number], None):
                raise RowFileError(path=self._what, place=f", line {number + 1:,}", reason=reason) from error
            reason = f"its lines do not fit together: {_short(error)}; give the schema with --schema"
            raise RowFileError(path=self._what, place=f", lines 1 to {len(lines):,}", reason=reason) from error

    def _batches(self, blocks: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
        for block in blocks:
            lines = block.splitlines()
            if block.strip():
                try:
                    yield from self._parsed(block)
                except _UNREADABLE as error:
                    yield from self._up_to_the_bad(lines, error)
            self._lines += len(lines)

    def _parsed(self, block: bytes) -> list[pa.RecordBatch]:
        assert self._schema is not None, "it was inferred from the first block"
        batches: list[pa.RecordBatch] = _json(block, self._schema).select(self._schema.names).to_batches()
        return batches

    def _up_to_the_bad(self, lines: list[bytes], error: BaseException) -> Iterator[pa.RecordBatch]:
        number = _first_refused(lines, self._schema)
        if reason := _refused(lines[number], self._schema):
            if any(each.strip() for each in lines[:number]):
                yield from self._parsed(b"\n".join(lines[:number]))
            place = f", line {self._lines + number + 1:,}"
            raise RowFileError(path=self._what, place=place, reason=reason) from error
        place = f", lines {self._lines + 1:,} to {self._lines + len(lines):,}"
        raise RowFileError(path=self._what, place=place, reason=_short(error)) from error


_JSON_READ = pyarrow.json.ReadOptions(use_threads=False, block_size=2 * _MOST_LINE_BYTES)


_LONG_NUMBER = re.compile(rb"[:\[,][ \t]*(-?\d{19,})[ \t]*[,\]}]")
_NO_OBJECT = re.compile(rb"\n[ \t\r]*[^{ \t\r\n]")


def _json(block: bytes, schema: pa.Schema | None) -> pa.Table:
    """Raises one of ``_UNREADABLE``."""
    block = block.removeprefix(codecs.BOM_UTF8)  # some editors begin a file with it
    if _NO_OBJECT.search(b"\n" + block):  # of null, Arrow makes a row without values, or a crash
        raise ValueError('a line must be an object, as {"n": 1}')
    parse = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error" if schema else "infer")
    found = pyarrow.json.read_json(io.BytesIO(block), _JSON_READ, parse)
    found.validate(full=True)  # its texts may be no UTF-8
    return found


def _first_refused(lines: list[bytes], schema: pa.Schema | None) -> int:
    """The first of lines that cannot all be read: those before it can."""

    def are_refused(end: int) -> bool:
        block = b"\n".join(lines[:end])
        return bool(block.strip() and _refused(block, schema))

    # Each by itself would take many times as long.
    return bisect_left(range(1, len(lines)), True, key=are_refused)


def _refused(line: bytes, schema: pa.Schema | None) -> str:
    try:
        _json(line, schema)
    except _UNREADABLE as error:
        reason = _short(error).removesuffix(" in row 0").rstrip(".")
        return reason + _unknown_name(line, schema) if reason.endswith("unexpected field") else reason
    return ""


def _unknown_name(line: bytes, schema: pa.Schema | None) -> str:
    """Which field it is, as Arrow does not say; nothing of several lines, or of a field within another one."""
    try:
        return next((f" {name!r}" for name in json.loads(line) if schema and name not in schema.names), "")
    except (ValueError, RecursionError):
        return ""


def _some(file: BinaryIO) -> bytes:
    """What has come, at least a byte; nothing at the end."""
    read1 = getattr(file, "read1", None)
    found: bytes = (file.read if read1 is None else read1)(_BLOCK_BYTES)
    return found


def open_input(path: Path) -> BinaryIO:
    """Open a file to read.

    Raises:
        RowFileError: it cannot be opened.
    """
    try:
        return path.open("rb")
    except OSError as error:
        raise RowFileError(path=str(path), place="", reason=f"cannot be read: {error.strerror or error}") from error
