"""How a stream of the asyncio client ends badly, or is refused, and which typed error says so."""

import asyncio
import contextlib
import re
from collections.abc import Coroutine
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Oversize
from permitflow.client import describe, get, put
from permitflow.errors import (
    ChannelAbortedError,
    ChannelBusyError,
    ChannelClosedError,
    ChannelSpentError,
    InvalidParametersError,
    ParameterMismatchError,
    PeerGoneError,
    PeerTimeoutError,
    SchemaMismatchError,
    UnknownChannelError,
    WouldBlock,
)
from permitflow.exchange import BridgeState
from tests.support.number_streams import SCHEMA, batch, everything, numbers, read, send_for_ever, serving
from tests.support.turns import until

pytestmark = pytest.mark.usefixtures("path")


async def fail_after_a_chunk(address: str) -> None:
    async with put(address, "orders/0", SCHEMA) as sender:
        await sender.send(batch(1))
        raise ZeroDivisionError


async def test_a_block_that_fails_aborts_the_channel_and_says_why() -> None:
    async with serving() as (_, server), get(server.address, "orders/0") as receiver:
        with pytest.raises(ZeroDivisionError):
            await fail_after_a_chunk(server.address)
        with pytest.raises(ChannelAbortedError, match="gave up: ZeroDivisionError"):
            await everything(receiver)


async def test_an_abort_is_heeded_while_the_channel_is_full() -> None:
    async with serving() as (exchange, server):
        async with put(server.address, "orders/0", SCHEMA) as sender:
            sending = asyncio.create_task(_refused(send_for_ever(sender)))
            # The channel takes two chunks of three rows, its stream two more.
            await until(lambda: sender.statistics().sent_rows == 12 and sender.statistics().waiting_sends == 1)
            sender.abort("tired")
            assert isinstance(await sending, ChannelClosedError)
        await until(lambda: exchange.channel("orders/0").state is BridgeState.BROKEN)
        with pytest.raises(ChannelAbortedError, match="gave up: tired"):
            await read(server.address)


