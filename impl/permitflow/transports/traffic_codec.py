"""Statistics of an exchange to the wire and back."""

from permitflow.protocol.traffic import ChannelTraffic, KeptRows, Statistics
from permitflow.transports.texts import sendable
from permitflow.wire.v1 import exchange_pb2 as pb

__all__ = ["read_statistics", "write_statistics"]

# The same names on the wire as in our values.
_SAME = (
    "channel",
    "state",
    "row_permits",
    "producers",
    "consumers",
    "rows_in",
    "rows_out",
    "rows_held",
    "peak_rows_held",
    "rows_with_consumers",
    "waiting_seconds",
    "consumer_waiting_seconds",
)


def write_statistics(into: pb.Statistics, statistics: Statistics) -> None:
    """Write all channels."""
    into.at_seconds = statistics.at_seconds
    for traffic in statistics.channels:
        added = into.channels.add()
        for name in _SAME:
            setattr(added, name, getattr(traffic, name))
        added.reason = sendable(traffic.reason)
        added.compressed_streams.update(traffic.compressed_streams)
        if traffic.kept is not None:
            _write_kept(added.kept, traffic.kept)


def _write_kept(into: pb.Kept, kept: KeptRows) -> None:
    into.SetInParent()
    into.next_row = kept.next_row
    into.acknowledged.update(kept.acknowledged)
    into.staged_rows = kept.staged_rows
    into.published_rows = kept.published_rows


def read_statistics(message: pb.Statistics) -> Statistics:
    """Read all channels; what an older exchange does not say is 0."""
    return Statistics(message.at_seconds, tuple(_read_traffic(traffic) for traffic in message.channels))


def _read_traffic(message: pb.ChannelTraffic) -> ChannelTraffic:
    same = {name: getattr(message, name) for name in _SAME}
    compressed = dict(sorted(message.compressed_streams.items()))
    kept = _read_kept(message.kept) if message.HasField("kept") else None
    return ChannelTraffic(**same, reason=message.reason, compressed_streams=compressed, kept=kept)


def _read_kept(message: pb.Kept) -> KeptRows:
    return KeptRows(
        next_row=message.next_row,
        acknowledged=dict(sorted(message.acknowledged.items())),
        staged_rows=message.staged_rows,
        published_rows=message.published_rows,
    )
