"""Rows in files: what is written is read again, in bounded pieces, and what cannot be read is told with its place."""

import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq
import pytest

from permitflow.errors import InvalidParametersError, RowFileError
from permitflow_tools.row_files import RowFormat, format_of, writing
from permitflow_tools.row_files.reading import open_rows
from permitflow_tools.row_files.schemas import parsed_schema
from permitflow_tools.row_files.writing import OutputFile, open_writer

ROWS = pa.table(
    {
        "n": pa.array([1, None, 3], pa.int64()),
        "s": ['a,"b\nc', "", None],
        "f": [1.5, 2.0, None],
        "b": [True, False, None],
    }
)
EVERY = pytest.mark.parametrize("row_format", RowFormat)


class Pipe(io.RawIOBase):
    """Bytes that come in pieces, and cannot be sought in."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = [*pieces]
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._pieces:
            return 0
        self.taken += 1
        piece = self._pieces.pop(0)
        if len(piece) > len(buffer):
            self._pieces.insert(0, piece[len(buffer) :])
        buffer[: len(piece)] = piece[: len(buffer)]
        return min(len(piece), len(buffer))


def encoded(table: pa.Table, row_format: RowFormat, *, is_stream: bool = False) -> bytes:
    file = io.BytesIO()
    writer = open_writer(file, row_format, table.schema, is_stream=is_stream)
    for batch in table.to_batches(max_chunksize=2):
        writer.write(batch)
    writer.close()
    return file.getvalue()


def read(content: Any, row_format: RowFormat, schema: pa.Schema | None = None) -> pa.Table:
    file = io.BytesIO(content) if isinstance(content, bytes) else content
    found = open_rows(file, "in", row_format, schema)
    return pa.Table.from_batches(found.batches, found.schema)


@EVERY
def test_what_was_written_is_read_again(row_format: RowFormat) -> None:
    assert read(encoded(ROWS, row_format), row_format) == ROWS
    assert read(encoded(ROWS, row_format), row_format, ROWS.schema) == ROWS


@pytest.mark.parametrize("row_format", [RowFormat.CSV, RowFormat.JSON_LINES])
def test_a_byte_order_mark_is_none_of_the_text(row_format: RowFormat) -> None:
    content = "\ufeff".encode() + encoded(ROWS, row_format)
    assert read(content, row_format) == read(content, row_format, ROWS.schema) == ROWS


@pytest.mark.parametrize("row_format", [RowFormat.CSV, RowFormat.JSON_LINES, RowFormat.ARROW])
def test_a_pipe_is_read_however_it_is_cut(row_format: RowFormat) -> None:
    content = encoded(ROWS, row_format, is_stream=True)
    for size in (1, 7):
        pieces = [content[start : start + size] for start in range(0, len(content), size)]
        assert read(io.BufferedReader(Pipe(*pieces)), row_format, ROWS.schema) == ROWS


def test_lines_leave_as_they_come() -> None:
    pipe = Pipe(b'{"n": 1}\n{"n"', b": 2}\n", b'{"n": 3}')
    found = open_rows(io.BufferedReader(pipe), "in", RowFormat.JSON_LINES, parsed_schema("n:int64"))
    taken = [(batch.column(0).to_pylist(), pipe.taken) for batch in found.batches]
    assert taken == [([1], 1), ([2], 2), ([3], 3)]


@pytest.mark.parametrize(
    ("row_format", "content", "words"),
    [
        (RowFormat.CSV, b"", "in: it is empty: CSV begins with a line of names"),
        (RowFormat.CSV, b"n,s\n1,a\n2\n", "in: it is not CSV: CSV parse error: Row #3: Expected 2 columns, got 1"),
        (RowFormat.CSV, b'n,s\n1,"a\nb"\n2,"c\n3,d\n', "in, line 4: the quote that opens there is not closed"),
        (RowFormat.CSV, b'n,"s', "in, line 1: the quote that opens there is not closed"),
        (RowFormat.CSV, b'n\r1\r\n2\n3\r"4', "in, line 5: the quote that opens there is not closed"),
        (RowFormat.CSV, b"n\n\xff\n", "in: column 'n' is not text in UTF-8"),
        (RowFormat.JSON_LINES, b"", "in: it has no lines: give the schema with --schema"),
        (RowFormat.JSON_LINES, b'{"n": 1}\n{"n"\n', "in, line 2: Missing a colon after a name of object member"),
        (RowFormat.CSV, b"n,n\n1,2\n", "in: it has two columns of the name 'n'"),
        (RowFormat.JSON_LINES, b'{"n": 1}\n\n[1]\n', "in, line 3: a line must be an object"),
        (RowFormat.JSON_LINES, b"null\n", "in, line 1: a line must be an object"),
        (RowFormat.JSON_LINES, b'{"n": 1}\nnull\n', "in, line 2: a line must be an object"),
        (RowFormat.JSON_LINES, b'{"n": "\xff"}\n', "in, line 1: Column 0: In chunk 0: Invalid: Invalid UTF8"),
        (RowFormat.ARROW, b"n,s\n1,a\n", "in: it is no Arrow IPC"),
        (RowFormat.PARQUET, b"n,s\n1,a\n", "in: it is no Parquet"),
    ],
)
def test_what_is_no_such_file_is_told_with_its_place(row_format: RowFormat, content: bytes, words: str) -> None:
    with pytest.raises(RowFileError) as caught:
        read(content, row_format)
    assert str(caught.value).startswith(words)
    assert not str(caught.value).endswith(".")  # more may follow: what became of the rows before


@pytest.mark.parametrize(
    ("row_format", "content", "rows", "words"),
    [
        (RowFormat.CSV, b"n\n" + b"1\n" * 600_000 + b"x\n", 524_287, "Row #600002: CSV conversion error to int64"),
        (RowFormat.JSON_LINES, b'{"n": 1}\n{"n": 2}\n{"n": "x"}\n', 2, "in, line 3: Column(/n) changed from number"),
        (RowFormat.JSON_LINES, b'{"n": 1}\n{"m": 2}\n', 1, "in, line 2: unexpected field 'm'"),
        (RowFormat.JSON_LINES, b'{"n": 1}\n{"m": ' + 9_000 * b"[" + 9_000 * b"]" + b"}\n", 1, "unexpected field"),
    ],
    ids=["csv", "another type", "another name", "deep"],
)
def test_rows_before_a_wrong_one_are_read(row_format: RowFormat, content: bytes, rows: int, words: str) -> None:
    found = open_rows(io.BytesIO(content), "in", row_format, parsed_schema("n:int64"))
    assert next(found.batches).num_rows == rows
    with pytest.raises(RowFileError) as caught:
        next(found.batches)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("content", "line"),
    [(b'{"n": 1}\n' * 200_000 + b"x\n", "200,001"), (b"\n \nx\n", "3"), (b"x\n", "1")],
    ids=["many", "blank", "none"],
)
def test_a_wrong_line_of_json_is_told_by_its_number(content: bytes, line: str) -> None:
    with pytest.raises(RowFileError, match=f"in, line {line}: a line must be an object"):
        read(content, RowFormat.JSON_LINES, parsed_schema("n:int64"))


@pytest.mark.parametrize("schema", [parsed_schema("n:int64"), None], ids=["given", "inferred"])
def test_a_wrong_line_is_found_without_reading_each_by_itself(
    schema: pa.Schema | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Mock(wraps=pyarrow.json.read_json)
    monkeypatch.setattr(pyarrow.json, "read_json", counted)
    with pytest.raises(RowFileError, match="in, line 1,001: Missing a colon"):
        read(b'{"n": 1}\n' * 1_000 + b'{"n"\n' + b'{"n": 1}\n' * 1_000, RowFormat.JSON_LINES, schema)
    assert counted.call_count < 50


def test_rows_of_csv_may_end_with_a_return_alone() -> None:
    content = b"s\r" + (b"x" * 999 + b"\r") * 19_000
    assert read(content, RowFormat.CSV).num_rows == 19_000


def test_all_rows_before_csv_is_cut_off_are_read() -> None:
    found = open_rows(io.BytesIO(b"n\n" + b"1\r\n" * 600_000 + b'"1'), "in", RowFormat.CSV)
    assert sum(next(found.batches).num_rows for _ in range(2)) == 600_000
    with pytest.raises(RowFileError, match="in, line 600,002: the quote that opens there is not closed"):
        next(found.batches)


def test_a_wrong_row_at_the_beginning_is_told_before_anything_is_sent() -> None:
    with pytest.raises(RowFileError, match="in: In CSV column #0: Row #4: CSV conversion error to int64"):
        open_rows(io.BytesIO(b"n\n1\n2\nx\n"), "in", RowFormat.CSV, parsed_schema("n:int64"))
    with pytest.raises(RowFileError, match="in: it has no column 'm', but n"):
        open_rows(io.BytesIO(b"n\n1\n"), "in", RowFormat.CSV, parsed_schema("m:int64"))


@pytest.mark.parametrize("row_format", [RowFormat.PARQUET, RowFormat.ARROW])
def test_a_schema_that_does_not_fit_is_told_before_anything_is_sent(row_format: RowFormat) -> None:
    with pytest.raises(RowFileError, match="in: its columns cannot become those of --schema"):
        open_rows(io.BytesIO(encoded(ROWS, row_format)), "in", row_format, parsed_schema("m:int64"))


def test_a_quoted_value_may_cross_the_end_of_the_first_mebibyte() -> None:
    content = b"s,n\n" + b'"' + b"line\n" * 150_000 + b'",1\n' + b'"' + b"line\n" * 100_000 + b'",2\n'
    assert read(content, RowFormat.CSV)["n"].to_pylist() == [1, 2]


@pytest.mark.parametrize("text", ['"a\nb, ""c""\n"', '"\n"""', '5" pipe', '""'], ids=repr)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=repr)
def test_no_row_of_csv_is_cut_at_the_end_of_a_mebibyte(text: str, end: str) -> None:
    content = f"n,s{end}" + "".join(f"{row},{text}{end}" for row in range(200_000))
    assert read(content.encode(), RowFormat.CSV)["n"].to_pylist() == [*range(200_000)]