async def test_a_block_that_forgets_the_end_aborts_the_channel(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as (exchange, server), get(server.address, "orders/0") as receiver:
        async with put(server.address, "orders/0", SCHEMA) as sender:
            await sender.send(batch(1))
        with pytest.raises(ChannelAbortedError, match="left without ending it"):
            await everything(receiver)
        assert exchange.channel("orders/0").state is BridgeState.BROKEN
        assert "'orders/0': its producer left without end()" in caplog.text
        with pytest.raises(ChannelAbortedError, match="left without ending it"):
            async with put(server.address, "orders/0", SCHEMA):
                pass
        # Later callers are told as well.
        with pytest.raises(ChannelAbortedError):
            await read(server.address)


async def test_who_leaves_a_stream_that_was_lost_is_warned(caplog: pytest.LogCaptureFixture) -> None:
    async with contextlib.AsyncExitStack() as stack:
        _, server = await stack.enter_async_context(serving())
        async with put(server.address, "orders/0", SCHEMA) as sender:
            await sender.send(batch(1))
            await stack.aclose()
            await until(lambda: sender.failure is not None)
        assert "left without end(), and its stream had failed (PeerGoneError" in caplog.text


async def test_sends_that_wait_fail_when_their_end_is_aborted_or_closed() -> None:
    async def test(how: str) -> None:
        async with (
            serving() as (_, server),
            get(server.address, "orders/0"),
            put(server.address, "orders/0", SCHEMA) as sender,
        ):
            with contextlib.suppress(WouldBlock):
                while True:
                    sender.send_nowait(batch(1, 1))
            async with asyncio.TaskGroup() as group:
                refused = group.create_task(_refused(sender.send(batch(*range(6)))))
                barriers = [group.create_task(_refused(sender.send_barrier(n))) for n in range(30)]
                await asyncio.sleep(0)
                sender.abort("tired") if how == "abort" else sender.close()
            error = refused.result()
            assert isinstance(error, ChannelClosedError)
            assert isinstance(barriers[-1].result(), ChannelClosedError)
            assert error.undelivered.column(0).to_pylist()[-1] == 5  # type: ignore[attr-defined]  # a batch
            with pytest.raises(ChannelClosedError):
                await sender.end()

    for how in ("abort", "close"):
        await test(how)


async def _refused(sending: Coroutine[Any, Any, Any]) -> BaseException | None:
    try:
        await sending
    except (ChannelClosedError, PeerGoneError) as error:
        return error
    return None


async def test_a_closed_receiver_says_so() -> None:
    async with serving() as (exchange, server), get(server.address, "orders/0") as receiver:
        await exchange.channel("orders/0").sender.send(batch(1))
        await receiver.take()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(_refused(receiver.take()))
            await asyncio.sleep(0)
            receiver.close()
            receiver.close()
        assert isinstance(waiting.result(), ChannelClosedError)
        for call in (receiver.receive_nowait, receiver.take_nowait, receiver.consume):
            with pytest.raises(ChannelClosedError, match="the receiver is closed"):
                call()


async def test_a_consumer_that_leaves_halfway_is_named_to_the_producer() -> None:
    async with serving() as (exchange, server):
        async with put(server.address, "orders/0", SCHEMA) as sender:
            async with get(server.address, "orders/0") as receiver:
                await sender.send(batch(1, 2, 3))
                await receiver.receive()
            with pytest.raises(PeerGoneError, match=r"the consumer of channel 'orders/0' at \S+ is gone") as caught:
                await send_for_ever(sender)
            assert caught.value.undelivered is not None
            with pytest.raises(PeerGoneError):
                await sender.end()
        assert exchange.channel("orders/0").state is BridgeState.BROKEN
        with pytest.raises(ChannelSpentError, match=": its consumer left halfway"):
            await read(server.address)
        with pytest.raises(PeerGoneError):
            async with put(server.address, "orders/0", SCHEMA):
                pass


async def test_a_consumer_that_leaves_before_its_first_message_is_replaced() -> None:
    async with serving() as (exchange, server):
        async with get(server.address, "orders/0"):
            await until(lambda: exchange.channel("orders/0").books.consumer is not None)
            with pytest.raises(ChannelBusyError, match="is being read by"):
                await read(server.address)
        await until(lambda: exchange.channel("orders/0").books.consumer is None)
        await exchange.channel("orders/0").sender.send(batch(1))
        await exchange.channel("orders/0").sender.end()
        assert numbers(await read(server.address)) == [1]
        with pytest.raises(ChannelSpentError, match="it was read to its end by"):
            await read(server.address)


async def _write(address: str) -> None:
    async with put(address, "orders/0", SCHEMA):
        pass


async def test_a_used_channel_tells_writer_and_reader_what_to_do() -> None:
    hint = "take another one, reset it (permitflow channel reset), or let it keep rows (permitflow serve --reten"
    async with serving() as (exchange, server):
        async with put(server.address, "orders/0", SCHEMA) as sender:
            await sender.send(batch(1))
            await sender.end(closes_channel=True)
        with pytest.raises(ChannelSpentError, match=f"it was ended by the producer at .*{re.escape(hint)}"):
            await _write(server.address)
        assert numbers(await read(server.address)) == [1]
        await until(lambda: exchange.channel("orders/0").state is BridgeState.SPENT)
        for use in (read, _write):
            with pytest.raises(ChannelSpentError, match=f"it was read to its end by .*{re.escape(hint)}"):
                await use(server.address)


async def test_the_reason_is_heard_however_much_is_on_its_way() -> None:
    """A status that crosses a write is lost in grpc.aio: the exchange says in band why it breaks a stream off."""

    async def lose_consumer(turn: int) -> None:
        async with (
            serving(ChannelParameters(row_permits=64)) as (_, server),
            put(server.address, "orders/0", SCHEMA) as sender,
        ):
            async with get(server.address, "orders/0") as receiver:
                await sender.send(batch(*range(turn)))
                await receiver.receive()
            with pytest.raises(PeerGoneError, match="the consumer of channel 'orders/0'") as caught:
                await send_for_ever(sender)
            assert any("reported by the exchange at" in note for note in caught.value.__notes__)

    for turn in range(30):
        await lose_consumer(turn)


@pytest.mark.parametrize("path", ["TCP"], indirect=True)  # it names its own addresses
async def test_an_address_without_a_listener_is_an_error_within_the_time() -> None:
    for call in (
        get("127.0.0.1:1", "q", connect_timeout_seconds=0.2),
        put("127.0.0.1:1", "q", SCHEMA, connect_timeout_seconds=0.2),
        get("tcp://127.0.0.1:1", "q", connect_timeout_seconds=0.2),
        get("127.0.0.1:1", "q", agreement_timeout_seconds=0.2),
        put("tcp://127.0.0.1:1", "q", SCHEMA, agreement_timeout_seconds=0.2),
    ):
        with pytest.raises(PeerTimeoutError, match=r"127\.0\.0\.1:1 .*'q'.*no connection within 0\.2 s"):
            async with call:
                pass


async def test_a_missing_schema_is_an_error_within_the_time() -> None:
    async with serving(schema=None) as (exchange, server):
        assert exchange.channel("orders/0").state is BridgeState.WAITING
        for call in (
            get(server.address, "orders/0", agreement_timeout_seconds=0.3),
            get(server.address, "orders/0", agreement_timeout_seconds=0.3),
        ):
            with pytest.raises(PeerTimeoutError, match="has a producer announced the channel's schema"):
                async with call:
                    pass
            await until(lambda: exchange.channel("orders/0").books.consumer is None)


async def test_a_refusal_of_the_exchange_arrives_as_the_same_error() -> None:
    async with serving(names=("orders/0", "orders/1")) as (_, server):
        with pytest.raises(UnknownChannelError, match=r"'lines/0'; known channels: orders/0, orders/1") as caught:
            await read(server.address, "lines/0")
        assert caught.value.known == ("orders/0", "orders/1")
        with pytest.raises(UnknownChannelError):
            await describe(server.address, "lines/0")
        with pytest.raises(SchemaMismatchError, match="m: string"):
            async with put(server.address, "orders/0", pa.schema([("m", pa.string())])):
                pass
        with pytest.raises(SchemaMismatchError):
            async with get(server.address, "orders/0", schema=pa.schema([("m", pa.string())])):
                pass
        whole = ChannelParameters(oversize=Oversize.WHOLE)
        with pytest.raises(ParameterMismatchError, match="oversize"):
            async with put(server.address, "orders/0", SCHEMA, wanted=whole):
                pass
        with pytest.raises(InvalidParametersError, match="channel must not be empty"):
            await read(server.address, "")
