"""What flows through an exchange, for Prometheus: ``permitflow serve --metrics-address``."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from permitflow.errors import InvalidOptionError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.statistics import traffic_of
from permitflow.protocol.traffic import ChannelTraffic, Statistics

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

__all__ = ["metrics_at"]

# Whoever scrapes has given up by then.
LONGEST_ANSWER_SECONDS = 5.0

_COUNTERS = {
    "rows_in": "Rows from producers.",
    "rows_out": "Rows that have left for consumers, or that all consumers have acknowledged.",
    "waiting_seconds": "Time in which some row from a producer waited for room.",
    "consumer_waiting_seconds": "Time in which some row on its way out waited for a consumer's permits.",
}
_GAUGES = {
    "row_permits": "The most rows that are in the channel at once.",
    "rows_held": "Rows that take room in the channel.",
    "peak_rows_held": "The most rows that ever took room at once.",
    "rows_with_consumers": "Rows that have left, and whose permits have not come back.",
    "producers": "Streams that are putting.",
    "consumers": "Streams that are getting.",
}
_KEPT = {
    "staged_rows": "Rows that nobody sees yet.",
    "published_rows": "Rows that are published, and beyond the row permits of the channel.",
}


@contextmanager
def metrics_at(address: str, exchange: Exchange) -> Iterator[str]:
    """Serve metrics while the block runs; the address, with the port that was chosen.  Call it in the event loop.

    Raises:
        InvalidOptionError: the address cannot be had.
    """
    from prometheus_client import CollectorRegistry, start_http_server

    host, _, port = address.rpartition(":")
    registry = CollectorRegistry()
    registry.register(_Collector(exchange, asyncio.get_running_loop()))
    try:
        server, thread = start_http_server(int(port), host.strip("[]"), registry)
    except OSError as error:
        reason = f"cannot be had: {error.strerror or error}"
        raise InvalidOptionError(option="--metrics-address", value=address, reason=reason) from error
    try:
        yield f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Collector:
    """Takes a snapshot for each scrape: in the event loop, to which the exchange belongs."""

    def __init__(self, exchange: Exchange, loop: asyncio.AbstractEventLoop) -> None:
        self._exchange = exchange
        self._loop = loop

    def describe(self) -> list["CounterMetricFamily"]:
        """Nothing: to register it must not take a snapshot."""
        return []

    def collect(self) -> Iterable["CounterMetricFamily | GaugeMetricFamily"]:
        """All metrics; called in the server's threads."""
        asking = asyncio.run_coroutine_threadsafe(self._snapshot(), self._loop)
        return _families(asking.result(LONGEST_ANSWER_SECONDS).channels)

    async def _snapshot(self) -> Statistics:
        return Statistics(monotonic(), tuple(map(traffic_of, self._exchange.statistics())))


def _families(channels: Iterable[ChannelTraffic]) -> Iterator["CounterMetricFamily | GaugeMetricFamily"]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    seen = list(channels)
    for name, text in _COUNTERS.items():
        counter = CounterMetricFamily(f"permitflow_{name}", text, labels=["channel"])
        for traffic in seen:
            counter.add_metric([traffic.channel], getattr(traffic, name))
        yield counter
    for name, text in (_GAUGES | _KEPT).items():
        gauge = GaugeMetricFamily(f"permitflow_{name}", text, labels=["channel"])
        for traffic in seen:
            holder = traffic.kept if name in _KEPT else traffic
            if holder is not None:
                gauge.add_metric([traffic.channel], getattr(holder, name))
        yield gauge
    yield from _labelled(seen)


def _labelled(seen: list[ChannelTraffic]) -> Iterator["GaugeMetricFamily"]:
    from prometheus_client.core import GaugeMetricFamily

    lag = GaugeMetricFamily(
        "permitflow_lag_rows", "Rows that a consumer has still to acknowledge.", labels=["channel", "consumer"]
    )
    state = GaugeMetricFamily("permitflow_channel_state", "1 for the state it is in.", labels=["channel", "state"])
    compressed = GaugeMetricFamily(
        "permitflow_compressed_streams", "Streams whose chunks are compressed.", labels=["channel", "codec"]
    )
    for traffic in seen:
        for codec, streams in traffic.compressed_streams.items():
            compressed.add_metric([traffic.channel, codec], streams)
        state.add_metric([traffic.channel, traffic.state], 1)
        for consumer, rows in ({} if traffic.kept is None else traffic.kept.lag_rows).items():
            lag.add_metric([traffic.channel, consumer], rows)
    yield lag
    yield state
    yield compressed
