"""The parts of a recording that are examined one by one, and how they are read."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from math import ceil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from permitflow.audit.columns import Limits
from permitflow.audit.laws import Laws, laws_of
from permitflow.errors import InvalidParametersError, TraceMismatchError, TraceUnreadableError
from permitflow.protocol.permits import PERMIT_ACTIONS
from permitflow.protocol.recording import ActionTable, End, ParameterValue
from permitflow.tracing.events import Header
from permitflow.tracing.json_lines import JsonLinesReading
from permitflow.tracing.parquet import POSITION, TIME, UNREADABLE, read_headers, schema_of, table_of, why_unreadable
from permitflow.tracing.reader import in_words, trace_files

_URL = re.compile(r"(\w+):/+(.*)")


@dataclass(frozen=True, slots=True)
class Unit:
    """A row group of a Parquet file or, without a number, the events of one protocol in a file of JSON lines."""

    path: str
    table: ActionTable
    row_group: int | None = None
    events: int | None = None
    """Number of events by the file's footer; None: unknown before it is read."""

    @property
    def name(self) -> str:
        """For messages."""
        return self.path if self.row_group is None else f"{self.path}, row group {self.row_group}"


@dataclass(frozen=True, slots=True)
class Plan:
    """All units to examine, and the headers of their channels."""

    units: list[Unit]
    """The units; those of one file are adjacent, in its order."""
    tables: dict[str, ActionTable] = field(default_factory=dict)
    """The protocol of each channel."""
    limits: dict[str, Limits] = field(default_factory=dict)
    """The limits of each channel, which follow from its parameters."""
    parameters: dict[str, Mapping[str, ParameterValue]] = field(default_factory=dict)
    """The recorded parameters of each channel."""
    ends: dict[str, set[End]] = field(default_factory=dict)
    """The recorded ends of each channel."""
    cut: set[tuple[str, End]] = field(default_factory=set)
    """Ends whose last events may be missing, because their file was not closed."""

    def laws(self, channel: str) -> Laws:
        """The laws that a channel must keep."""
        return laws_of(self.tables[channel], channel)

    def shares(self, most: int) -> list[list[Unit]]:
        """The units, in order, in at most ``most`` lists of about equal size; none is empty."""
        count = min(most, len(self.units))
        return self._cut([number * len(self.units) // count for number in range(count + 1)] if count else [])

    def falling_shares(self, workers: int, *, finest: int) -> list[list[Unit]]:
        """The units, in order, in lists that workers take one after the other; none is empty.

        The first lists are long, so that there are few; the last ones are short, so that no worker waits long for
        another, but not shorter than ``finest`` equal lists per worker.

        Source: Hummel, Schonberg, Flynn, "Factoring: a method for scheduling parallel loops", 1992.
        """
        total, borders, size = len(self.units), [0], 0
        shortest = ceil(total / (workers * finest))
        while (done := borders[-1]) < total:
            if (len(borders) - 1) % workers == 0:
                # All workers together take half of the rest.
                size = max(ceil((total - done) / (2 * workers)), shortest)
            borders.append(min(done + size, total))
        return self._cut(borders)

    def _cut(self, borders: Sequence[int]) -> list[list[Unit]]:
        return [self.units[start:stop] for start, stop in pairwise(borders)]


def plan(paths: Iterable[str | os.PathLike[str]]) -> Plan:
    """Plan the audit of trace files, and of all trace files of folders; reads only headers and footers.

    Raises:
        TraceUnreadableError: a file is missing or holds something else.
        TraceMismatchError: recordings of a channel do not belong together.
    """
    units: list[Unit] = []
    whole = Plan(units)
    for file in (file for path in paths for file in trace_files(_local(path))):
        if file.suffix == ".parquet":
            headers, sizes = _footer(file)
            table = headers[0].table if headers else PERMIT_ACTIONS
            units += (Unit(str(file), table, number, size) for number, size in enumerate(sizes))
        else:
            reading = JsonLinesReading(file, allow_truncated=True)
            headers = reading.headers
            flows = {header.table.flow: header.table for header in headers}
            units += (Unit(str(file), table) for table in flows.values())
            if not reading.is_closed:
                whole.cut.update((header.channel, header.end) for header in headers)
        _note(whole, headers, str(file))
    return whole


def _local(path: str | os.PathLike[str]) -> Path:
    """The local form of a path, which may be given as Spark writes it."""
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
    for header in headers:
        channel, end, table, parameters = header
        known = whole.tables.setdefault(channel, table), whole.parameters.setdefault(channel, parameters)
        if known != (table, parameters):
            there = in_words(Header(channel, end, *known))
            raise TraceMismatchError(channel=channel, reason=f"{source} has {in_words(header)}, others have {there}")
        if channel not in whole.limits:
            try:
                whole.limits[channel] = whole.laws(channel).limits(parameters)
            except (InvalidParametersError, TypeError) as error:
                raise TraceMismatchError(channel=channel, reason=str(error)) from error
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
    """Read several units; neighbours in a file share one reading of its footer.

    Raises:
        TraceUnreadableError: one cannot be read, or holds something else.
    """
    for path, of_file in groupby(units, key=lambda unit: unit.path):
        with ExitStack() as stack, _telling(path):
            parquet = None
            for unit in of_file:
                if unit.row_group is None:
                    yield unit, _lines(unit)
                    continue
                if parquet is None:
                    parquet = stack.enter_context(pq.ParquetFile(path))
                yield unit, _row_group(parquet, unit.row_group, unit.table)


def _lines(unit: Unit) -> pa.Table:
    reading = JsonLinesReading(Path(unit.path), allow_truncated=True)
    channels = {header.channel for header in reading.headers if header.table == unit.table}
    return table_of([event for event in reading.events if event.channel in channels], unit.table)


def _row_group(parquet: pq.ParquetFile, number: int, of: ActionTable) -> pa.Table:
    # An audit needs neither times nor the order of events between the two ends.
    columns = pa.schema([field for field in schema_of(of) if field.name not in {TIME, POSITION}])
    table = parquet.read_row_group(number, columns=columns.names, use_threads=False)
    # Other programs write other types, and nulls; the numbers must be whole and not null.
    return table if table.schema.equals(columns) else table.select(columns.names).cast(columns)


@contextmanager
def _telling(path: str) -> Iterator[None]:
    """Turn errors in the block into ``TraceUnreadableError`` for this file."""
    try:
        yield
    except (OSError, ValueError, NotImplementedError) as error:
        raise TraceUnreadableError(path=path, line=0, reason=str(error)) from error
