"""A word count over real sockets in one process: a reader that stands still stops the outside sender in time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice, pairwise
from typing import Any

import pytest

from examples.wordcount.counting import WordCount
from examples.wordcount.outside import CountReader, WordSender
from permitflow.errors import InvalidParametersError, SinkStalledError
from permitflow.mute import Bound, Buffers, Lines, Pipeline, TcpSink, TcpSource, kernel_bytes, pipeline_bound
from permitflow.mute.pipeline import Event
from tests.support.simulated_time import simulated, stand_still
from tests.support.turns import until

SMALL = Buffers(receive_bytes=16_384, send_bytes=16_384)
MEDIUM = Buffers()
"""Linux uses three quarters of these; of smaller ones just half."""
READ_BYTES = 4_096
LINE_BYTES = 64
WORDS = [b"%062d" % number for number in range(17)]  # with its end, a line of 63 bytes
INPUT_BYTES = 63


@dataclass
class Stage:
    """A pipeline with its outsides."""

    pipeline: Pipeline
    source: TcpSource
    sinks: list[TcpSink]
    readers: list[CountReader]
    events: list[Event]
    words: WordCount
    senders: list[WordSender] = field(default_factory=list)

    async def send(self, words: Iterable[bytes]) -> WordSender:
        """A new outside sender."""
        sender = WordSender(words, self.source.buffers, self.check)
        self.senders.append(sender)
        await sender.connect(self.source.address)
        return sender

    @property
    def bound(self) -> Bound:
        return pipeline_bound(
            # The accepted sockets have inherited their sizes.
            sources=[(sender.sizes, self.source.sizes) for sender in self.senders],
            sinks=[(sink.sizes, reader.sizes) for sink, reader in zip(self.sinks, self.readers, strict=True)],
            read_bytes=READ_BYTES,
            line_bytes=LINE_BYTES,
        )

    @property
    def inside_bytes(self) -> int:
        """Bytes of input that were sent, and whose counts were not received."""
        return sum(sender.sent_bytes for sender in self.senders) - INPUT_BYTES * sum(
            each.lines for each in self.readers
        )

    def check(self) -> None:
        """After each write of a sender."""
        assert self.inside_bytes <= self.bound.total

    async def stall(self, at_least_bytes: float = 0) -> None:
        """No reader reads until all senders stand still, and so many bytes are inside."""
        for reader in self.readers:
            reader.stand_still()
        await until(
            lambda: (
                all(sender.is_blocked for sender in self.senders)
                and all(state.muted_by for state in self.pipeline.state().values())
                and self.inside_bytes >= at_least_bytes
            )
        )

    def fill(self) -> None:
        """Make the first sink mute until its reader reads: it has more to write than the kernel ever takes."""
        self.readers[0].stand_still()
        self.sinks[0].write(b"filler\t1\n" * 200_000)

    def go_on(self) -> None:
        for reader in self.readers:
            reader.go_on()

    @property
    def counts(self) -> Counter[bytes]:
        return Counter(dict(item for reader in self.readers for item in reader.counts.items()))


@asynccontextmanager
async def staged(*, sinks: int = 1, stall_seconds: float = 60.0, buffers: Buffers = SMALL) -> AsyncIterator[Stage]:
    events: list[Event] = []
    pipeline = Pipeline(stall_seconds=stall_seconds, hear=events.append)
    words = WordCount()
    readers = [CountReader(buffers) for _ in range(sinks)]
    pipeline.chain("decode", "count", "encode")
    made = []
    for number, reader in enumerate(readers):
        sink = TcpSink(pipeline=pipeline, name=f"out{number}", address=reader.address, buffers=buffers)
        pipeline.chain("encode", sink.name)
        words.sinks.append(sink)
        made.append(sink)
    source = TcpSource(
        pipeline=pipeline,
        name="in",
        feed=words.take,
        downstream="decode",
        buffers=buffers,
        read_bytes=READ_BYTES,
        line_bytes=LINE_BYTES,
    )
    stage = Stage(pipeline, source, made, readers, events, words)
    await until(lambda: [event["event"] for event in events].count("opened") == sinks)
    try:
        yield stage
    finally:
        pipeline.close()
        for sender in stage.senders:
            sender.close()
        for reader in stage.readers:
            reader.close()


async def test_a_stalled_reader_stops_the_sender_within_the_bound() -> None:
    """The trigger is a short write."""
    async with staged(buffers=MEDIUM) as stage:
        await stage.send(cycle(WORDS))
        for _ in range(3):
            await stage.stall(at_least_bytes=stage.bound.total / 2)
            sink = stage.sinks[0]
            assert sink.short_writes > 0
            # All that waits in this process was made of one read.
            assert 0 < sink.peak_rest_bytes <= 2 * READ_BYTES
            stage.go_on()
            before = stage.readers[0].lines
            await until(lambda: stage.readers[0].lines > before + 20_000)  # noqa: B023  # awaited at once


async def test_a_client_that_writes_all_before_it_reads_is_stuck() -> None:
    """The blocking client of an echo server; what it can write is what the buffers on the way hold."""
    async with staged(stall_seconds=0.01) as stage:
        stage.readers[0].stand_still()
        bound_words = kernel_bytes(stage.source.sizes, stage.source.sizes) * 2 // INPUT_BYTES
        within = await stage.send(islice(cycle(WORDS), bound_words // 3))
        await until(within.ended.is_set)
        beyond = await stage.send(islice(cycle(WORDS), bound_words))
        await until(lambda: beyond.is_blocked and any(event["event"] == "stalled" for event in stage.events))
        assert not beyond.ended.is_set()
        stage.go_on()
        await until(lambda: stage.counts.total() == bound_words // 3 + bound_words)


async def test_several_sources_wait_for_the_slowest_of_several_sinks() -> None:
    sent = [*islice(cycle(WORDS), 3_000)]
    async with staged(sinks=2) as stage:
        senders = [await stage.send(sent) for _ in range(3)]
        stage.readers[0].stand_still()
        await until(lambda: all(sender.is_blocked for sender in senders) and stage.pipeline.graph.is_muting("out0"))
        assert {state.muted_by[0] for state in stage.pipeline.state().values()} == {"out0"}
        stage.go_on()
        await until(lambda: stage.counts.total() == 3 * len(sent))
        assert stage.counts == Counter(sent * 3)


async def test_a_connection_that_comes_during_a_stall_is_not_read() -> None:
    """Over TCP: else each newcomer would bring a read more."""
    async with staged() as stage:
        stage.fill()
        senders = [await stage.send(cycle(WORDS)) for _ in range(5)]
        await until(lambda: all(sender.is_blocked for sender in senders) and len(stage.pipeline.state()) == 5)
        assert all(state.muted_by == ["out0"] for state in stage.pipeline.state().values())
        assert stage.words.counts == {}
        stage.go_on()
        await until(lambda: stage.readers[0].lines > 210_000)


class Idle:
    """A source that has nothing to read."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