@pytest.mark.parametrize(
    ("row_format", "content", "place"),
    [
        (RowFormat.CSV, b"s,n\na,1\nb,18446744073709551615\n", ""),
        (RowFormat.JSON_LINES, b'{"n": 1}\n{"n": 18446744073709551615, "s": "b"}\n', ", line 2"),
    ],
    ids=["csv", "jsonl"],
)
def test_a_whole_number_is_not_made_a_float(row_format: RowFormat, content: bytes, place: str) -> None:
    with pytest.raises(RowFileError, match=f"^in{place}: 18446744073709551615 would lose digits as a float"):
        open_rows(io.BytesIO(content), "in", row_format)
    stated = open_rows(io.BytesIO(content), "in", row_format, parsed_schema("n:uint64,s:string"))
    assert next(stated.batches)["n"].to_pylist() == [1, 2**64 - 1]


def test_a_long_row_is_read_and_a_too_long_one_is_told() -> None:
    long = b"s,n\n" + b"x" * (3 << 20) + b",1\n"
    assert read(long, RowFormat.CSV)["n"].to_pylist() == [1]
    with pytest.raises(RowFileError, match="in, line 3: the row is longer than 16 MiB"):
        read(long + b"x" * (18 << 20), RowFormat.CSV)


def test_the_last_line_of_csv_needs_no_end() -> None:
    assert read(b"a,b", RowFormat.CSV) == read(b"a,b\n", RowFormat.CSV)
    assert read(b"a,b", RowFormat.CSV).column_names == ["a", "b"]
    assert read(b'a,b\n1,""', RowFormat.CSV).to_pylist() == [{"a": 1, "b": ""}]


