"""``permitflow get``: rows from a channel into a file or a pipe."""

import os
import sys
from contextlib import suppress
from io import RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from permitflow.errors import EndOfStream, PermitflowError, RowFileError
from permitflow_tools.cli.dialling import DialTarget, dials, told_errors
from permitflow_tools.cli.options import above_zero, duration, latency, one_of, option, whole_number, writable
from permitflow_tools.cli.outcomes import Json, failed, print_json, requires_extra, unusable
from permitflow_tools.cli.output import STANDARD_OUTPUT, is_special, require_folder
from permitflow_tools.cli.patiently import Patience
from permitflow_tools.row_files import RowFormat, format_of

if TYPE_CHECKING:
    from permitflow.client import ChannelDescription
    from permitflow.client.blocking import BlockingSource
    from permitflow_tools.row_files.writing import RowWriter

_BINARY = (RowFormat.ARROW, RowFormat.PARQUET)
_UNFIT = (ValueError, NotImplementedError)
"""Errors of a format that cannot hold rows, Arrow's as well."""


@dials
def get(
    exchange: DialTarget,
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="A channel, as orders/0.")],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", parser=writable, help="What to write; - is standard output.")
    ] = STANDARD_OUTPUT,
    row_format: Annotated[
        RowFormat | None,
        option(
            one_of(RowFormat),
            "FORMAT",
            "arrow, parquet, csv or jsonl. Default: by the file's suffix; jsonl on standard output.",
            "--format",
        ),
    ] = None,
    rows: Annotated[
        int | None,
        option(whole_number(least=1), "ROWS", "Stop after this many rows. Default: read to the channel's end."),
    ] = None,
    consumer: Annotated[
        str, typer.Option(metavar="NAME", help="Of a channel that keeps its rows: who reads. Default: default.")
    ] = "",
    from_row: Annotated[
        int | None,
        option(
            whole_number(least=0),
            "ROW",
            "Of a channel that keeps its rows: begin at this row, and leave those before it out. "
            "Default: the first one that the consumer has not acknowledged.",
        ),
    ] = None,
    acknowledge: Annotated[
        bool,
        typer.Option(
            "--acknowledge",
            help="Of a channel that keeps its rows: acknowledge them once they are written, so that they may go; "
            "with --from-row, the rows before it as well.",
        ),
    ] = False,
    timeout: Annotated[
        float | None,
        option(
            above_zero(duration),
            "DURATION",
            "The longest wait for rows, as in 30s. Default: as long as the exchange lives.",
        ),
    ] = None,
    target_latency: Annotated[
        float | None,
        option(
            latency,
            "DURATION",
            "Let the window adapt, so that rows wait about this long, as in 500ms. Default: the whole window.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the rows of a channel into a file, or to standard output, until the channel ends.

    \b
      permitflow get orders/0                                  JSON lines on standard output
      permitflow get orders/0 orders.parquet
      permitflow get orders/0 --rows 5                         the first five; the producer hears that it is enough
      permitflow get kept/0 today.csv --consumer etl --acknowledge

    A slow reader of the output stops the producer: at most a window of rows and a batch are in memory. A file is called
    FILE.part until it is whole, then takes the place of an older one. If the command is stopped, or fails, what has
    come is readable there, and the error says how many rows that are: rows of a channel that is read once are nowhere
    else. Reading a channel that keeps its rows acknowledges nothing without --acknowledge; then rows are acknowledged
    when the file is whole, or as soon as standard output has taken them, of Parquet with its end. A consumer whose rows
    have expired is told with which --from-row it goes on.

    What was written is told on standard error. Exit code 0: the channel has ended, or --rows have come. 1: the channel
    is broken, the exchange has refused or is gone, or nobody takes the output. 2: the output cannot be used. 130:
    interrupted.
    """
    with requires_extra("grpc"):
        from permitflow.client.blocking import open_source, probe
    patience = Patience(timeout)
    try:
        chosen = row_format or (RowFormat.JSON_LINES if is_special(file) else format_of(file))
    except RowFileError as error:
        unusable(str(error))
    if chosen in _BINARY and file == STANDARD_OUTPUT and sys.stdout.isatty():
        unusable(f"--format: {chosen.value} is not for a terminal: name a file, or use jsonl or csv")
    if file == STANDARD_OUTPUT and sys.__stdout__ is None:
        unusable("standard output is closed: name a file")
    require_folder("FILE", file)
    if as_json and file == STANDARD_OUTPUT:
        unusable("--json: rows go to standard output: name a file")
    place = exchange.address, channel
    seconds, security = patience.slice_seconds, exchange.security
    with told_errors("no rows have come"):
        described = patience(lambda: probe(*place, timeout_seconds=seconds, security=security))
    # Before the channel is read: a consumer that leaves again breaks it.
    output = _Output(file, chosen, described)
    try:
        with told_errors("no rows have come"):
            source = patience(
                lambda: open_source(
                    *place,
                    timeout_seconds=seconds,
                    consumer=consumer,
                    from_row=from_row,
                    security=security,
                    target_latency_seconds=target_latency,
                )
            )
    except BaseException:
        output.leave(keeps=False)
        raise
    with source:
        writing = _Writing(source, output, patience, exchange, consumer if acknowledge else None)
        written = writing.all_of(channel, rows)
    if as_json:
        print_json({"address": exchange.address, "channel": channel, "rows": written, "file": str(file)})
    else:
        where = "" if file == STANDARD_OUTPUT else f" to {file}"
        typer.echo(f"wrote {written:,} rows of {channel}{where}", err=True)


def _standard_output() -> BinaryIO:
    """Standard output, which takes all that is written or fails.

    Without a buffer (PYTHONUNBUFFERED) it may take a part, and the rest would count as written, and be acknowledged.
    """
    given = sys.stdout.buffer
    if not isinstance(given, RawIOBase):
        return given
    return open(given.fileno(), "wb", closefd=False)


class _Output:
    """A file that is renamed when it is whole, or what others have open."""

    def __init__(self, path: Path, row_format: RowFormat, described: "ChannelDescription") -> None:
        from permitflow_tools.row_files.writing import OutputFile, open_writer

        self.part: OutputFile | None = None
        self.is_shared = is_special(path)
        self.takes_at_once = self.is_shared and row_format is not RowFormat.PARQUET
        """What was flushed can be read; of Parquet, nothing can before its end."""
        try:
            if path == STANDARD_OUTPUT:
                self._file: BinaryIO = _standard_output()
            elif self.is_shared:
                self._file = path.open("ab")
            else:
                self.part = OutputFile(path)
                self._file = self.part.file
        except RowFileError as error:
            unusable(str(error))
        except OSError as error:
            unusable(f"{path}: cannot be written: {error.strerror or error}")
        is_stream = self.is_shared or path.suffix == ".arrows"
        try:
            self.writer: RowWriter = open_writer(self._file, row_format, described.schema, is_stream=is_stream)
        except _UNFIT as error:
            if self.part is not None:
                self.part.leave(keeps=False)
            unusable(f"{row_format.value} cannot hold the rows of this channel: {error}")

    def flush(self) -> None:
        self._file.flush()

    def finish(self) -> None:
        self.writer.close()
        if self.part is not None:
            self.part.finish()
        else:
            self._file.flush()

    def leave(self, *, keeps: bool, has_failed: bool = False) -> str:
        """What there is stays, readable if no write has failed; where, in words: none if others may lack some."""
        if self.part is not None and self.part.is_whole:
            return f"that have come are in {self.part.path}"
        try:
            self.writer.close()
            self._file.flush()
        except (OSError, *_UNFIT):
            has_failed = True
        if self.part is None:
            if self._file is not sys.stdout.buffer:
                with suppress(OSError):  # told already
                    self._file.close()
            return "" if has_failed else "were written"
        self.part.leave(keeps=keeps)
        if has_failed:
            return f"have come, of which {self.part.part} has not all: it ends where that happened"
        return f"that have come are in {self.part.part}"


class _Writing:
    """Rows on their way from a channel into an output."""

    def __init__(
        self, source: "BlockingSource", output: _Output, patience: Patience, exchange: DialTarget, consumer: str | None
    ) -> None:
        """``consumer``: the one for which written rows are acknowledged; None: none are."""
        self._source, self._output, self._patience = source, output, patience
        self._exchange, self._consumer = exchange, consumer
        self._came = self._written = 0
        self._acknowledged = -1  # rows before the first one, which --from-row leaves out, are acknowledged as well

    def all_of(self, channel: str, most_rows: int | None) -> int:
        """Write rows until there are enough, or the channel has ended; whatever goes wrong ends the command."""
        try:
            self._write(most_rows)
            self._output.finish()
            self._acknowledge(channel)
        except KeyboardInterrupt:
            self._source.close()
            raise KeyboardInterrupt(self._left()) from None
        except BrokenPipeError:
            self._source.cancel("the reader of its output has gone")
            # What is left in buffers would be complained of again, here and when Python flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            failed(f"nobody reads the output any more; {self._left(has_failed=True)}")
        except PermitflowError as error:  # a time-out is an OSError as well
            failed(f"{error}; {self._left()}")
        except (OSError, *_UNFIT) as error:
            self._source.close()
            words = error.strerror if isinstance(error, OSError) else None
            failed(f"the output cannot be written: {words or error}; {self._left(has_failed=True)}")
        return self._written

    def _write(self, most_rows: int | None) -> None:
        from permitflow.client import JoinedChunks

        if self._output.is_shared:  # at once: the rows left out may take the room for those to come
            self._acknowledge(self._source.name)
        while most_rows is None or self._written < most_rows:
            left = None if most_rows is None else most_rows - self._written
            try:
                received = self._patience(lambda left=left: self._source.receive_joined(left))  # type: ignore[misc]
            except EndOfStream:
                return
            if isinstance(received, JoinedChunks):
                batch = received.batch if left is None else received.batch.slice(0, left)
                self._came += batch.num_rows
                self._output.writer.write(batch)
                if self._output.is_shared:
                    self._output.flush()
                self._written += batch.num_rows
                if self._output.takes_at_once:
                    self._acknowledge(self._source.name)
        self._source.cancel(f"{most_rows:,} rows were enough")

    def _acknowledge(self, channel: str) -> None:
        if self._consumer is not None and self._source.first_row is not None and self._written > self._acknowledged:
            with self._exchange.orders() as orders:
                orders.acknowledge({channel: self._source.first_row + self._written}, consumer=self._consumer)
            self._acknowledged = self._written

    def _left(self, *, has_failed: bool = False) -> str:
        words = self._output.leave(keeps=self._came > 0, has_failed=has_failed)
        if not self._came:
            return "0 rows have come"
        # A reader may have taken a part of what was to be written at once, and an interrupt may come after a write.
        if not words or (not has_failed and self._came > self._written):
            least = self._written if self._output.takes_at_once or self._output.part is not None else 0
            where = "were written" if self._output.part is None else f"are in {self._output.part.part}"
            known = f"at least {least:,} of them {where}" if least else f"it is not known which of them {where}"
            return f"{self._came:,} rows have come, {known}"
        return f"{self._came:,} rows {words}"
