"""The example bytes in docs/protocols/wire.md: those of the code, and an exchange answers them so."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from permitflow.carriers.byte_stream import StreamMessageKind
from permitflow.carriers.framing import HEADER_BYTES, parse_header
from permitflow.wire.checksum import CHECKSUM_BYTES
from tests.support.served import served
from tools import wire_example
from tools.wire_example import BATCH, CHANNEL, PARAMETERS, steps


def test_the_document_has_the_bytes_of_the_code(repository: Path) -> None:
    text = (repository / "docs/protocols/wire.md").read_text("utf-8")
    assert wire_example.page(text) == text, "python -m tools.wire_example"


@pytest.mark.parametrize("checksums", [True, False], ids=["with checksums", "without"])
async def test_an_exchange_answers_the_bytes_of_the_document(checksums: bool) -> None:
    async with (
        asyncio.timeout(60),
        served(CHANNEL, parameters=PARAMETERS, schema=BATCH.schema, listen="tcp://127.0.0.1:0") as (exchange, address),
    ):
        sender = exchange.channel(CHANNEL).sender
        sends: list[Callable[[], Coroutine[Any, Any, object]]] = [
            partial(sender.send, BATCH),
            partial(sender.send_barrier, -1),
            sender.end,
        ]
        due = iter(sends)
        host, _, port = address.removeprefix("tcp://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        async with asyncio.TaskGroup() as tasks:
            for step in steps():
                said = step.data if checksums else _without(step.data)
                if step.is_dialler:
                    writer.write(said)
                    continue
                if "frame" in step.words and "Agreement" not in step.words:
                    tasks.create_task(next(due)())
                assert await _message(reader) == said, step.words
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


def _without(message: bytes) -> bytes:
    """The same message of an end that makes no checksums."""
    return message if len(message) == HEADER_BYTES else message[:-CHECKSUM_BYTES] + b"\x71" + bytes(8)


async def _message(reader: asyncio.StreamReader) -> bytes:
    """The next message with its header; signs of life are left out."""
    while True:
        head = await reader.readexactly(HEADER_BYTES)
        parsed = parse_header(memoryview(head))
        assert parsed is not None, head
        kind, size = parsed
        body = await reader.readexactly(size)
        if kind != StreamMessageKind.PING:
            return head + body
