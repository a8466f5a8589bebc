"""What the recordings of the run say: rows moved, the peak in flight, who waited, and the model's verdict."""

import json
from collections.abc import Iterator
from pathlib import Path

from permitflow.demo.children import Event
from permitflow.demo.report import Hop, StreamNumbers, TraceVerdict
from permitflow.errors import DemoError
from permitflow.testing.traces import judge_all
from permitflow.tracing import ChannelTrace, Trace, read_trace
from permitflow.tracing import Event as TraceEvent

__all__ = ["hops_of", "judged"]


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


def hops_of(folder: Path, traffic: list[Event]) -> tuple[Hop, ...]:
    """The numbers of each hop, over all streams that carried rows.

    Args:
        folder: with the recordings, and the statistics of the senders in Spark's tasks.
        traffic: what ``permitflow serve`` says about its channels.

    Raises:
        DemoError: a sender was not recorded.
    """
    trace = read_trace(folder)
    inside = {str(channel["channel"]): _share(channel["waited_inside"]) for channel in traffic}
    outside = {str(channel["channel"]): _share(channel["waited_for_consumer"]) for channel in traffic}
    outgoing = {stream: outside[stream.partition("#get")[0]] for stream in trace.channels if "#get" in stream}
    rates = {
        "Spark job 1 to the exchange": _rates_of_tasks(folder),
        "inside the exchange": inside,
        "the exchange to Spark job 2": outgoing,
    }
    return tuple(Hop(name=name, streams=_streams(trace, of_hop)) for name, of_hop in rates.items())


def _rates_of_tasks(folder: Path) -> dict[str, float]:
    streams = [
        stream for path in sorted(folder.glob("write-*.statistics.json")) for stream in json.loads(path.read_text())
    ]
    return {stream["name"]: stream["back_pressure_rate"] for stream in streams}


def _share(value: object) -> float:
    assert isinstance(value, float | int)  # a rate
    return float(value)


def _streams(trace: Trace, rates: dict[str, float]) -> tuple[StreamNumbers, ...]:
    # A probe opens a stream too, and leaves it empty.
    streams = (_numbers(trace, stream, rate) for stream, rate in rates.items())
    return tuple(stream for stream in streams if stream.rows > 0)


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


def _events(channel: ChannelTrace) -> Iterator[TraceEvent]:
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
