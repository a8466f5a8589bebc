"""A consumer that needs no more ends the stream by ``cancel``: both ends count the same, and nothing is broken."""

import asyncio
from collections import deque
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, GateParameters, InputGate, LocalReceiver, LocalSender, SendEnd, open_channel
from permitflow.client import EndOutcome, RemoteSender, get, put
from permitflow.client.blocking import open_sink, open_source
from permitflow.errors import (
    ChannelCancelledError,
    ChannelClosedError,
    ChannelError,
    ChannelSpentError,
    LocalProtocolError,
)
from permitflow.exchange import BridgeState, Exchange, ExchangeServer, Retention
from permitflow.stream.session import State
from permitflow.tracing import FileTrace, read_trace
from permitflow_testing.traces import judge_all
from tests.impl.test_flows import CHUNK_ROWS, FLOWS, PAIRS, SCHEMA, WINDOW_ROWS, chunk, ends_of
from tests.support.served import served
from tests.support.turns import until

PERMITS = ChannelParameters(row_permits=WINDOW_ROWS)
WHY = "ten rows are enough"
GUARD_SECONDS = 20.0


async def send_for_ever(sender: SendEnd[pa.RecordBatch]) -> NoReturn:
    for number in count():
        await sender.send(chunk(number))
    raise AssertionError


async def refusal_of(sender: SendEnd[pa.RecordBatch]) -> ChannelCancelledError:
    with pytest.raises(ChannelCancelledError) as caught:
        await send_for_ever(sender)
    return caught.value


# Squelch assumes a slower sender than this.
@pytest.mark.parametrize(("flow", "carrier"), [pair for pair in PAIRS if pair.values[0] != "squelch"])
async def test_a_sender_hears_that_no_more_is_needed_and_why(flow: str, carrier: str) -> None:
    async with (
        asyncio.timeout(GUARD_SECONDS),
        ends_of(FLOWS[flow].parameters, carrier) as (sender, receiver),
        asyncio.TaskGroup() as group,
    ):
        sending = group.create_task(refusal_of(sender))
        first = await receiver.receive()
        assert first.payload.equals(chunk(0))
        await receiver.cancel(WHY)
        refused = await sending
        assert WHY in refused.reason
        assert isinstance(refused.undelivered, pa.RecordBatch)
        with pytest.raises(ChannelClosedError):
            await receiver.receive()
        await receiver.cancel("once more")  # without effect
        if isinstance(sender, RemoteSender):
            assert await sender.end() is EndOutcome.CANCELLED
        else:
            await sender.end()


async def test_a_message_that_was_taken_needs_not_be_consumed_first() -> None:
    async with ends_of(PERMITS, "TCP") as (sender, receiver):
        await sender.send(chunk(0))
        await receiver.take()
        await receiver.cancel(WHY)
        assert await sender.end() is EndOutcome.CANCELLED


async def test_a_cancelled_channel_is_spent_and_all_producers_hear_it(listen: str) -> None:
    opened = served("c", parameters=PERMITS, schema=SCHEMA, listen=listen)
    async with asyncio.timeout(GUARD_SECONDS), opened as (exchange, address):
        channel = exchange.channel("c")
        async with (
            put(address, "c", SCHEMA) as busy,
            put(address, "c", SCHEMA) as idle,
            put(address, "c", SCHEMA) as ended,
            asyncio.TaskGroup() as group,
        ):
            sending = group.create_task(refusal_of(busy))
            # What ``ended`` sends has to wait behind a full channel.
            await until(lambda: channel.receiver.statistics().inbox_rows + CHUNK_ROWS > WINDOW_ROWS)
            await ended.send(chunk(0))
            ending = group.create_task(ended.end(closes_channel=False))
            async with get(address, "c") as receiver:
                await receiver.receive()
                await receiver.cancel(WHY)
                assert receiver.state is State.CLOSED
            assert WHY in (await sending).reason
            assert await ending is EndOutcome.CANCELLED
            while idle.cancel is None:
                await idle.changed()
            assert await idle.end() is EndOutcome.CANCELLED
        assert channel.state is BridgeState.SPENT
        assert WHY in channel.statistics().reason
        with pytest.raises(ChannelCancelledError, match=WHY):
            async with put(address, "c", SCHEMA):
                pass
        with pytest.raises(ChannelSpentError, match=WHY):
            async with get(address, "c"):
                pass


