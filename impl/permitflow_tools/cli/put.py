"""``permitflow put``: rows from a file or a pipe into a channel."""

import sys
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NoReturn

import typer

from permitflow.errors import ChunkTooLargeError, PermitflowError, ProducerEndedError, RowFileError
from permitflow.flows.permits.parameters import ChannelParameters
from permitflow.names import stream_and_position, stream_channels
from permitflow_tools.cli.dialling import DialTarget, dials, told_errors
from permitflow_tools.cli.options import above_zero, duration, one_of, option, readable, stream_name, whole_number
from permitflow_tools.cli.outcomes import Json, failed, print_json, requires_extra, unusable
from permitflow_tools.cli.patiently import Patience
from permitflow_tools.parameters.read import STANDARD_INPUT
from permitflow_tools.row_files import RowFormat, format_of

if TYPE_CHECKING:
    from permitflow.client.blocking import BlockingSink
    from permitflow.client.blocking_dispatch import BlockingDispatch
    from permitflow.client.options import PutOptions
    from permitflow.stream.frames import EndOutcome
    from permitflow_tools.row_files.reading import RowReader

# Time to bring what was read into the channel, once the input has turned out to be wrong.
_LAST_SECONDS = 10.0


@dials
def put(
    exchange: DialTarget,
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="A channel, as orders/0.")],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", parser=readable, help="What to read; - is standard input.")
    ] = STANDARD_INPUT,
    row_format: Annotated[
        RowFormat | None,
        option(
            one_of(RowFormat),
            "FORMAT",
            "arrow, parquet, csv or jsonl. Default: by the file's suffix; jsonl from standard input.",
            "--format",
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="NAME:TYPE,...",
            help="Names and types, as in n:int64,name:string. Default: the file's own, or what fits its first MiB.",
        ),
    ] = None,
    rows: Annotated[
        int | None, option(whole_number(least=0), "ROWS", "Stop after this many rows of the input. Default: all.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN,...",
            help="CHANNEL is a stream, such as orders: each row goes to the channel of its key. Say orders:4 "
            "if you cannot see all of its 4 channels.",
        ),
    ] = None,
    producer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="To a channel that keeps its rows: a name, by which the same input goes on where it has stopped. "
            "Another input needs another name.",
        ),
    ] = "",
    keep_open: Annotated[
        bool,
        typer.Option(
            "--keep-open",
            help="Do not end the channel: others, or a later put, may put into it. Of several, all but the last.",
        ),
    ] = False,
    timeout: Annotated[
        float | None,
        option(
            above_zero(duration),
            "DURATION",
            "The longest wait without progress, as in 30s. Default: as long as the exchange lives.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Put the rows of a file, or of a pipe, into a channel.

    \b
      permitflow put orders/0 orders.csv
      tail -f app.jsonl | permitflow put events/0 --schema at:timestamp[us],text:string
      permitflow put orders/0 january.parquet --keep-open
      permitflow put kept/0 orders.csv --producer nightly      again after a crash: goes on where it has stopped
      permitflow put orders orders.csv --key customer          into orders/0, orders/1, ...: equal keys meet in one

    It reads only what the channel has room for: at most some MiB and half a window are in memory, and a pipe waits. CSV
    begins with a line of names; JSON lines leave as they come once the schema is known. At the end the channel is
    ended, and the command waits until its consumer, if one is connected, has consumed everything.

    The last line says how many rows were put, and what became of them. If a row is wrong, the error says where it
    stands; what comes before it was put, and the channel stays open: put the rest. Ctrl-C breaks the channel, so that
    no consumer mistakes a part for the whole, and says how many rows were confirmed; with --producer a channel that
    keeps its rows stays open. Put the same input again with it until the exit code is 0: rows that are there are left
    out, also if the channel has ended meanwhile.

    Exit code 0: all rows were put. 1: the exchange has refused, or is gone. 2: the input cannot be used. 130:
    interrupted.
    """
    with requires_extra("grpc"):
        from permitflow.client.blocking import open_sink, require_single_places
        from permitflow.client.blocking_dispatch import open_dispatch
        from permitflow_tools.row_files.reading import open_input, open_rows
        from permitflow_tools.row_files.schemas import parsed_schema
    if key is not None and producer:
        unusable("--producer cannot be combined with --key: a producer's rows are counted in one channel")
    if file == STANDARD_INPUT and sys.__stdin__ is None:
        unusable("standard input is closed: name a file")
    if Path(channel).suffix and Path(channel).is_file():
        unusable(f"{channel} is a file: name a channel before it, as in permitflow put orders/0 {channel}")
    patience = Patience(timeout)
    with ExitStack() as stack:
        what = "standard input" if file == STANDARD_INPUT else str(file)
        wanted = None if schema is None else parsed_schema(schema)
        try:
            chosen = row_format or (RowFormat.JSON_LINES if file == STANDARD_INPUT else format_of(file))
            opened: BinaryIO = sys.stdin.buffer if file == STANDARD_INPUT else stack.enter_context(open_input(file))
            found = open_rows(opened, what, chosen, wanted)
        except RowFileError as error:
            unusable(str(error))
        columns = [] if key is None else [name.strip() for name in key.split(",")]
        channels = _channels_of(exchange, channel) if columns else ()
        address, seconds = exchange.address, patience.slice_seconds

        def opened_sink() -> "BlockingSink | _KeyedSink":
            options: PutOptions = {"producer": producer, "security": exchange.security}
            if not columns:
                return open_sink(address, channel, found.schema, timeout_seconds=seconds, **options)
            return _KeyedSink(
                open_dispatch(address, channels, found.schema, key=columns, timeout_seconds=seconds, **options)
            )

        report: dict[str, object] | None = None
        with told_errors("no rows were sent"):
            if not columns:  # who spreads rows asks by itself
                require_single_places(address, [channel], security=exchange.security)
            try:
                sink = patience(opened_sink)
            except ProducerEndedError as error:
                report = _compared(found, rows, error)
        if report is None:
            moving = _Moving(
                sink, what, channel, patience, most_rows=rows, closes_channel=not keep_open, producer=producer
            )
            report = moving.all_of(found)
    if as_json:
        print_json({"address": exchange.address, "channel": channel, **report})
    else:
        typer.echo(_words(channel, report))


def _words(channel: str, report: dict[str, object]) -> str:
    skipped = f", behind {report['skipped_rows']:,} that were there" if report["skipped_rows"] else ""
    fate = "its consumer has consumed them" if report["outcome"] == "consumed" else "the exchange has them"
    return f"put {report['rows']:,} rows into {channel}{skipped}: {fate}"


def _compared(found: "RowReader", most_rows: int | None, ended: ProducerEndedError) -> dict[str, object]:
    """The report of a producer whose channel has ended, if all rows of its input are there; else the error."""
    kept, read = ended.facts["rows"], 0
    assert isinstance(kept, int)
    try:
        for batch in found.batches:
            read += batch.num_rows
            if most_rows is not None and read >= most_rows:
                read = most_rows
                break
            if read > kept:
                break
        else:
            _require_whole(read, kept, ended.channel, ended.producer)
    except RowFileError as error:
        unusable(str(error))
    if read > kept:
        failed(f"{ended}; the input has more rows than that")
    return {"rows": 0, "skipped_rows": read, "outcome": "accepted"}


def _require_whole(read: int, kept: int, channel: str, producer: str) -> None:
    """Refuse an input that has fewer rows than are there of its producer; it is over, and none was sent."""
    if read < kept:
        rows = f"the input has {read:,} rows, and {channel} has {kept:,} of producer {producer!r}"
        unusable(f"{rows}: this is another input, which needs a name of its own")


def _channels_of(exchange: DialTarget, stream: str) -> tuple[str, ...]:
    """The channels of a stream: as many as were stated, or as can be seen; an exchange refuses if it has more.

    Each of several exchanges must answer.  Whether two have a channel of the stream is asked when the stream is opened.
    """
    if ":" in stream:
        named = stream_name(stream)
        return stream_channels(named.name, named.channels)
    with exchange.orders() as orders:
        # A client that may produce sees these; a list of channels is for those who may administer them.
        seen = {stream_and_position(each.channel) for each in orders.statistics(partial=True).channels}
        unanswered = orders.survey().unanswered
    if unanswered:
        reasons = "; ".join(unanswered.values())
        failed(f"{reasons}; it may have channels of {stream}: say how many there are, as in {stream}:4")
    positions = {place[1] for place in seen if place is not None and place[0] == stream}
    if not positions:
        unusable(f"the exchange has no channel {stream}/0: with --key, CHANNEL is the name of a stream, as in orders")
    lacking = next(position for position in count() if position not in positions)
    if lacking < max(positions):
        unusable(
            f"{stream}/{max(positions)} is there, but not {stream}/{lacking}: with --key all channels of the stream "
            f"must be; if some are elsewhere, say how many there are, as in {stream}:4"
        )
    return stream_channels(stream, len(positions))


class _KeyedSink:
    """Several channels, used as one sink."""

    first_row = None

    def __init__(self, dispatch: "BlockingDispatch") -> None:
        self._dispatch = dispatch
        self.send, self.abort, self.close = dispatch.send, dispatch.abort, dispatch.close

    @property
    def timeout_seconds(self) -> float:
        return self._dispatch.sinks[0].timeout_seconds

    @timeout_seconds.setter
    def timeout_seconds(self, seconds: float) -> None:
        for sink in self._dispatch.sinks:
            sink.timeout_seconds = seconds

    def end(self, *, closes_channel: bool) -> "EndOutcome":
        """The worst outcome of all channels."""
        outcomes = {each.value: each for each in self._dispatch.end(closes_channels=closes_channel)}
        return next(outcomes[name] for name in ("cancelled", "accepted", "consumed") if name in outcomes)

    @property
    def confirmed_rows(self) -> int:
        return sum(each.sent_rows - each.rows_held for each in self._dispatch.statistics())


def _has_too_large_row(batch: Any) -> bool:
    from permitflow.wire.arrow import BatchCodec

    try:
        BatchCodec(batch.schema).cut(batch)
    except ChunkTooLargeError:
        return True
    return False


class _Moving:
    """Rows on their way from an input into a channel."""

    def __init__(
        self,
        sink: "BlockingSink | _KeyedSink",
        source: str,
        channel: str,
        patience: Patience,
        *,
        most_rows: int | None,
        closes_channel: bool,
        producer: str,
    ) -> None:
        """``producer``: the name by which the input can go on; empty: it has none."""
        self._producer = producer
        self._sink, self._source, self._channel, self._patience = sink, source, channel, patience
        self._most_rows, self._closes_channel = most_rows, closes_channel
        self._skipped = 0
        self._read = 0

    def all_of(self, found: "RowReader") -> dict[str, object]:
        """Send all rows, and end the stream; whatever goes wrong ends the command."""
        sink = self._sink
        try:
            self._send(found)
            outcome = self._patience(lambda: sink.end(closes_channel=self._closes_channel))
        except RowFileError as error:
            self._end_before(error)
        except KeyboardInterrupt:
            if not self._producer:
                sink.abort("its producer was interrupted")
            raise KeyboardInterrupt(self._confirmed()) from None
        except PermitflowError as error:
            failed(f"{error}; {self._confirmed()}")
        finally:
            sink.close()
        if outcome.value == "cancelled":
            failed(f"the consumer of {self._channel} needs no more; {self._confirmed()}")
        return {"rows": self._read, "skipped_rows": self._skipped, "outcome": outcome.value}

    def _send(self, found: "RowReader") -> None:
        skip = self._sink.first_row or 0
        left = self._most_rows
        for batch in found.batches:
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            if skipped := min(skip, batch.num_rows):
                skip -= skipped
                self._skipped += skipped
                batch = batch.slice(skipped)
            if batch.num_rows:
                self._send_rows(batch)
            if left == 0:
                return
        if skip:
            _require_whole(self._skipped, self._skipped + skip, self._channel, self._producer)

    def _send_rows(self, batch: Any) -> None:
        self._read += batch.num_rows
        try:
            self._patience(lambda: self._sink.send(batch))
        except ChunkTooLargeError as error:
            if isinstance(self._sink, _KeyedSink) or not _has_too_large_row(batch):
                raise  # the dictionaries of a chunk are, perhaps of an earlier one: the stream has failed
            # None of it was sent: bring in the rows before the one that is too large.
            self._read -= batch.num_rows
            if batch.num_rows == 1:
                place = f", row {self._skipped + self._read + 1:,}"
                raise RowFileError(path=self._source, place=place, reason=str(error)) from error
            half = batch.num_rows // 2
            self._send_rows(batch.slice(0, half))
            self._send_rows(batch.slice(half))

    def _end_before(self, error: RowFileError) -> NoReturn:
        """Bring in what was read before a place that cannot be read; the channel stays open."""
        self._sink.timeout_seconds = _LAST_SECONDS
        try:
            self._sink.end(closes_channel=False)
            done = f"the {self._read:,} rows before it are in {self._channel}, which stays open: put the rest"
        except PermitflowError as failed:
            done = f"{failed}; {self._confirmed()}"
        unusable(f"{error}; {done}")

    def _confirmed(self) -> str:
        sink, batch = self._sink, 1
        if isinstance(sink, _KeyedSink):
            confirmed = sink.confirmed_rows
        else:
            confirmed = (numbers := sink.statistics()).sent_rows - numbers.rows_held
            if isinstance(sink.parameters, ChannelParameters):
                batch = sink.parameters.permit_batch
        read = max(self._read, confirmed)  # of the last batch, some may have gone before the rest
        words = f"{read:,} rows were read, at least {confirmed:,} of them are confirmed by the exchange"
        if confirmed < read and batch > 1:
            words += f", which does so for {batch:,} rows at a time"
        return f"{words}; the same input, put again, sends only what is missing" if self._producer else words