@pytest.mark.parametrize("value", [b'5"', b' "5', b'"5"""', b'"5"" of\r\n6"', b'"5" of "6', b'""'])
def test_a_quote_opens_only_at_the_beginning_of_a_value(value: bytes) -> None:
    content = b'\xef\xbb\xbf"a\n",b\r' + value + b",1\r\n" + value + b",2"
    assert read(content, RowFormat.CSV)["b"].to_pylist() == [1, 2]


def test_a_damaged_batch_is_no_batch() -> None:
    strange = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    with pytest.raises(RowFileError, match=r"in, behind row 0: .*Invalid UTF8"):
        read(encoded(pa.table({"s": strange}), RowFormat.ARROW), RowFormat.ARROW)


@pytest.mark.parametrize("row_format", [RowFormat.PARQUET, RowFormat.ARROW])
def test_what_needs_a_file_is_refused_from_a_pipe(row_format: RowFormat) -> None:
    with pytest.raises(RowFileError, match="cannot be read from a pipe"):
        read(io.BufferedReader(Pipe(encoded(ROWS, row_format))), row_format)


def test_a_damaged_stream_gives_its_whole_batches() -> None:
    content = encoded(ROWS, RowFormat.ARROW, is_stream=True)
    found = open_rows(io.BytesIO(content[:-40]), "in", RowFormat.ARROW)
    assert next(found.batches).num_rows == 2
    with pytest.raises(RowFileError, match="in, behind row 2: "):
        next(found.batches)