async def test_a_consumer_in_the_exchanges_process_cancels_likewise() -> None:
    async with (
        asyncio.timeout(GUARD_SECONDS),
        served("c", parameters=PERMITS, schema=SCHEMA) as (exchange, address),
        put(address, "c", SCHEMA) as sender,
        asyncio.TaskGroup() as group,
    ):
        channel = exchange.channel("c")
        sending = group.create_task(refusal_of(sender))
        await channel.receiver.receive()
        await channel.receiver.cancel(WHY)
        assert WHY in (await sending).reason
    assert channel.state is BridgeState.SPENT


async def test_a_reader_of_kept_rows_stops_alone(listen: str) -> None:
    kept = served("c", parameters=PERMITS, schema=SCHEMA, retention=Retention.REPLAY, listen=listen)
    async with asyncio.timeout(GUARD_SECONDS), kept as (_, address), put(address, "c", SCHEMA) as sender:
        await sender.send(chunk(0))
        async with get(address, "c", from_row=0) as first:
            await first.receive()
            await first.cancel(WHY)  # while the exchange waits for more rows
        await sender.send(chunk(1))
        assert await sender.end() is EndOutcome.ACCEPTED
        async with get(address, "c", from_row=0) as second:
            assert (
                pa.Table.from_batches([message.payload async for message in second]).num_rows == 2 * chunk(0).num_rows
            )


async def test_blocking_ends_cancel_and_hear_of_it(listen: str) -> None:
    exchange = Exchange()
    channel = exchange.add_channel("c", PERMITS, schema=SCHEMA)

    def consume(address: str) -> None:
        with open_source(address, "c", timeout_seconds=GUARD_SECONDS) as source:
            assert next(source).equals(chunk(0))
            source.cancel(WHY)
            with pytest.raises(ChannelClosedError):
                next(source)

    def produce(address: str) -> None:
        with open_sink(address, "c", SCHEMA, timeout_seconds=GUARD_SECONDS) as sink:
            send_on = map(sink.send, map(chunk, count()))
            with pytest.raises(ChannelCancelledError, match=WHY):
                deque(send_on, maxlen=0)

    async with ExchangeServer(exchange, listen) as server:
        await asyncio.gather(*(asyncio.to_thread(run, server.address) for run in (produce, consume)))
    assert channel.state is BridgeState.SPENT


async def test_a_stream_that_has_ended_meanwhile_is_closed_by_it() -> None:
    async with ends_of(PERMITS, "gRPC") as (sender, receiver), asyncio.TaskGroup() as group:
        await sender.send(chunk(0))
        ending = group.create_task(sender.end())
        while receiver.ended_with is None:  # type: ignore[attr-defined]  # a remote one
            await receiver.changed()  # type: ignore[attr-defined]
        await receiver.cancel(WHY)
        assert await ending is EndOutcome.CANCELLED


@pytest.mark.parametrize("leave", ["cancel", "close"])
async def test_a_run_whose_receiver_leaves_early_follows_the_model(tmp_path: Path, leave: str) -> None:
    with FileTrace(tmp_path / "run.jsonl") as trace:
        sender: LocalSender[Any]
        receiver: LocalReceiver[Any]
        sender, receiver = open_channel(PERMITS, record=trace.recorder)
        sending = asyncio.create_task(send_for_ever(sender))
        await receiver.receive()
        if leave == "cancel":
            await receiver.cancel(WHY)
        else:
            receiver.close()
        await asyncio.wait({sending})
        assert isinstance(sending.exception(), ChannelError)
    (verdict,) = judge_all(read_trace(tmp_path / "run.jsonl"))
    assert verdict.is_valid, verdict.describe()
    assert verdict.is_at_rest == (leave == "cancel")  # then all permits are back


async def test_an_input_of_a_gate_cannot_be_cancelled_by_itself() -> None:
    parameters = GateParameters(inputs=2)
    gate: InputGate[Any] = InputGate(parameters)
    _, receiver = open_channel(parameters, group=gate.group)
    with pytest.raises(LocalProtocolError, match="close the gate"):
        await receiver.cancel(WHY)
