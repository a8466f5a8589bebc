"""Metrics for Prometheus: which inputs of a gate wait for which, seen by the gate and by an exchange."""

import asyncio
import socket
from time import time

import pyarrow as pa
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from permitflow import ChannelParameters, Demand, GateChunk, GateParameters, InputGate
from permitflow.exchange import Exchange, Limits, Retention
from permitflow.metrics import ExchangeCollector, ExchangeFigures, GateCollector, observe
from tests.support.certificates import Certificates
from tests.support.served import served, stopped_behind_a_barrier
from tests.support.turns import until

CHUNK = pa.record_batch({"n": pa.array([1, 2, 3], pa.int64())})


async def scraped(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    """Each sample by its name and the values of its labels."""
    text = (await asyncio.to_thread(generate_latest, registry)).decode()
    return {
        (sample.name.removeprefix("permitflow_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_a_gate_tells_which_input_the_others_wait_for_and_how_long() -> None:
    registry = CollectorRegistry()
    async with InputGate[str](GateParameters(inputs=2, exclusive=0, floating=8)) as gate:
        ahead, late = gate.open_channel("ahead"), gate.open_channel("late")
        registry.register(GateCollector(gate, "join"))
        ahead.send_barrier_nowait(1)
        waiting = asyncio.create_task(late.send("before", 3))
        assert isinstance(await gate.receive(), GateChunk)
        await waiting
        await asyncio.sleep(0.01)
        samples = await scraped(registry)
    assert samples["gate_input_blocked", "join", "ahead"] == 1
    assert samples["gate_input_blocked", "join", "late"] == 0
    assert samples["gate_input_blocked_seconds_total", "join", "ahead"] >= 0.01
    assert samples["gate_input_awaited_seconds_total", "join", "late"] >= 0.01
    assert samples["gate_input_awaited_seconds_total", "join", "ahead"] == 0
    assert samples["gate_input_floating_borrowed", "join", "late"] == 3
    assert samples["gate_input_inbox_rows", "join", "late"] == 3
    assert samples["gate_floating_in_pool", "join"] == 5
    assert samples["gate_alignments_total", "join"] == 0
    assert samples["gate_alignment_seconds_total", "join"] >= 0.01


async def test_an_exchange_tells_which_channels_a_gate_has_stopped() -> None:
    registry = CollectorRegistry()
    async with stopped_behind_a_barrier(CHUNK) as (exchange, _):
        registry.register(ExchangeCollector(exchange))
        await asyncio.sleep(0.01)
        samples = await scraped(registry)
    assert samples["consumer_stopped_behind_barrier", "ahead"] == 1
    assert samples["consumer_stopped_behind_barrier", "late"] == 0
    assert samples["consumer_stopped_seconds_total", "ahead"] >= 0.01
    assert samples["consumer_stopped_seconds_total", "late"] == 0
    assert samples["consumer_backlog", "ahead"] == 3
    assert samples["consumer_credit_here", "ahead"] == 0


async def test_each_channel_has_its_counts_and_each_consumer_its_lag() -> None:
    registry, exchange = CollectorRegistry(), Exchange(parameters=ChannelParameters(row_permits=8))
    exchange.add_channel("once")
    exchange.add_channel("one by one", Demand(size=1, batch=1))
    kept = exchange.add_channel("kept", retention=Retention.REPLAY, consumers=("etl", "audit"))
    await kept.append(CHUNK)
    await kept.acknowledge(2, "etl")
    registry.register(ExchangeCollector(exchange))
    samples = await scraped(registry)
    assert samples["rows_in_total", "kept"] == samples["rows_held", "kept"] == samples["lag_rows", "kept", "audit"] == 3
    assert samples["lag_rows", "kept", "etl"] == 1
    assert samples["window_rows", "once"] == samples["row_permits_here", "once"] == 8
    assert samples["rows_held", "one by one"] == 0
    assert samples["state", "once", "waiting"] == 1
    strange = {("window_rows", "one by one"), ("row_permits_here", "kept"), ("staged_rows", "once")}
    assert not strange & set(samples), "not every channel has every figure"


async def test_packets_that_nobody_takes_are_counted() -> None:
    registry = CollectorRegistry()
    async with served(listen="udp://127.0.0.1:0") as (exchange, address):
        registry.register(ExchangeCollector(exchange))
        with socket.socket(type=socket.SOCK_DGRAM) as stranger:
            stranger.sendto(b"?", ("127.0.0.1", int(address.rpartition(":")[2])))
        await until(lambda: exchange.admission.dropped_packets["malformed"] == 1)
        samples = await scraped(registry)
    assert samples["dropped_packets_total",] == 1


async def test_the_certificates_end_is_told_where_there_is_one(certificates: Certificates) -> None:
    registry = CollectorRegistry()
    async with served(of_server={"security": certificates.server}) as (exchange, _):
        registry.register(ExchangeCollector(exchange))
        samples = await scraped(registry)
        figures = await ExchangeFigures.of(exchange)
    begins, ends = (samples[f"certificate_not_{word}_timestamp_seconds",] for word in ("before", "after"))
    assert begins < time() < ends
    assert figures.plus(figures).whole["certificate_not_after_timestamp_seconds"] == ends
    assert figures.plus(await ExchangeFigures.of(Exchange())).whole["certificate_not_after_timestamp_seconds"] is None


async def test_figures_of_several_processes_are_summed() -> None:
    named = {name: Exchange(limits=Limits(max_memory=1 << 30)) for name in ("one", "other")}
    for name, exchange in named.items():
        exchange.add_channel(name)
    one, other = [await ExchangeFigures.of(exchange) for exchange in named.values()]
    both = one.plus(other)
    assert [each.channel for each in both.channels] == ["one", "other"]
    assert both.whole["memory_limit_bytes"] == 2 << 30
    assert both.whole["memory_reserved_bytes"] == 2 * (one.whole["memory_reserved_bytes"] or 0) > 0
    assert both.plus(await ExchangeFigures.of(Exchange())).whole["memory_limit_bytes"] is None


async def test_opentelemetry_gets_what_prometheus_gets() -> None:
    exchange, reader, registry = Exchange(), InMemoryMetricReader(), CollectorRegistry()
    kept = exchange.add_channel("kept", retention=Retention.REPLAY, consumers=("etl", "audit"))
    collector = ExchangeCollector(exchange)
    provider = MeterProvider([reader])
    await asyncio.to_thread(observe, provider.get_meter("permitflow"), collector)
    registry.register(collector)
    await kept.append(CHUNK)
    data = await asyncio.to_thread(reader.get_metrics_data)
    assert data is not None
    found = {
        (metric.name.removeprefix("permitflow_"), *(point.attributes or {}).values()): point.value
        for scope in data.resource_metrics[0].scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        if isinstance(point, NumberDataPoint)
    }
    expected = {
        (name.removesuffix("_total"), *labels): each for (name, *labels), each in (await scraped(registry)).items()
    }
    assert found == expected
    assert found["lag_rows", "kept", "audit"] == 3
    provider.shutdown()


def test_an_exchange_that_has_ended_is_told_once_in_each_export(caplog: pytest.LogCaptureFixture) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])

    async def begin() -> None:
        await asyncio.to_thread(observe, provider.get_meter("permitflow"), ExchangeCollector(Exchange()))

    asyncio.run(begin())
    assert reader.get_metrics_data() is None
    assert [record.getMessage() for record in caplog.records] == [
        "no metrics of ExchangeCollector: Event loop is closed"
    ]
    provider.shutdown()