def test_json_has_values_that_it_does_not_know_as_text() -> None:
    values = pa.table(
        {
            "at": [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)],
            "d": [Decimal("1.10")],
            "x": [b"\x00\xff"],
            "f": [float("nan")],
        }
    )
    line = '{"at": "2026-01-02T03:04:05+00:00", "d": "1.10", "x": "AP8=", "f": null}\n'
    assert encoded(values, RowFormat.JSON_LINES).decode() == line


def test_a_view_is_written_as_csv_too() -> None:
    kinds = pa.schema([("s", pa.string_view()), pa.field("x", pa.binary_view(), nullable=False)])
    views = pa.table({"s": ["a", None], "x": [b"b", b""]}, kinds)
    assert encoded(views, RowFormat.CSV) == b'"s","x"\n"a","b"\n,""\n'


def test_a_map_is_json_that_is_read_again() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    nested = pa.struct([pa.field("l", pa.large_list(kind), nullable=False)])
    maps = pa.table({"m": [{"a": 1}, {}], "s": [{"l": [{"b": None}]}, None]}, pa.schema([("m", kind), ("s", nested)]))
    content = encoded(maps, RowFormat.JSON_LINES)
    assert content.splitlines()[0] == b'{"m": [{"key": "a", "value": 1}], "s": {"l": [[{"key": "b", "value": null}]]}}'
    assert encoded(read(content, RowFormat.JSON_LINES), RowFormat.JSON_LINES) == content


def test_a_format_refuses_rows_that_it_cannot_hold() -> None:
    with pytest.raises(ValueError, match="two columns of one name"):
        open_writer(io.BytesIO(), RowFormat.JSON_LINES, pa.schema([("a", pa.int64()), ("a", pa.int64())]))
    with pytest.raises(ValueError, match="Unsupported"):
        open_writer(io.BytesIO(), RowFormat.CSV, pa.schema([("a", pa.list_(pa.int64()))]))


@pytest.mark.parametrize(("limit", "most"), [("_GROUP_ROWS", 4), ("_GROUP_BYTES", 4 * 8)])
def test_small_batches_are_gathered_into_groups_of_parquet(
    limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, limit, most)
    content = encoded(pa.table({"n": pa.array([*range(10)], pa.int64())}), RowFormat.PARQUET)
    found = pq.ParquetFile(io.BytesIO(content)).metadata
    assert [found.row_group(number).num_rows for number in range(found.num_row_groups)] == [4, 4, 2]