async def test_a_source_that_comes_while_signals_travel_is_told_as_muted() -> None:
    events: list[Event] = []
    pipeline = Pipeline(hear=events.append)
    pipeline.graph.add_muter("sink")
    pipeline.set_open("sink", False)
    pipeline.chain("decode", "encode", "sink")  # it knows of the mute, and "decode" does not yet

    pipeline.add_source("in", "decode", Idle())

    assert [(event["event"], event["by"]) for event in events] == [("muted", ["sink"])]
    pipeline.close()


async def test_what_is_written_in_the_last_moment_of_a_drain_is_not_left() -> None:
    pipeline = Pipeline()
    pipeline.graph.add_muter("sink")
    pipeline.report("sink", 1)
    draining = asyncio.create_task(pipeline.drain(0))
    await asyncio.sleep(0)  # its time is over in the next turn

    asyncio.get_running_loop().call_soon(pipeline.report, "sink", 0)

    await draining
    pipeline.close()


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1, "soon", True])
async def test_a_drain_has_a_finite_time(seconds: Any) -> None:
    with pytest.raises(InvalidParametersError, match="seconds must be a number from 0 to 86,400"):
        await Pipeline().drain(seconds)


@simulated
async def test_a_drain_does_not_count_time_in_which_its_process_is_stopped() -> None:
    pipeline = Pipeline()
    pipeline.graph.add_muter("sink")
    pipeline.report("sink", 1)
    draining = asyncio.create_task(pipeline.drain(10))
    await asyncio.sleep(1)
    stand_still(3_600)
    await asyncio.sleep(7)
    pipeline.report("sink", 0)
    await draining
    pipeline.close()


async def test_a_lost_reader_mutes_and_a_new_one_learns_all_counts() -> None:
    """A sink that is not connected cannot send."""
    sent = [b"once", *islice(cycle(WORDS), 10_000)]  # more than the kernel could take without a reader
    async with staged() as stage:
        stage.sinks[0].on_open = lambda: stage.words.restate(0)
        await stage.send(sent)
        await until(lambda: stage.readers[0].lines > 100)
        address = stage.readers[0].address
        stage.readers[0].close()
        await until(lambda: any(event["event"] == "lost" for event in stage.events))
        assert stage.pipeline.state()["in/1"].muted_by == ["out0"]
        stage.readers[0] = CountReader(SMALL, address)
        await until(lambda: stage.counts == Counter(sent))


