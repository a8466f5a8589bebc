"""Whatever connects, says or leaves: it takes no memory, no place for ever and no log, and no count is lost."""

import asyncio
import errno
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from examples.child_process import address_of
from examples.wordcount.counting import WordCount
from examples.wordcount.outside import CountReader
from examples.wordcount.worker import WorkerSettings
from examples.wordcount.workers import WorkerProcess
from permitflow.carriers.framing import header
from permitflow.errors import InvalidParametersError
from permitflow.mute import Boundary, Buffers, Inlet, Lines, Pipeline, Saving, TcpSink, TcpSource
from permitflow.mute.messages import LinkMessageKind, Peer, message
from permitflow.mute.pipeline import Event
from permitflow.mute.sockets import Address, connected, listening
from tests.support.simulated_time import simulated, stand_still
from tests.support.turns import turns, until

ANY: Address = ("127.0.0.1", 0)
MOST_GROWTH_BYTES = 16 << 20


class House:
    """A pipeline with a source, an inlet and a sink that listens, and what it has reported."""

    def __init__(self, **of_source: float) -> None:
        self.events: list[Event] = []
        self.pipeline, self.words = Pipeline(hear=self.events.append), WordCount()
        self.sink = TcpSink(
            pipeline=self.pipeline, name="out", address=ANY, listens=True, on_open=lambda: self.words.restate(0)
        )
        self.words.sinks.append(self.sink)
        self.pipeline.chain("count", "out")
        self.source = TcpSource(
            pipeline=self.pipeline,
            name="in",
            feed=self.words.take,
            downstream="count",
            **of_source,  # type: ignore[arg-type]  # numbers
        )
        self.inlet = Inlet(
            pipeline=self.pipeline,
            name="inlet",
            feed=self.words.take,
            downstream="count",
            saving=Saving(None),
            most_connections=2,
            handshake_seconds=0.05,
        )

    def has_heard(self, event: str, **facts: object) -> bool:
        return any(each["event"] == event and facts.items() <= each.items() for each in self.events)

    @property
    def is_muting(self) -> bool:
        return self.pipeline.graph.is_muting("out")


@pytest.fixture
def house(run: asyncio.Runner) -> Iterator[House]:
    async def make() -> House:
        return House()

    async def end() -> None:
        made.pipeline.close()
        await turns()

    made = run.run(make())
    yield made
    run.run(end())


def reset_at_once(address: Address) -> None:
    """As a port scan, or a health check: connect, and break off."""
    with socket.create_connection(address) as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def test_a_connection_reset_at_once_unmutes_no_source(house: House) -> None:
    house.words.take(Lines("in", 0, [b"early"]))
    for _ in range(3):
        reset_at_once(house.sink.address)
    reader, writer = await asyncio.open_connection(*house.sink.address)
    assert await reader.readline() == b"early\t1\n"
    assert [event["event"] for event in house.events] == ["opened"]
    writer.close()


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_a_reader_that_leaves_mutes_without_a_write(house: House, how: str) -> None:
    _, writer = await asyncio.open_connection(*house.sink.address)
    await until(lambda: not house.is_muting)
    getattr(writer.transport, how)()
    await until(lambda: house.is_muting)


async def test_the_next_reader_learns_all_counts_after_the_end(house: House) -> None:
    _, writer = await asyncio.open_connection(*house.sink.address)
    await until(lambda: not house.is_muting)
    house.words.take(Lines("in", 0, [b"the last words", b"of the stream"]))  # it leaves without reading them
    writer.transport.abort()
    reader, writer = await asyncio.open_connection(*house.sink.address)
    told = sorted([await reader.readline() for _ in range(5)])
    assert told == [b"last\t1\n", b"of\t1\n", b"stream\t1\n", b"the\t2\n", b"words\t1\n"]
    writer.close()


async def test_strangers_fill_no_memory_before_their_name(tmp_path: Path) -> None:
    ready = asyncio.Event()
    settings = WorkerSettings(name="worker", inlet="127.0.0.1:0", listening_sinks=["127.0.0.1:0"])
    worker = WorkerProcess(settings, tmp_path, lambda event: ready.set() if event["event"] == "ready" else None)
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await ready.wait()
        process = psutil.Process(worker.pid)
        before = process.memory_info().rss

        async def fill(kind: LinkMessageKind) -> None:
            reader, writer = await asyncio.open_connection(*address_of(worker.addresses["inlet"]))
            writer.write(header(kind, 16 << 20))
            try:
                for _ in range(16):
                    writer.write(bytes(1 << 20))
                    await writer.drain()
                await reader.read()
            except ConnectionError:
                pass
            writer.transport.abort()

        await asyncio.gather(*(fill(kind) for kind in (LinkMessageKind.HELLO, LinkMessageKind.DATA) for _ in range(30)))
        assert process.memory_info().rss - before < MOST_GROWTH_BYTES
        await worker.stop()


async def test_an_inlet_has_a_limit_of_connections(house: House) -> None:
    ends = [await asyncio.open_connection(*house.inlet.address) for _ in range(3)]
    assert await ends[2][0].read() == b""
    assert house.has_heard("refused", inlet="inlet", connections=2, times=1)
    for _, writer in ends:
        writer.close()


async def test_a_caller_without_a_name_is_hung_up_on(house: House) -> None:
    reader, writer = await asyncio.open_connection(*house.inlet.address)
    assert b"it has not said within 0.05 s who it is" in await reader.read()
    assert house.has_heard("stranger", inlet="inlet")
    writer.close()


