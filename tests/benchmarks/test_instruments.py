"""The instruments of benchmarks: the proxy that delays."""

import asyncio
import time

from benchmarks import delay_proxy
from benchmarks.harness import Partner

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
