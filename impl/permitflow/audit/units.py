"""The parts that are looked at one by one, and how they are read."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from math import ceil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from permitflow.errors import InvalidParametersError, TraceMismatchError, TraceUnreadableError
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import PERMIT_ACTIONS, End
from permitflow.tracing.events import Header
from permitflow.tracing.json_lines import JsonLinesReading
from permitflow.tracing.parquet import POSITION, TIME, UNREADABLE, read_headers, schema_of, table_of, why_unreadable
from permitflow.tracing.reader import trace_files

__all__ = ["Plan", "Unit", "plan", "read_unit", "read_units"]

_URL = re.compile(r"(\w+):/+(.*)")
# What happened when is of no concern, nor what the other end did meanwhile.
_COLUMNS = pa.schema([field for field in schema_of(PERMIT_ACTIONS) if field.name not in {TIME, POSITION}])


@dataclass(frozen=True, slots=True)
class Unit:
    """A row group of a Parquet file or, without a number, a whole file of JSON lines."""

    path: str
    row_group: int | None = None
    events: int | None = None
    """As the file's footer says; None: unknown before it is read."""

    @property
    def name(self) -> str:
        """For messages."""
        return self.path if self.row_group is None else f"{self.path}, row group {self.row_group}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is to be looked at."""

    units: list[Unit]
    """Those of a file side by side, in its order."""

    parameters: dict[str, ChannelParameters] = field(default_factory=dict)
    """Of each channel."""

    ends: dict[str, set[End]] = field(default_factory=dict)
    """Those that were recorded, of each channel."""

    cut: set[tuple[str, End]] = field(default_factory=set)
    """Ends whose last events may be missing: their file was not closed in good order."""

    def shares(self, most: int) -> list[list[Unit]]:
        """The units, in order, in at most so many lists of about equal size; none is empty."""
        count = min(most, len(self.units))
        return self._cut([number * len(self.units) // count for number in range(count + 1)] if count else [])

    def falling_shares(self, workers: int, *, finest: int) -> list[list[Unit]]:
        """The units, in order, in lists for workers that take one after the other; none is empty.

        The first ones are long, so that there are few of them; the last ones are short, so that no worker waits
        long for another, but not shorter than if each worker were to take ``finest`` equal ones.

        Source: Hummel, Schonberg, Flynn, "Factoring: a method for scheduling parallel loops", 1992.
        """
        total, borders, size = len(self.units), [0], 0
        shortest = ceil(total / (workers * finest))
        while (done := borders[-1]) < total:
            if (len(borders) - 1) % workers == 0:
                # All workers together take half of what is left.
                size = max(ceil((total - done) / (2 * workers)), shortest)
            borders.append(min(done + size, total))
        return self._cut(borders)

    def _cut(self, borders: Sequence[int]) -> list[list[Unit]]:
        return [self.units[start:stop] for start, stop in pairwise(borders)]


def plan(paths: Iterable[str | os.PathLike[str]]) -> Plan:
    """What is in trace files, and in all trace files of folders; only headers and footers are read.

    Raises:
        TraceUnreadableError: a file is missing or holds something else.
        TraceMismatchError: recordings of a channel do not belong together.
    """
    units: list[Unit] = []
    whole = Plan(units)
    for file in (file for path in paths for file in trace_files(_local(path))):
        if file.suffix == ".parquet":
            headers, sizes = _footer(file)
            units += (Unit(str(file), number, size) for number, size in enumerate(sizes))
        else:
            reading = JsonLinesReading(file, allow_truncated=True)
            headers = reading.headers
            units.append(Unit(str(file)))
            if not reading.is_closed:
                whole.cut.update((header.channel, header.end) for header in headers)
        _note(whole, headers, str(file))
    return whole


def _local(path: str | os.PathLike[str]) -> Path:
    """A path as this machine knows it, also if it was given as Spark writes it."""
    text = os.fspath(path)
    if (url := _URL.fullmatch(text)) and not Path(text).exists():
        if url[1] != "file":
            reason = (
                f"files of {url[1]}:// cannot be opened; give a path at which this machine and all workers see them"
            )
            raise TraceUnreadableError(path=text, line=0, reason=reason)
        text = f"/{url[2]}"
    if not Path(text).exists():
        raise TraceUnreadableError(path=text, line=0, reason="there is no such file or folder")
    return Path(text)


def _footer(file: Path) -> tuple[list[Header], list[int]]:
    try:
        with pq.ParquetFile(file) as parquet:
            metadata = parquet.metadata
            sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
            return read_headers(parquet), sizes
    except OSError as error:
        raise TraceUnreadableError(path=str(file), line=0, reason=error.strerror or str(error)) from error
    except UNREADABLE as error:
        raise TraceUnreadableError(path=str(file), line=0, reason=why_unreadable(error)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise TraceUnreadableError(path=str(file), line=0, reason=str(error)) from error


def _note(whole: Plan, headers: Iterable[Header], source: str) -> None:
    for channel, end, table, stated in headers:
        if table != PERMIT_ACTIONS:
            raise TraceMismatchError(channel=channel, reason=f"{table.flow!r} is recorded, not permits")
        try:
            parameters = ChannelParameters(**stated)  # type: ignore[arg-type]  # it looks at the types itself
        except (InvalidParametersError, TypeError) as error:
            raise TraceMismatchError(channel=channel, reason=str(error)) from error
        known = whole.parameters.setdefault(channel, parameters)
        if known != parameters:
            raise TraceMismatchError(channel=channel, reason=f"{source} has {parameters}, others have {known}")
        ends = whole.ends.setdefault(channel, set())
        if end in ends:
            raise TraceMismatchError(channel=channel, reason=f"{source} holds its {end}, and so does another file")
        ends.add(end)


def read_unit(unit: Unit) -> pa.Table:
    """The events of a unit, with the columns of ``tracing.parquet.schema_of`` but for time and position.

    Raises:
        TraceUnreadableError: it cannot be read, or holds something else.
    """
    ((_, table),) = read_units([unit])
    return table


def read_units(units: Iterable[Unit]) -> Iterator[tuple[Unit, pa.Table]]:
    """The same of several; the footer of a file is read once for neighbours.

    Raises:
        TraceUnreadableError: one cannot be read, or holds something else.
    """
    for path, of_file in groupby(units, key=lambda unit: unit.path):
        with ExitStack() as stack, _telling(path):
            parquet = None
            for unit in of_file:
                if unit.row_group is None:
                    yield unit, table_of(JsonLinesReading(Path(path), allow_truncated=True).events, PERMIT_ACTIONS)
                    continue
                if parquet is None:
                    parquet = stack.enter_context(pq.ParquetFile(path))
                yield unit, _row_group(parquet, unit.row_group)


def _row_group(parquet: pq.ParquetFile, number: int) -> pa.Table:
    table = parquet.read_row_group(number, columns=_COLUMNS.names, use_threads=False)
    # Other programs write other types, and nulls; the numbers must be whole and there.
    return table if table.schema.equals(_COLUMNS) else table.select(_COLUMNS.names).cast(_COLUMNS)


@contextmanager
def _telling(path: str) -> Iterator[None]:
    """Whatever goes wrong is about this file."""
    try:
        yield
    except (OSError, ValueError, NotImplementedError) as error:
        raise TraceUnreadableError(path=path, line=0, reason=str(error)) from error
