"""Streams over gRPC with peers on Node and in Java: a consumer that stands still stops the producer at the other end.

Each paces itself in its own way (``interop/node/peer.js``, ``interop/java/numbers``); its buffers count as well.
"""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest

from permitflow.stages import Source, calls
from permitflow.stages.calls import Window
from tests.support.numbers_service import DEFINITION, generated, number, serving
from tools import java_peers

pytestmark = pytest.mark.long

COUNT, SIZE_BYTES = 1_000, 10_000
WINDOW = Window(65_535)  # also that of a server on Node, which has no option for it
TAKEN_FIRST = 3
# A producer has stopped if it has filled a window, and gives nothing while the peer answers so many questions.
LOOKS = 500
INSTALLING_SECONDS = 250

IN_WINDOW = WINDOW.size_bytes // (SIZE_BYTES + 5)
"""Messages that fit a window."""
TOTAL = COUNT * (COUNT + 1) // 2

# What Node keeps at each end: objects, and bytes of a message in the stream below (its highWaterMarks).
NODE_OBJECTS, NODE_BYTES = 16, 16_384
# A message that is being taken apart or put together, and one being sent.
NODE_AHEAD = NODE_OBJECTS + NODE_BYTES // (SIZE_BYTES + 5) + 2
# grpc-java says that it is ready while it has fewer bytes than this to send.
JAVA_BYTES = 32_768
# What it has to send then, and the message that made it more.
JAVA_AHEAD = JAVA_BYTES // (SIZE_BYTES + 5) + 1


class Peer(NamedTuple):
    """A program in another language, and how far a producer gets ahead of a consumer that stands still."""

    command: tuple[str, ...]
    to_peer: int
    """The consumer is the peer's: what fits its window and what it keeps, and one message being sent."""
    from_peer: int
    """The producer is the peer's."""


@pytest.fixture(scope="module", params=["Node", "Java"])
def peer(repository: Path, request: pytest.FixtureRequest) -> Peer:
    return on_node(repository) if request.param == "Node" else in_java()


def on_node(repository: Path) -> Peer:
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
    command = ("node", str(folder / "peer.js"), str(DEFINITION))
    return Peer(command, to_peer=IN_WINDOW + NODE_AHEAD + 1, from_peer=WINDOW.most_ahead(SIZE_BYTES) + NODE_AHEAD)


def in_java() -> Peer:
    """The program, compiled."""
    try:
        class_path = java_peers.joined(java_peers.built("numbers"))
        command = (java_peers.tool("java"), "-cp", class_path, "permitflow.numbers.Peer")
    except java_peers.CannotBuildError as error:
        pytest.skip(str(error))
    return Peer(command, to_peer=IN_WINDOW + 2, from_peer=WINDOW.most_ahead(SIZE_BYTES) + JAVA_AHEAD)


class Running:
    """A process of the peer."""

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
async def running(peer: Peer, *arguments: object) -> AsyncIterator[Running]:
    command = [*peer.command, str(WINDOW.size_bytes), *map(str, arguments)]
    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Running(process)
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


async def stopped(there: Running, ours: Ours, given: Callable[[], Awaitable[int]]) -> int:
    """How many were given when no more are, and the consumer stands still, here or there."""
    quiet, last, taken = 0, -1, 0
    while quiet < LOOKS:
        taken = max((await there.look())["taken"], ours.taken)
        now = await given()
        is_full = taken >= TAKEN_FIRST and now >= IN_WINDOW
        quiet, last = (quiet + 1 if is_full and now == last else 0), now
    assert taken == TAKEN_FIRST
    return last


@pytest.mark.parametrize("method", ["Count", "Sum", "Double"])
async def test_a_server_there_is_stopped_and_stops(peer: Peer, method: str) -> None:
    most_ahead = {"Count": peer.from_peer, "Sum": peer.to_peer, "Double": peer.to_peer + peer.from_peer}[method]
    ours = Ours()

    async def given() -> int:
        return int((await there.look())["given"]) if method == "Count" else ours.given

    async with running(peer, "serve") as there:
        address = f"127.0.0.1:{(await there.hears())['port']}"
        async with grpc.aio.insecure_channel(address, options=WINDOW.options) as channel:
            stub = generated()[1].NumbersStub(channel)
            if method == "Count":
                run: Any = ours.take(calls.source(stub.Count, number(COUNT, SIZE_BYTES)))
            elif method == "Double":
                run = ours.take(Source(ours.numbers()).through(calls.flow(stub.Double)))
            else:
                run = Source(ours.numbers()).through(calls.sink(stub.Sum))
            taking = asyncio.ensure_future(run)
            ahead = await stopped(there, ours, given) - TAKEN_FIRST
            ours.may_go_on.set()
            there.say("go")
            result = await taking
    assert (result.value if method == "Sum" else result) == TOTAL * (2 if method == "Double" else 1)
    assert IN_WINDOW - TAKEN_FIRST <= ahead <= most_ahead


@pytest.mark.parametrize("method", ["Count", "Sum", "Double"])
async def test_a_client_there_is_stopped_and_stops(peer: Peer, method: str) -> None:
    most_ahead = {"Count": peer.to_peer, "Sum": peer.from_peer, "Double": peer.to_peer + peer.from_peer}[method]
    ours = Ours()

    async def count(request: Any, context: Any) -> None:
        await calls.respond(context, Source(ours.numbers()))

    async def add(iterator: Any, context: Any) -> Any:
        return number(await ours.take(calls.requests(iterator, context)))

    async def double(iterator: Any, context: Any) -> None:
        doubled = calls.requests(iterator, context).map(lambda n: number(2 * n.value, SIZE_BYTES))
        await calls.respond(context, doubled)

    async def given() -> int:
        return ours.given if method == "Count" else int((await there.look())["given"])

    async with (
        serving(WINDOW, Count=count, Sum=add, Double=double) as stub,
        running(peer, stub.address, method, COUNT, SIZE_BYTES) as there,
    ):
        ahead = await stopped(there, ours, given) - TAKEN_FIRST
        ours.may_go_on.set()
        there.say("go")
        ended = (await there.hears())["ended"]
    assert ended["sum"] == TOTAL * (2 if method == "Double" else 1)
    assert IN_WINDOW - TAKEN_FIRST <= ahead <= most_ahead
