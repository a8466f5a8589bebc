"""The proxy delays, changes nothing, and keeps the order."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

DELAY_SECONDS = 0.05
SENT = [bytes([number]) * 1_000 for number in range(50)]


def test_bytes_come_back_in_order_and_not_too_soon(repository: Path) -> None:
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
            proxy = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "benchmarks.delay_proxy", f"{host}:{port}", str(DELAY_SECONDS)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=repository,
            )
            assert proxy.stdin is not None
            assert proxy.stdout is not None
            came = await through(json.loads(await proxy.stdout.readline())["address"])
            proxy.stdin.close()
            assert await proxy.wait() == 0
            return came

    content, seconds = asyncio.run(run())
    assert content == b"".join(SENT)
    assert seconds >= 2 * DELAY_SECONDS