def test_schemas_are_names_and_types() -> None:
    words = "n:int64, at:timestamp[us],d:decimal128(10,2),l:list<string>,a:b:bool"
    assert parsed_schema(words) == pa.schema(
        [
            ("n", pa.int64()),
            ("at", pa.timestamp("us")),
            ("d", pa.decimal128(10, 2)),
            ("l", pa.list_(pa.string())),
            ("a:b", pa.bool_()),
        ]
    )


@pytest.mark.parametrize("words", ["n", "n:int", ":int64", "n:int64,n:int64", "n:decimal128(99,1)", ""])
def test_a_schema_that_cannot_be_is_refused(words: str) -> None:
    with pytest.raises(InvalidParametersError, match="schema "):
        parsed_schema(words)


def test_a_name_tells_the_format() -> None:
    assert format_of(Path("x/Orders.CSV")) is RowFormat.CSV
    with pytest.raises(RowFileError, match="say it with --format"):
        format_of(Path("orders"))


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, flushed = tmp_path / "out.csv", list[bytes]()
    path.write_text("older")
    part = OutputFile(path)
    monkeypatch.setattr("os.fsync", lambda _: flushed.append(part.part.read_bytes()))
    part.file.write(b"newer")
    assert path.read_text() == "older"
    with pytest.raises(RowFileError, match="it has rows of an earlier run"):
        OutputFile(path)
    part.finish()
    assert (path.read_text(), flushed) == ("newer", [b"newer"])
    assert [*tmp_path.iterdir()] == [path]


def test_of_a_link_what_it_points_to_is_written(tmp_path: Path) -> None:
    link, path = tmp_path / "link.csv", tmp_path / "elsewhere" / "out.csv"
    path.parent.mkdir()
    link.symlink_to(path)
    OutputFile(link).finish()
    assert link.is_symlink()
    assert path.is_file()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_does_not_hinder_leaving(tmp_path: Path) -> None:
    part = OutputFile(tmp_path / "out.csv")
    part.file.close()
    part.file = open("/dev/full", "wb")  # noqa: SIM115
    part.file.write(b"rows")
    part.leave(keeps=True)
    assert part.part.exists()


class Searched(bytes):
    """A text that counts the bytes at which a search from behind looks."""

    looked_at = 0

    def __radd__(self, before: bytes) -> "Searched":
        return Searched(before + bytes(self))

    def __add__(self, more: Any) -> "Searched":
        return Searched(bytes(self) + more)

    def rfind(self, *arguments: Any) -> int:
        _, start, stop = arguments
        found = super().rfind(*arguments)
        Searched.looked_at += stop - max(start, found)
        return found


def test_quoted_line_ends_of_a_row_are_looked_at_once() -> None:
    text = Searched(b"n\n" + b'"\n",' * 1_000 + b'"')
    file = Mock(read=Mock(side_effect=[b"", text, b""]))
    with pytest.raises(RowFileError, match="line 1,002: the quote that opens there is not closed"):
        open_rows(file, "in", RowFormat.CSV)
    assert 0 < Searched.looked_at < 10 * len(text)


def test_a_row_that_a_parquet_file_repeats_takes_some_mib() -> None:
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 3_000, pa.int32()), pa.array(["x" * (1 << 18)]))
    file = io.BytesIO()
    pq.write_table(pa.table({"s": long}), file, store_schema=False)
    assert len(file.getvalue()) < 1 << 20
    sizes = [batch.nbytes for batch in open_rows(file, "in", RowFormat.PARQUET).batches]
    assert max(sizes) < 9 << 20
    assert sum(sizes) > 3_000 << 18


def test_short_rows_of_parquet_come_thousands_at_a_time() -> None:
    file = io.BytesIO()
    texts = pa.array([f"{number:03}" * 7_000 for number in range(1_000)])
    few = pa.DictionaryArray.from_arrays(pa.array([number % 1_000 for number in range(20_000)], pa.int32()), texts)
    pq.write_table(pa.table({"n": range(20_000), "s": few}), file)
    assert max(batch.num_rows for batch in open_rows(file, "in", RowFormat.PARQUET).batches) == 8_192
