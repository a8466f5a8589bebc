"""Rows in files and pipes: Arrow IPC, Parquet, CSV and JSON lines, read and written batch by batch."""

from enum import StrEnum
from pathlib import Path

from permitflow.errors import RowFileError


class RowFormat(StrEnum):
    """How rows stand in a file."""

    ARROW = "arrow"
    """Arrow IPC: its file format where a file is written that is not named ``.arrows``, else its stream format."""
    PARQUET = "parquet"
    CSV = "csv"
    """The first line has the names."""
    JSON_LINES = "jsonl"
    """An object on each line."""


_SUFFIXES = {
    ".arrow": RowFormat.ARROW,
    ".arrows": RowFormat.ARROW,
    ".feather": RowFormat.ARROW,
    ".ipc": RowFormat.ARROW,
    ".parquet": RowFormat.PARQUET,
    ".csv": RowFormat.CSV,
    ".jsonl": RowFormat.JSON_LINES,
    ".ndjson": RowFormat.JSON_LINES,
}


def format_of(path: Path) -> RowFormat:
    """The format of a file, by its name.

    Raises:
        RowFileError: the name has no known suffix.
    """
    try:
        return _SUFFIXES[path.suffix.lower()]
    except KeyError:
        known = ", ".join(_SUFFIXES)
        reason = f"its name does not tell its format, as {known} do; say it with --format"
        raise RowFileError(path=str(path), place="", reason=reason) from None
