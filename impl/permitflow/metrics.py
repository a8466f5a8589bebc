"""What an exchange and a gate count, as collectors for a registry of ``prometheus_client``.

    REGISTRY.register(GateCollector(gate))      # in the event loop of the gate

``permitflow serve --metrics-address`` has the one of its exchange.  A gate belongs to the consumer's process, and only
there it is known who waits for whom.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from permitflow.channels.gate import GateStatistics, InputStatistics
from permitflow.exchange.statistics import traffic_of
from permitflow.protocol.traffic import FIGURES, ChannelTraffic

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from permitflow.exchange.registry import Exchange

__all__ = ["ExchangeCollector", "GateCollector"]

T = TypeVar("T")

# Of a channel; FIGURES has their texts.
_COUNTERS = ("rows_in", "rows_out", "waiting_seconds", "consumer_waiting_seconds", "consumer_stopped_seconds")
_GAUGES = ("producers", "consumers", "window_rows", "rows_held", "peak_rows_held", "rows_with_consumers")
_KEPT = ("staged_rows", "published_rows")
_LABELLED: Mapping[str, tuple[str, Callable[[ChannelTraffic], Mapping[str, int]]]] = {
    "state": ("state", lambda traffic: {traffic.state: 1}),
    "lag_rows": ("consumer", lambda traffic: {} if traffic.kept is None else traffic.kept.lag_rows),
    "compressed_streams": ("codec", lambda traffic: traffic.compressed_streams),
}
# A scraper has given up by then.
_LONGEST_ANSWER_SECONDS = 5.0


class _Collector:
    """Takes a snapshot for each scrape: in the event loop to which what it looks at belongs."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def describe(self) -> list["Metric"]:
        """Describe nothing: registration must not take a snapshot."""
        return []

    def _asked(self, question: Coroutine[Any, Any, T]) -> T:
        """The answer, for a thread of the scraper's."""
        return asyncio.run_coroutine_threadsafe(question, self._loop).result(_LONGEST_ANSWER_SECONDS)


class ExchangeCollector(_Collector):
    """Metrics of all channels of an exchange."""

    def __init__(self, exchange: "Exchange") -> None:
        """Call it in the exchange's event loop."""
        super().__init__()
        self._exchange = exchange

    def collect(self) -> Iterable["Metric"]:
        """All metrics; not for the exchange's own thread."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        bridges = self._asked(self._exchange.turns.all(self._exchange.each_statistics()))
        channels = [traffic_of(bridge) for bridge in bridges]
        for name in _COUNTERS:
            counter = CounterMetricFamily(f"permitflow_{name}", FIGURES[name], labels=["channel"])
            for traffic in channels:
                counter.add_metric([traffic.channel], getattr(traffic, name))
            yield counter
        for name in (*_GAUGES, *_KEPT):
            gauge = GaugeMetricFamily(f"permitflow_{name}", FIGURES[name], labels=["channel"])
            for traffic in channels:
                holder = traffic.kept if name in _KEPT else traffic
                if holder is not None and (value := getattr(holder, name)) is not None:
                    gauge.add_metric([traffic.channel], value)
            yield gauge
        helps = {name: text for bridge in bridges for name, text in bridge.numbers.gauge_help.items()}
        yield from _of_flows(helps, "", [(traffic.channel, traffic.gauges) for traffic in channels])
        yield from _of_flows(helps, "consumer_", [(traffic.channel, traffic.consumer_gauges) for traffic in channels])
        for name, (label, read) in _LABELLED.items():
            labelled = GaugeMetricFamily(f"permitflow_{name}", FIGURES[name], labels=["channel", label])
            for traffic in channels:
                for value, number in read(traffic).items():
                    labelled.add_metric([traffic.channel, value], number)
            yield labelled


def _of_flows(
    helps: Mapping[str, str], prefix: str, channels: Sequence[tuple[str, Mapping[str, int]]]
) -> Iterator["Metric"]:
    """What only the channels' flows count; with a prefix, of the streams to their consumers."""
    from prometheus_client.core import GaugeMetricFamily

    of_streams = "Streams to consumers: " if prefix else ""
    for name in {name: None for _, gauges in channels for name in gauges}:
        text = of_streams + helps.get(name, "")
        gauge = GaugeMetricFamily(f"permitflow_{prefix}{name}", text, labels=["channel"])
        for channel, gauges in channels:
            if name in gauges:
                gauge.add_metric([channel], gauges[name])
        yield gauge


_GATE_COUNTERS: Mapping[str, tuple[str, Callable[[GateStatistics], float]]] = {
    "alignments": ("Barriers that all inputs have reached.", lambda gate: gate.alignments),
    "given_up": ("Barriers that were given up.", lambda gate: gate.given_up),
    "alignment_seconds": ("Time in which some inputs waited for others.", lambda gate: gate.alignment_seconds),
}
_GATE_GAUGES: Mapping[str, tuple[str, Callable[[GateStatistics], float]]] = {
    "last_alignment_seconds": (
        "How long the last barrier took, from the first input to the last one.",
        lambda gate: gate.last_alignment_seconds,
    ),
    "floating_in_pool": ("Credit of the pool that no input has.", lambda gate: gate.pool),
}
_INPUT_COUNTERS: Mapping[str, tuple[str, Callable[[InputStatistics], float]]] = {
    "blocked_seconds": ("Time in which it waited behind its barrier for others.", lambda each: each.blocked_seconds),
    "awaited_seconds": ("Time in which others waited for it.", lambda each: each.awaited_seconds),
    "consumed_rows": ("Rows that the consumer has consumed.", lambda each: each.channel.consumed_rows),
}
_INPUT_GAUGES: Mapping[str, tuple[str, Callable[[InputStatistics], float]]] = {
    "blocked": ("1: it waits behind its barrier for others.", lambda each: each.is_blocked),
    "backlog": ("Rows that wait at its sender, as far as the gate knows.", lambda each: each.backlog),
    "floating_borrowed": ("Credit of the pool that it has.", lambda each: each.borrowed),
    "inbox_rows": ("Rows that were received and not consumed.", lambda each: each.channel.inbox_rows),
}


class Gate(Protocol):
    """What a collector needs of a gate."""

    def statistics(self) -> GateStatistics:
        """A snapshot."""
        ...


class GateCollector(_Collector):
    """Metrics of a gate: who waits for whom, and for how long.  The label ``gate`` tells several of them apart."""

    def __init__(self, gate: Gate, name: str = "") -> None:
        """Call it in the gate's event loop; unregister it before the loop ends."""
        super().__init__()
        self._gate = gate
        self._name = name

    def collect(self) -> Iterable["Metric"]:
        """All metrics; not for the gate's own thread, of which ``gate.statistics()`` may be asked."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        statistics = self._asked(self._look())
        for kind, figures in ((CounterMetricFamily, _GATE_COUNTERS), (GaugeMetricFamily, _GATE_GAUGES)):
            for name, (text, read) in figures.items():
                metric = kind(f"permitflow_gate_{name}", text, labels=["gate"])
                metric.add_metric([self._name], read(statistics))
                yield metric
        for kind, of_input in ((CounterMetricFamily, _INPUT_COUNTERS), (GaugeMetricFamily, _INPUT_GAUGES)):
            for name, (text, ask) in of_input.items():
                metric = kind(f"permitflow_gate_input_{name}", text, labels=["gate", "input"])
                for each in statistics.inputs:
                    metric.add_metric([self._name, each.name], ask(each))
                yield metric

    async def _look(self) -> GateStatistics:
        return self._gate.statistics()
