"""The instruments of benchmarks: the proxy that delays, and what aligns barriers."""

import asyncio
import time

import pytest

from benchmarks import delay_proxy
from benchmarks.gate import CHUNK, CHUNK_ROWS, INPUTS, SETTINGS, STORED, UNREAD, aligning_inputs, held_rows
from benchmarks.harness import Partner
from permitflow import AlignedBarrier, GateChunk
from permitflow.errors import EndOfStream

DELAY_SECONDS = 0.05
SENT = [bytes([number]) * 1_000 for number in range(50)]


def test_bytes_come_back_in_order_and_not_too_soon() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while content := await reader.read(1 << 16):
            writer.write(content)
        writer.close()
        await writer.wait_closed()

    async def through(address: str) -> tuple[bytes, float]:
        reader, writer = await asyncio.open_connection(*address.split(":"))
        began = time.monotonic()
        writer.writelines(SENT)
        content = await reader.readexactly(1)
        seconds = time.monotonic() - began
        writer.write_eof()
        content += await reader.read()
        writer.close()
        await writer.wait_closed()
        return content, seconds

    async def run() -> tuple[bytes, float]:
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            with Partner(delay_proxy.serve, f"{host}:{port}", DELAY_SECONDS) as proxy:
                return await through(proxy.hears())

    content, seconds = asyncio.run(run())
    assert content == b"".join(SENT)
    assert seconds >= 2 * DELAY_SECONDS


@pytest.mark.parametrize("setting", SETTINGS)
def test_each_way_of_aligning_holds_what_it_says_and_keeps_order(setting: str) -> None:
    async def test() -> None:
        async with aligning_inputs(setting) as (aligning, senders):
            slow, fast = (senders[name] for name in INPUTS)
            fast.send_barrier_nowait(1)
            behind = asyncio.create_task(fast.send(CHUNK))
            await slow.send(CHUNK)
            await asyncio.sleep(0)
            before = await aligning.receive()
            assert isinstance(before, GateChunk)
            assert before.source == "slow"
            slow.send_barrier_nowait(1)
            aligned = await aligning.receive()
            assert isinstance(aligned, AlignedBarrier)
            assert aligned.number == 1
            assert held_rows(aligning) == (CHUNK_ROWS if setting in (STORED, UNREAD) else 0)
            after = await aligning.receive()
            assert isinstance(after, GateChunk)
            assert after.source == "fast"
            await behind
            for sender in senders.values():
                await sender.end()
            with pytest.raises(EndOfStream):
                await aligning.receive()

    asyncio.run(test())