class Line(asyncio.Transport):
    """A connection on which nothing happens."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = False

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: object) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True


@simulated
async def test_a_handshake_does_not_count_time_in_which_it_is_stopped() -> None:
    line = Line()
    caller = Peer(expects=(), on_message=lambda *_: None, on_lost=lambda _: None, handshake_seconds=10)
    caller.connection_made(line)
    await asyncio.sleep(1)
    stand_still(3_600)
    await asyncio.sleep(7)
    assert not line.is_closed
    await asyncio.sleep(2)
    assert line.is_closed


async def test_a_boundary_looks_for_a_worker_that_says_nothing_again() -> None:
    """As a stopped process, whose kernel goes on accepting."""
    events: list[Event] = []
    pipeline = Pipeline(hear=events.append)
    with socket.create_server(ANY) as silent:
        Boundary(pipeline=pipeline, name="boundary", address=silent.getsockname(), handshake_seconds=0.01)
        await until(lambda: [event["event"] for event in events].count("lost") == 2)
    assert "it has not said within 0.01 s who it is" in str(events)
    pipeline.close()


async def test_strangers_cause_one_event_a_minute(house: House) -> None:
    for _ in range(3):
        reader, writer = await asyncio.open_connection(*house.inlet.address)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await reader.read()
        writer.close()
    await until(lambda: house.has_heard("stranger"))
    await turns()
    assert [event["event"] for event in house.events] == ["stranger"]


async def test_silent_connections_make_room_at_the_limit() -> None:
    house = House(most_connections=2, handshake_seconds=0)
    reader = CountReader(Buffers())
    silent = [await asyncio.open_connection(*house.source.address) for _ in range(2)]
    await until(lambda: len(house.source.connections) == 2)
    _, sender = await asyncio.open_connection(*house.source.address)
    sender.write(b"word\n")
    assert house.is_muting  # what the others may have said waits in the kernel
    await until(lambda: house.has_heard("closed", source="in/1"))
    await reader.visit(house.sink.address)
    await until(lambda: reader.counts == Counter({b"word": 1}))
    for _, writer in [*silent, (None, sender)]:
        writer.close()
    reader.close()
    house.pipeline.close()


async def test_a_connection_whose_words_wait_keeps_its_place() -> None:
    house = House(most_connections=1, handshake_seconds=0)
    _, sender = await asyncio.open_connection(*house.source.address)
    sender.write(b"word\n")
    await until(lambda: bool(house.source.connections))
    reader, stranger = await asyncio.open_connection(*house.source.address)
    assert await reader.read() == b""
    assert house.has_heard("refused", source="in", connections=1)
    sender.close()
    stranger.close()
    house.pipeline.close()


async def test_a_dialler_is_not_its_own_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may give it the very port that it dials, where nobody listens."""
    alone = Buffers().socket()
    alone.bind(ANY)
    monkeypatch.setattr(Buffers, "socket", lambda *_, **__: alone)
    with pytest.raises(ConnectionRefusedError, match="connected with itself"):
        await connected(alone.getsockname(), Buffers())


@pytest.mark.parametrize(("may_stand_still", "user_timeout_ms"), [(False, 30_000), (True, 0)])
async def test_every_socket_is_kept_alive(may_stand_still: bool, user_timeout_ms: int) -> None:
    with listening(ANY, Buffers(), may_stand_still=may_stand_still) as listener:
        made = await connected(listener.getsockname(), Buffers(), may_stand_still=may_stand_still)
        accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
    for each in (made, accepted):
        with each:
            assert each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert each.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
            assert each.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == user_timeout_ms


async def test_a_reader_may_stand_still_beyond_the_time_out(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux ends a connection with a user time-out though the peer answers, if it has no room for so long."""
    monkeypatch.setattr("permitflow.mute.sockets._USER_TIMEOUT_MS", 200)
    with await connected(house.sink.address, Buffers()), listening(ANY, Buffers()) as other:
        await until(lambda: not house.is_muting)
        filler = b"filler\t1\n" * 1_000_000
        house.sink.write(filler)
        with await connected(other.getsockname(), Buffers()) as cut, pytest.raises(TimeoutError):
            await asyncio.get_running_loop().sock_sendall(cut, filler)
        await turns()
        assert not house.has_heard("lost")
    await until(lambda: house.has_heard("lost"))


@pytest.mark.parametrize("part", ["source", "inlet", "sink"])
async def test_without_descriptors_it_waits_and_says_so_once(house: House, failures: list[int], part: str) -> None:
    failures.extend([errno.ENFILE, errno.EMFILE, errno.EMFILE, errno.ECONNABORTED])
    _, writer = await asyncio.open_connection(*getattr(house, part).address)
    await until(lambda: not failures)
    writer.write(message(LinkMessageKind.HELLO))
    await until(lambda: house.has_heard("opened"))
    (complaint,) = (event for event in house.events if event["event"] == "unreachable")
    assert "ulimit -n" in str(complaint["reason"])
    writer.close()


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 0.0])
async def test_a_stall_has_a_finite_time(seconds: float) -> None:
    with pytest.raises(InvalidParametersError, match="stall_seconds must be above 0, and finite"):
        Pipeline(stall_seconds=seconds)


async def test_a_save_that_fails_tells_nobody_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permitflow.mute.saving._SAVE_AGAIN_SECONDS", 0)
    events: list[Event] = []
    told: list[str] = []
    failing = [OSError(errno.ENOSPC, "no space left"), OSError(errno.ENOSPC, "no space left")]

    def save() -> None:
        if failing:
            raise failing.pop()

    saving = Saving(save, after=1, hear=events.append)
    saving.on_saved.append(lambda: told.append("saved"))
    saving.note_change()
    assert told == []
    await until(lambda: told == ["saved"])
    assert [event["event"] for event in events] == ["unsaved", "unsaved"]
    assert "no space left" in str(events[0]["reason"])
