"""A driver of this library's own ends, for ``permitflow conform --command``: a program, as any foreign one.

    python -m tests.support.own_driver CARRIER

It lacks ``settle``: an idle receiver returns its residue after a while, and nobody counts its messages.
"""

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pyarrow as pa

from permitflow.client.aio import get, put
from permitflow.errors import ChannelAbortedError, EndOfStream, PermitflowError, WouldBlock
from permitflow.flows.messages import Kind
from permitflow.flows.table import flow_named
from permitflow_testing.foreign.peer import SCHEMA


class OwnDriver:
    """The words, one method for each."""

    def __init__(self, carrier: str) -> None:
        self._carrier = carrier
        self._asked: dict[int, asyncio.Task[None]] = {}
        self._end: Any = None

    async def hello(self, **_: Any) -> object:
        has = {"ends": ["sender", "receiver"], "flows": ["permits", "demand"], "carriers": [self._carrier]}
        return {"protocol": 2, **has, "lacks": ["settle"], "checksums": True}

    async def open(
        self, end: str, flow: str, parameters: dict[str, Any], channel: str, address: str, **_: Any
    ) -> object:
        wanted = flow_named(flow).parse(parameters)
        self._stack = AsyncExitStack()
        dialled: Any = (
            put(address, channel, SCHEMA, wanted=wanted) if end == "sender" else get(address, channel, wanted=wanted)
        )
        self._end = await self._stack.enter_async_context(dialled)
        return {}

    async def close(self) -> object:
        own = asyncio.current_task()
        left = [task for task in self._asked.values() if task is not own]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        try:
            await self._stack.aclose()
        except* PermitflowError:
            pass  # the kit hangs up where it likes
        return {}

    async def cancel(self, request: int) -> object:
        if request in self._asked:
            self._asked[request].cancel()
        return {}

    async def send(self, serial: int, rows: int, **_: Any) -> object:
        await self._end.send(_batch(serial, rows))
        return {}

    async def send_now(self, serial: int, rows: int, **_: Any) -> object:
        self._end.send_nowait(_batch(serial, rows))
        return {}

    async def send_barrier(self) -> object:
        await self._end.send_barrier()
        return {}

    async def send_watermark(self, value: int) -> object:
        self._end.send_watermark(value)
        return {}

    async def end(self) -> object:
        await self._end.end()
        return {}

    async def abort(self, reason: str) -> object:
        self._end.abort(reason)
        return {}

    async def consume(self) -> object:
        self._end.consume()
        return {}

    async def stop(self, reason: str) -> object:
        self._end.cancel_nowait(reason)
        return {}

    async def receive(self) -> object:
        try:
            message = await self._end.take()
        except EndOfStream:
            return {"ended": True}
        except ChannelAbortedError as abort:
            return {"aborted": str(abort)}
        if message.kind is not Kind.CHUNK:
            return {message.kind.value: message.payload or True}
        return {"chunk": {"rows": message.rows, "batch": base64.b64encode(message.payload.serialize()).decode()}}

    # Requests.

    def ask(self, request: dict[str, Any]) -> None:
        number = request.pop("id")
        word: Callable[..., Awaitable[object]] = getattr(self, request.pop("do"))
        self._asked[number] = asyncio.create_task(self._answer(number, word(**request)))

    async def _answer(self, number: int, call: Awaitable[object]) -> None:
        try:
            outcome: dict[str, object] = {"ok": await call}
        except asyncio.CancelledError:
            outcome = {"cancelled": True}
        except WouldBlock as reason:
            outcome = {"refused": str(reason)}
        except Exception as error:
            outcome = {"error": str(error)}
        del self._asked[number]
        print(json.dumps({"id": number, **outcome}), flush=True)


def _batch(serial: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch({"serial": [serial] * rows}, schema=SCHEMA)


async def main(carrier: str) -> None:
    driver, lines = OwnDriver(carrier), asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async for line in lines:
        driver.ask(json.loads(line))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
