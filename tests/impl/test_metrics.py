"""Metrics of a gate: who waits for whom, as Prometheus reads it."""

import asyncio

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from permitflow.channels.gate import GateChunk, InputGate
from permitflow.metrics import GateCollector
from permitflow.protocol.gate import GateParameters


async def test_a_gate_tells_prometheus_who_waits_for_whom() -> None:
    registry = CollectorRegistry()
    async with InputGate[str](GateParameters(inputs=2, exclusive=0, floating=8)) as gate:
        ahead, late = gate.open_channel("ahead"), gate.open_channel("late")
        registry.register(GateCollector(gate, "join"))
        ahead.send_barrier_nowait(1)
        waiting = asyncio.create_task(late.send("before", 3))
        assert isinstance(await gate.receive(), GateChunk)
        await waiting
        await asyncio.sleep(0.01)
        scraped = (await asyncio.to_thread(generate_latest, registry)).decode()
    samples = {
        (sample.name.removeprefix("permitflow_gate_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(scraped)
        for sample in family.samples
    }
    assert samples["input_blocked", "join", "ahead"] == 1
    assert samples["input_blocked", "join", "late"] == 0
    assert samples["input_blocked_seconds_total", "join", "ahead"] >= 0.01
    assert samples["input_awaited_seconds_total", "join", "late"] >= 0.01
    assert samples["input_awaited_seconds_total", "join", "ahead"] == 0
    assert samples["input_floating_borrowed", "join", "late"] == 3
    assert samples["input_inbox_rows", "join", "late"] == 3
    assert samples["floating_in_pool", "join"] == 5
    assert samples["alignments_total", "join"] == 0
    assert samples["alignment_seconds_total", "join"] >= 0.01
