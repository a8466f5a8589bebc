"""Streams over gRPC with a peer on Node: a consumer that stands still at either end stops the producer at the other.

Node pauses and resumes in its own way (``interop/node/peer.js``); its buffers count as well.  Needs node and npm.
"""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from permitflow.stages import Source, calls
from permitflow.stages.calls import Window
from tests.support.numbers_service import DEFINITION, generated, number, serving

pytestmark = pytest.mark.long

COUNT, SIZE_BYTES = 1_000, 10_000
WINDOW = Window(65_535)  # also that of a server on Node, which has no option for it
TAKEN_FIRST = 3
# A producer has stopped if it gives nothing while Node answers so many questions.
LOOKS = 50
INSTALLING_SECONDS = 250

# What Node keeps at each end: objects, and bytes of a message in the stream below (its highWaterMarks).
NODE_OBJECTS, NODE_BYTES = 16, 16_384
# A message that is being taken apart or put together, and one being sent.
NODE_AHEAD = NODE_OBJECTS + NODE_BYTES // (SIZE_BYTES + 5) + 2
TO_NODE = WINDOW.size_bytes // (SIZE_BYTES + 5) + NODE_AHEAD + 1
FROM_NODE = WINDOW.most_ahead(SIZE_BYTES) + NODE_AHEAD
TOTAL = COUNT * (COUNT + 1) // 2


@pytest.fixture(scope="module")
def peer(repository: Path) -> Path:
    """The program, beside its packages."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are needed")
    folder = repository / "build" / "node-peer"
    shutil.copytree(repository / "interop/node", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_mod*"))
    if not (folder / "node_modules/@grpc/grpc-js").exists():
        installed = subprocess.run(
            [npm, "install"], cwd=folder, capture_output=True, text=True, timeout=INSTALLING_SECONDS, check=False
        )
        if installed.returncode:
            pytest.skip(f"npm cannot install the packages of the peer: {installed.stderr[-300:]}")
    return folder / "peer.js"


class Node:
    """A process that runs the peer."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    def say(self, word: str) -> None:
        self._stdin.write(f"{word}\n".encode())

    async def hears(self) -> dict[str, Any]:
        line = await self._stdout.readline()
        assert line, "the peer has ended; its reason stands above"
        found: dict[str, Any] = json.loads(line)
        return found

    async def look(self) -> dict[str, Any]:
        """Messages given and taken there."""
        self.say("look")
        return await self.hears()


@asynccontextmanager
async def running(peer: Path, *arguments: object) -> AsyncIterator[Node]:
    command = ["node", str(peer), str(DEFINITION), str(WINDOW.size_bytes), *map(str, arguments)]
    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Node(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


class Ours:
    """A producer and a consumer here; the consumer stands still after a few messages."""

    def __init__(self) -> None:
        self.given = self.taken = self.total = 0
        self.may_go_on = asyncio.Event()

    async def numbers(self) -> AsyncIterator[Any]:
        for value in range(1, COUNT + 1):
            self.given += 1
            yield number(value, SIZE_BYTES)

    async def take(self, found: Source[Any]) -> int:
        async for each in found:
            self.taken += 1
            self.total += each.value
            if self.taken == TAKEN_FIRST:
                await self.may_go_on.wait()
        return self.total


async def stopped(node: Node, given: Callable[[], Awaitable[int]]) -> int:
    """How many were given when no more are."""
    quiet, last = 0, -1
    while quiet < LOOKS:
        await node.look()
        now = await given()
        quiet, last = (quiet + 1 if now == last and now > TAKEN_FIRST else 0), now
    return last


@pytest.mark.parametrize(
    ("method", "most_ahead"), [("Count", FROM_NODE), ("Sum", TO_NODE), ("Double", TO_NODE + FROM_NODE)]
)
async def test_a_server_on_node_is_stopped_and_stops(peer: Path, method: str, most_ahead: int) -> None:
    ours = Ours()

    async def given() -> int:
        return int((await node.look())["given"]) if method == "Count" else ours.given

    async with running(peer, "serve") as node:
        address = f"127.0.0.1:{(await node.hears())['port']}"
        async with grpc.aio.insecure_channel(address, options=WINDOW.options) as channel:
            stub = generated()[1].NumbersStub(channel)
            if method == "Count":
                run: Any = ours.take(calls.source(stub.Count, number(COUNT, SIZE_BYTES)))
            elif method == "Double":
                run = ours.take(Source(ours.numbers()).through(calls.flow(stub.Double)))
            else:
                run = Source(ours.numbers()).through(calls.sink(stub.Sum))
            taking = asyncio.ensure_future(run)
            ahead = await stopped(node, given) - TAKEN_FIRST
            ours.may_go_on.set()
            node.say("go")
            result = await taking
    assert (result.value if method == "Sum" else result) == TOTAL * (2 if method == "Double" else 1)
    assert 1 <= ahead <= most_ahead


@pytest.mark.parametrize(
    ("method", "most_ahead"), [("Count", TO_NODE), ("Sum", FROM_NODE), ("Double", FROM_NODE + TO_NODE)]
)
async def test_a_client_on_node_is_stopped_and_stops(peer: Path, method: str, most_ahead: int) -> None:
    ours = Ours()

    async def count(request: Any, context: Any) -> None:
        await calls.respond(context, Source(ours.numbers()))

    async def add(iterator: Any, context: Any) -> Any:
        return number(await ours.take(calls.requests(iterator, context)))

    async def double(iterator: Any, context: Any) -> None:
        doubled = calls.requests(iterator, context).map(lambda n: number(2 * n.value, SIZE_BYTES))
        await calls.respond(context, doubled)

    async def given() -> int:
        return ours.given if method == "Count" else int((await node.look())["given"])

    async with (
        serving(WINDOW, Count=count, Sum=add, Double=double) as stub,
        running(peer, stub.address, method, COUNT, SIZE_BYTES) as node,
    ):
        ahead = await stopped(node, given) - TAKEN_FIRST
        ours.may_go_on.set()
        node.say("go")
        ended = (await node.hears())["ended"]
    assert ended["sum"] == TOTAL * (2 if method == "Double" else 1)
    assert 1 <= ahead <= most_ahead
