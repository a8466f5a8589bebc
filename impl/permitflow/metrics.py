"""What an exchange and a gate count, as collectors for a registry of ``prometheus_client``.

    REGISTRY.register(GateCollector(gate))      # in the event loop of the gate

``observe`` gives the same to OpenTelemetry.  ``permitflow serve --metrics-address`` has the one of its exchange.  A
gate belongs to the consumer's process, and only there it is known who waits for whom.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from operator import add
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from permitflow.channels.gate import GateStatistics, InputStatistics
from permitflow.flows.table import flow_named, flow_names
from permitflow.stream.traffic import FIGURES, ChannelTraffic

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from prometheus_client.core import Metric

    from permitflow.exchange.registry import Exchange

__all__ = ["ExchangeCollector", "ExchangeFigures", "GateCollector", "observe"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

# Of a channel; FIGURES has their texts.
_COUNTERS = (
    "rows_in",
    "rows_out",
    "purged_rows",
    "expired_rows",
    "waiting_seconds",
    "consumer_waiting_seconds",
    "consumer_stopped_seconds",
    "resumes",
)
_GAUGES = (
    "producers",
    "consumers",
    "window_rows",
    "rows_held",
    "peak_rows_held",
    "rows_with_consumers",
    "byte_window",
    "bytes_held",
    "peak_bytes_held",
    "bytes_with_consumers",
    "suspended_streams",
)
_KEPT = ("staged_rows", "published_rows", "expired_row", "kept_bytes", "in_doubt_rows")
_LABELLED: Mapping[str, tuple[str, Callable[[ChannelTraffic], Mapping[str, int]]]] = {
    "state": ("state", lambda traffic: {traffic.state: 1}),
    "lag_rows": ("consumer", lambda traffic: {} if traffic.kept is None else traffic.kept.lag_rows),
    "compressed_streams": ("codec", lambda traffic: traffic.compressed_streams),
}


class _Figure(NamedTuple):
    """Of the exchange as a whole."""

    text: str
    ask: Callable[["Exchange"], float | None]
    plus: Callable[[float, float], float] = add
    """Of two processes of one exchange."""


_OF_EXCHANGE: Mapping[str, _Figure] = {
    "streams": _Figure("Streams that are open, suspended ones included.", lambda all_: all_.admission.streams),
    "memory_reserved_bytes": _Figure(
        "What messages may take if all windows are full: handshakes, suspended streams, channels, and open streams.",
        lambda all_: all_.admission.memory.reserved_bytes,
    ),
    "dropped_packets": _Figure(
        "Packets over UDP that nobody took: malformed, of no connection, or asking for one too many.",
        lambda all_: all_.admission.dropped_packets.total(),
    ),
    "lost_processes": _Figure(
        "Processes that have ended by themselves, and with them what was in their channels; none without several.",
        lambda all_: None,
    ),
    "memory_limit_bytes": _Figure(
        "What it may be at most; none without such a limit.", lambda all_: all_.admission.limits.max_memory
    ),
    "certificate_not_before_timestamp_seconds": _Figure(
        "When the certificate that clients see begins to be valid, or one behind it that ends first; none without TLS.",
        lambda all_: None if all_.certificate is None else all_.certificate.begins_at,
        min,
    ),
    "certificate_not_after_timestamp_seconds": _Figure(
        "When it ends to be valid: from then on, clients refuse the exchange.",
        lambda all_: None if all_.certificate is None else all_.certificate.ends_at,
        min,
    ),
}
_COUNTERS_OF_EXCHANGE = ("dropped_packets", "lost_processes")
# A scraper has given up by then.
_LONGEST_ANSWER_SECONDS = 5.0
# OpenTelemetry asks for the metrics one by one: what one snapshot told counts for all of them.
_ONE_EXPORT_SECONDS = 0.5


class _Collector:
    """Takes a snapshot for each scrape, in the event loop of what it looks at."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def describe(self) -> list["Metric"]:
        """Describe nothing: registration must not take a snapshot."""
        return []

    def _asked(self, question: Coroutine[Any, Any, T]) -> T:
        """The answer, for a thread of the scraper's.

        Raises:
            TimeoutError: the event loop has not answered.
            RuntimeError: it has ended.
        """
        try:
            asking = asyncio.run_coroutine_threadsafe(question, self._loop)
        except RuntimeError:
            question.close()
            raise
        try:
            return asking.result(_LONGEST_ANSWER_SECONDS)
        finally:
            asking.cancel()


class ExchangeFigures(NamedTuple):
    """What is told of an exchange at one moment."""

    channels: Sequence[ChannelTraffic]
    whole: Mapping[str, float | None]
    """The figures of the exchange as a whole, by the names of the metrics."""

    @classmethod
    async def of(cls, exchange: "Exchange") -> "ExchangeFigures":
        """The figures of what is in this process; call it in the exchange's event loop."""
        channels = await exchange.turns.all(exchange.each_statistics())
        return cls(channels, {name: figure.ask(exchange) for name, figure in _OF_EXCHANGE.items()})

    def plus(self, other: "ExchangeFigures") -> "ExchangeFigures":
        """The figures of two processes of one exchange together; where one has no limit, there is none."""
        summed = {
            name: None
            if number is None or (more := other.whole[name]) is None
            else _OF_EXCHANGE[name].plus(number, more)
            for name, number in self.whole.items()
        }
        return ExchangeFigures([*self.channels, *other.channels], summed)


