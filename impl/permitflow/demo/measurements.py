"""What the recordings of the run say: rows moved, the peak in flight, who waited, and the model's verdict."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from permitflow.demo.report import Hop, StreamNumbers, TraceVerdict
from permitflow.errors import DemoError
from permitflow.testing.traces import judge_all
from permitflow.tracing import ChannelTrace, Event, Trace, read_trace

__all__ = ["hops_of", "judged"]

HOPS = {
    "Spark job 1 to the exchange": "write-*.statistics.json",
    "inside the exchange": "exchange-inside.statistics.json",
    "the exchange to Spark job 2": "exchange-out.statistics.json",
}
"""The hops, and what their senders leave behind."""


def judged(folder: Path) -> TraceVerdict:
    """Replay every stream step by step; the model checks its invariants, conservation among them, after each."""
    trace = read_trace(folder)
    verdicts = judge_all(trace)
    return TraceVerdict(
        streams=len(verdicts),
        events=sum(verdict.replay.performed for verdict in verdicts),
        is_complete=trace.is_complete,
        is_at_rest=all(verdict.is_at_rest for verdict in verdicts),
        refused=tuple(verdict.describe() for verdict in verdicts if not verdict.is_valid),
    )


def hops_of(folder: Path) -> tuple[Hop, ...]:
    """The numbers of each hop, over all streams that carried rows."""
    trace = read_trace(folder)
    return tuple(_hop(name, trace, folder.glob(files)) for name, files in HOPS.items())


def _hop(name: str, trace: Trace, files: Iterable[Path]) -> Hop:
    senders = [sender for path in sorted(files) for sender in json.loads(path.read_text())]
    rates = {sender["name"]: sender["back_pressure_rate"] for sender in senders if sender["sent_rows"] > 0}
    return Hop(name=name, streams=tuple(_numbers(trace, stream, rate) for stream, rate in rates.items()))


def _numbers(trace: Trace, stream: str, rate: float) -> StreamNumbers:
    # Counted in the recording, not by those who are to be checked.
    if stream not in trace.channels:
        raise DemoError(f"the run of {stream!r} was not recorded")
    channel = trace.channels[stream]
    sent = [event for event in _events(channel) if event.action == "SendChunk"]
    return StreamNumbers(
        stream=stream,
        rows=sum(event.rows for event in sent),
        chunks=len(sent),
        peak_rows=max(_rows_away(channel), default=0),
        bound=channel.parameters.row_permits,
        back_pressure_rate=rate,
    )


def _events(channel: ChannelTrace) -> Iterator[Event]:
    return (event for log in channel.logs for event in log if event.end == "sender")


def _rows_away(channel: ChannelTrace) -> Iterator[int]:
    """Row permits that are away from the sender, after each of its events."""
    away = 0
    for event in _events(channel):
        if event.action == "SendChunk":
            away += event.permits.rows
        elif event.action == "AddPermits":
            away -= event.permits.rows
        yield away