async def test_a_sink_that_listens_serves_one_reader_after_the_other() -> None:
    pipeline, words = Pipeline(), WordCount()
    sink = TcpSink(
        pipeline=pipeline, name="out", address=("127.0.0.1", 0), listens=True, on_open=lambda: words.restate(0)
    )
    words.sinks.append(sink)
    assert pipeline.graph.is_muting("out")
    words.take(Lines("in", 0, [b"early"]))
    for count in (1, 2):
        reader, writer = await asyncio.open_connection(*sink.address)
        assert await reader.readline() == b"early\t%d\n" % count
        assert not pipeline.graph.is_muting("out")
        writer.transport.abort()
        await until(lambda: pipeline.graph.is_muting("out"))
        words.take(Lines("in", count, [b"early"]))
    pipeline.close()


async def test_a_stall_that_lasts_is_reported_with_the_muters() -> None:
    async with staged(stall_seconds=0.01) as stage:
        await stage.send(cycle(WORDS))
        stage.readers[0].stand_still()
        await until(lambda: any(event["event"] == "stalled" for event in stage.events))
        report = next(event for event in stage.events if event["event"] == "stalled")
        assert report["source"] == "in/1"
        assert report["by"] == ["out0"]
        assert 0 < stage.pipeline.state()["in/1"].muted_share <= 1
        stage.go_on()
        before = stage.readers[0].lines
        await until(lambda: stage.readers[0].lines > before + 20_000)
        kinds = [event["event"] for event in stage.events if "by" in event]
        assert "unmuted" in kinds
        # No report comes late, when the source reads again.
        assert {former for former, kind in pairwise(kinds) if kind == "stalled"} == {"muted"}


async def test_a_muted_pipeline_can_be_stopped_and_says_what_is_left() -> None:
    async with staged() as stage:
        stage.fill()
        await stage.send(cycle(WORDS))
        await until(lambda: "in/1" in stage.pipeline.state())
        with pytest.raises(SinkStalledError, match=r"still wait at \('out0',\)") as caught:
            await stage.pipeline.drain(0.01)
        assert caught.value.left == stage.pipeline.backlogs["out0"]
        late = await stage.send(cycle(WORDS))
        await until(lambda: late.is_blocked and stage.pipeline.state()["in/2"].muted_by == ["in/2", "out0"])
        stage.go_on()
        await until(lambda: stage.pipeline.backlogs["out0"] == 0)
        assert stage.pipeline.state()["in/2"].muted_by == ["in/2"]
        await stage.pipeline.drain(60)


async def test_a_line_that_is_too_long_closes_its_connection_only() -> None:
    async with staged() as stage:
        good = await stage.send(WORDS)
        await stage.send([b"x" * 1_000])
        await until(lambda: [event["event"] for event in stage.events].count("closed") == 2)
        reasons = {event["source"]: event["reason"] for event in stage.events if event["event"] == "closed"}
        assert reasons["in/1"] == ""
        assert "longer than max_length = 64" in str(reasons["in/2"])
        await until(lambda: stage.counts == Counter(WORDS))
        assert good.failure is None


async def test_the_last_line_needs_no_end() -> None:
    async with staged() as stage:
        _, writer = await asyncio.open_connection(*stage.source.address)
        writer.write(b"to be or\nnot to be")
        writer.close()
        await writer.wait_closed()
        await until(lambda: stage.counts.total() == 6)
        assert stage.counts == Counter(b"to be or not to be".split())


class Written:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.text = b""

    def write(self, data: bytes) -> None:
        self.text += data


def test_a_line_that_comes_again_is_counted_once() -> None:
    words, sink = WordCount(), Written()
    words.sinks.append(sink)
    words.take(Lines("log", 0, [b"a", b"b"]))
    words.take(Lines("log", 0, [b"a", b"b", b"a c"]))
    words.take(Lines("log", 1, [b"b"]))
    words.take(Lines("another", 0, [b"c"]))
    assert sink.text.split(b"\n") == [b"a\t1", b"b\t1", b"a\t2", b"c\t1", b"c\t2", b""]


async def test_connections_beyond_the_limit_are_closed() -> None:
    async with staged() as stage:
        stage.source.most_connections = 1
        await stage.send(cycle(WORDS))
        await until(lambda: bool(stage.pipeline.state()))
        refused = await stage.send(cycle(WORDS))
        await until(refused.ended.is_set)
        assert refused.failure is not None
        assert {"event": "refused", "source": "in", "times": 1, "connections": 1} in stage.events


def test_buffers_that_the_kernel_would_not_take_are_refused() -> None:
    with pytest.raises(InvalidParametersError, match=r"send_bytes must be at least 4,096, not 1"):
        Buffers(send_bytes=1)