class ExchangeCollector(_Collector):
    """Metrics of all channels of an exchange."""

    def __init__(
        self, exchange: "Exchange", look: Callable[[], Coroutine[Any, Any, ExchangeFigures]] | None = None
    ) -> None:
        """Call it in the exchange's event loop.

        Args:
            exchange: has the channels.
            look: asks for the figures; None: of what the exchange has in this process.
        """
        super().__init__()
        self._look = look or (lambda: ExchangeFigures.of(exchange))

    def collect(self) -> Iterable["Metric"]:
        """All metrics; not for the exchange's own thread."""
        channels, whole = self._asked(self._look())
        for name in (*_COUNTERS, *_GAUGES, *_KEPT):
            holders = [(each.channel, each.kept if name in _KEPT else each) for each in channels]
            found = [([channel], getattr(holder, name)) for channel, holder in holders if holder is not None]
            yield _metric(name, FIGURES[name], ["channel"], found, is_counter=name in _COUNTERS)
        helps = {name: text for flow in flow_names() for name, text in flow_named(flow).gauge_help.items()}
        yield from _of_flows(helps, "", [(traffic.channel, traffic.gauges) for traffic in channels])
        yield from _of_flows(helps, "consumer_", [(traffic.channel, traffic.consumer_gauges) for traffic in channels])
        for name, (label, read) in _LABELLED.items():
            values = [([each.channel, value], number) for each in channels for value, number in read(each).items()]
            yield _metric(name, FIGURES[name], ["channel", label], values)
        for name, figure in _OF_EXCHANGE.items():
            yield _metric(name, figure.text, [], [([], whole[name])], is_counter=name in _COUNTERS_OF_EXCHANGE)


def _metric(
    name: str,
    text: str,
    labels: Sequence[str],
    values: Iterable[tuple[Sequence[str], float | None]],
    *,
    is_counter: bool = False,
) -> "Metric":
    """A metric with these values by the values of its labels; those that are None are left out."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    metric = (CounterMetricFamily if is_counter else GaugeMetricFamily)(f"permitflow_{name}", text, labels=labels)
    for labelled, value in values:
        if value is not None:
            metric.add_metric(labelled, value)
    return metric


def _of_flows(
    helps: Mapping[str, str], prefix: str, channels: Sequence[tuple[str, Mapping[str, int]]]
) -> Iterator["Metric"]:
    """What only the channels' flows count; with a prefix, of the streams to their consumers."""
    of_streams = "Streams to consumers: " if prefix else ""
    for name in {name: None for _, gauges in channels for name in gauges}:
        values = [([channel], gauges.get(name)) for channel, gauges in channels]
        yield _metric(f"{prefix}{name}", of_streams + helps.get(name, ""), ["channel"], values)


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
    "inbox_bytes": ("Bytes that were received and not consumed.", lambda each: each.channel.inbox_bytes),
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
        statistics, gate = self._asked(self._look()), self._name
        for of_gate, is_counter in ((_GATE_COUNTERS, True), (_GATE_GAUGES, False)):
            for name, (text, read) in of_gate.items():
                yield _metric(f"gate_{name}", text, ["gate"], [([gate], read(statistics))], is_counter=is_counter)
        for of_input, is_counter in ((_INPUT_COUNTERS, True), (_INPUT_GAUGES, False)):
            for name, (text, ask) in of_input.items():
                values = [([gate, each.name], ask(each)) for each in statistics.inputs]
                yield _metric(f"gate_input_{name}", text, ["gate", "input"], values, is_counter=is_counter)

    async def _look(self) -> GateStatistics:
        return self._gate.statistics()


def observe(meter: "Meter", collector: ExchangeCollector | GateCollector) -> None:
    """Give all metrics to OpenTelemetry, under the same names; needs ``permitflow[opentelemetry]``.

        await asyncio.to_thread(observe, metrics.get_meter("permitflow"), ExchangeCollector(exchange))

    Each gets an observable instrument, which takes a snapshot when it is exported.  Gauges of a flow that no channel
    has yet are left out.

    Args:
        meter: of your own provider, which knows where to export to.
        collector: of an exchange or a gate.  Call this in another thread than the collector's.
    """
    latest = _Latest(collector)
    for name, family in latest.taken().items():
        # Counters have this ending for Prometheus only.
        create = meter.create_observable_counter if family.type == "counter" else meter.create_observable_gauge
        create(name, [latest.callback(name)], description=family.documentation)


class _Latest:
    """The last snapshot."""

    def __init__(self, collector: ExchangeCollector | GateCollector) -> None:
        self._collector = collector
        self._families: dict[str, Metric] = {}
        self._until = 0.0

    def taken(self) -> dict[str, "Metric"]:
        """The families by name, from a new snapshot.

        Raises:
            TimeoutError, RuntimeError: there is none.
        """
        return {each.name: each for each in self._collector.collect()}

    def families(self) -> dict[str, "Metric"]:
        """The families by name, from a new snapshot if the last one is old; none if there is none, for this export."""
        if monotonic() >= self._until:
            try:
                self._families = self.taken()
            except (TimeoutError, RuntimeError) as error:
                self._families = {}
                reason = str(error) or f"its event loop has not answered for {_LONGEST_ANSWER_SECONDS:.0f} s"
                _log.warning("no metrics of %s: %s", type(self._collector).__name__, reason)
            self._until = monotonic() + _ONE_EXPORT_SECONDS
        return self._families

    def callback(self, name: str) -> Callable[[object], Iterable[Any]]:
        """What an instrument asks."""
        from opentelemetry.metrics import Observation

        def observed(_options: object) -> Iterable[Observation]:
            family = self.families().get(name)
            return [] if family is None else [Observation(each.value, each.labels) for each in family.samples]

        return observed
