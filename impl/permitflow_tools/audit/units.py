"""The parts of a recording that are examined one by one, and how they are read."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import ceil
from pathlib import Path

import pyarrow as pa

from permitflow.errors import InvalidParametersError, TraceMismatchError, TraceUnreadableError
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.flows.recording import ActionTable, End
from permitflow.tracing.events import Header
from permitflow.tracing.json_lines import read_json_lines
from permitflow.tracing.parquet import POSITION, TIME, open_parquet, read_headers, schema_of, table_of
from permitflow.tracing.reader import headers_by_channel, trace_files
from permitflow_tools.audit.laws import laws_of

_URL = re.compile(r"(\w+):/+(.*)")


@dataclass(frozen=True, slots=True)
class Unit:
    """A row group of a Parquet file or, without a number, the events of one protocol in a file of JSON lines."""

    path: str
    table: ActionTable
    row_group: int | None = None

    @property
    def name(self) -> str:
        """For messages."""
        return self.path if self.row_group is None else f"{self.path}, row group {self.row_group}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The units to examine, and what their headers say."""

    units: list[Unit]
    """The units; those of one file are adjacent, in its order."""
    headers: dict[str, dict[End, Header]]
    """Of each end of each channel."""
    parameters: dict[str, object]
    """The parameters of each channel that has laws, as an object of its protocol."""
    cut: set[tuple[str, End]]
    """Ends whose last events may be missing, because their file was not closed."""

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
        return [self.units[start:stop] for start, stop in pairwise(borders)]


def plan(paths: Iterable[str | os.PathLike[str]]) -> Plan:
    """Plan the audit of trace files, and of all trace files of folders; reads only headers and footers.

    Raises:
        TraceUnreadableError: a file is missing or holds something else.
        TraceMismatchError: recordings of a channel do not belong together.
    """
    units: list[Unit] = []
    cut: set[tuple[str, End]] = set()
    opened: list[tuple[str, Sequence[Header]]] = []
    for file in (file for path in paths for file in trace_files(_local(path))):
        if file.suffix == ".parquet":
            with open_parquet(file) as parquet:
                headers: Sequence[Header] = read_headers(parquet)
                row_groups = parquet.num_row_groups
            table = headers[0].table if headers else PERMIT_ACTIONS
            units += (Unit(str(file), table, number) for number in range(row_groups))
        else:
            reading = read_json_lines(file, allow_truncated=True)
            headers = reading.headers
            flows = {header.table.flow: header.table for header in headers}
            units += (Unit(str(file), table) for table in flows.values())
            if not reading.is_closed:
                cut.update((header.channel, header.end) for header in headers)
        opened.append((str(file), headers))
    by_channel = headers_by_channel(opened)
    parameters = {channel: _parameters(next(iter(ends.values()))) for channel, ends in by_channel.items()}
    return Plan(units, by_channel, parameters, cut)


def _parameters(header: Header) -> object:
    laws = laws_of(header.table, header.channel)
    try:
        return laws.parameters(**header.parameters) if laws.parameters else None
    except (InvalidParametersError, TypeError) as error:
        raise TraceMismatchError(channel=header.channel, reason=str(error)) from error


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


def read_units(units: Iterable[Unit]) -> Iterator[tuple[Unit, pa.Table]]:
    """The events of units, with the columns of ``tracing.parquet.schema_of`` but for time and position.

    Neighbours in a file share one reading of its footer.

    Raises:
        TraceUnreadableError: one cannot be read, or holds something else.
    """
    for path, of_file in groupby(units, key=lambda unit: unit.path):
        if not path.endswith(".parquet"):
            yield from _lines(Path(path), of_file)
            continue
        with open_parquet(Path(path)) as parquet:
            for unit in of_file:
                # An audit needs neither times nor the order of events between the two ends.
                columns = pa.schema([field for field in schema_of(unit.table) if field.name not in {TIME, POSITION}])
                table = parquet.read_row_group(unit.row_group, columns=columns.names, use_threads=False)
                # Other programs write other types, and nulls; the numbers must be whole and not null.
                is_ours = table.schema.equals(columns)
                yield unit, table if is_ours else table.select(columns.names).cast(columns)


def _lines(path: Path, units: Iterable[Unit]) -> Iterator[tuple[Unit, pa.Table]]:
    reading = read_json_lines(path, allow_truncated=True)
    for unit in units:
        channels = {header.channel for header in reading.headers if header.table == unit.table}
        yield unit, table_of([event for event in reading.events if event.channel in channels], unit.table)
