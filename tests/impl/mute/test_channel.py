"""Two workers with a data channel between them: in one process here, each with a pipeline and a graph of its own."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import cycle, islice
from pathlib import Path

import pytest

from examples.child_process import address_of, text_of
from examples.wordcount.counting import SavedCountsError, WordCount
from examples.wordcount.log import LogSink
from examples.wordcount.outside import CountReader, WordSender
from examples.wordcount.worker import Worker, WorkerSettings
from permitflow.carriers.byte_stream import StreamMessageKind
from permitflow.carriers.framing import HEADER_BYTES, header, parse_header
from permitflow.errors import InvalidOptionError, InvalidParametersError
from permitflow.mute import (
    Boundary,
    Buffers,
    Inlet,
    Lines,
    Marks,
    Pipeline,
    Saving,
    pipeline_bound,
)
from permitflow.mute.messages import LinkMessageKind, message
from permitflow.mute.pipeline import Event
from tests.support.log_server import LogServer
from tests.support.process import reserved_address
from tests.support.turns import until

SMALL = Buffers(receive_bytes=16_384, send_bytes=16_384)
READ_BYTES, LINE_BYTES, INPUT_BYTES = 4_096, 64, 63
HIGH, LOW = 8, 2
WORDS = [b"%062d" % number for number in range(17)]


class Started:
    """A worker that runs in a task, and what it has reported."""

    def __init__(self, **settings: object) -> None:
        self.events: list[Event] = []
        common: dict[str, object] = {
            "receive_bytes": 16_384,
            "send_bytes": 16_384,
            "read_bytes": READ_BYTES,
            "line_bytes": LINE_BYTES,
            "high_mark": HIGH,
            "low_mark": LOW,
            "stall_seconds": 60.0,
        }
        self.settings = WorkerSettings(**(common | settings))  # type: ignore[arg-type]
        self.worker = Worker.of(self.settings, self.events.append)
        self.task = asyncio.create_task(self.worker.run())

    async def ready(self) -> dict[str, str]:
        await until(lambda: self.task.done() or any(event["event"] == "ready" for event in self.events))
        event = next(event for event in self.events if event["event"] == "ready")
        return {name: str(address) for name, address in event.items()}

    @property
    def muters(self) -> list[Sequence[str]]:
        """Of each source."""
        return [source.muted_by for source in self.worker.pipeline.state().values()]

    def is_muted_by(self, muter: str) -> bool:
        return bool(self.muters) and all(muter in muters for muters in self.muters)

    async def end(self) -> None:
        """As if the process was killed: nothing is saved or said."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


@asynccontextmanager
async def ending(*ends: Started | CountReader | WordSender | LogServer) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for end in ends:
            if isinstance(end, Started):
                await end.end()
            else:
                end.close()


async def muted(worker: Started, muter: str) -> None:
    """Wait until a muter mutes all sources of a worker."""
    await until(lambda: worker.is_muted_by(muter))


def exact(reader: CountReader, sent: Sequence[bytes]) -> Callable[[], bool]:
    return lambda: reader.counts == Counter(sent)


async def test_a_stalled_reader_of_the_second_worker_stops_the_sender() -> None:
    """The bound across a boundary: a mute comes before all later acknowledgements."""
    reader = CountReader(SMALL)
    back = Started(name="back", inlet="127.0.0.1:0", sinks=[text_of(reader.address)])
    front = Started(name="front", listen="127.0.0.1:0", next_worker=(await back.ready())["inlet"])
    sent = [*islice(cycle(WORDS), 20_000)]

    def check() -> None:
        assert sender.sent_bytes - INPUT_BYTES * reader.lines <= bound.total

    sender = WordSender(sent, SMALL, check)
    async with ending(front, back, reader, sender):
        listening = address_of((await front.ready())["listen"])
        await sender.connect(listening)
        bound = pipeline_bound(
            sources=[(sender.sizes, reader.sizes)],
            sinks=[(sender.sizes, reader.sizes)],
            read_bytes=READ_BYTES,
            line_bytes=LINE_BYTES,
            unacknowledged=HIGH,
            boundaries=1,
        )
        reader.stand_still()
        await muted(front, "back/out0")
        await until(lambda: sender.is_blocked)
        assert sender.sent_bytes < len(sent) * INPUT_BYTES
        reader.go_on()
        await until(exact(reader, sent))


async def test_a_dead_worker_is_replaced_and_each_line_counts_once(tmp_path: Path) -> None:
    reader = CountReader(SMALL)
    saved = str(tmp_path / "counts")
    back = Started(name="back#1", inlet="127.0.0.1:0", sinks=[text_of(reader.address)], saved=saved)
    inlet = (await back.ready())["inlet"]
    front = Started(name="front", listen="127.0.0.1:0", next_worker=inlet)
    sent = [b"once", *islice(cycle(WORDS), 6_000)]
    sender = WordSender(sent, SMALL)
    async with ending(front, reader, sender):
        await sender.connect(address_of((await front.ready())["listen"]))
        for start in range(2, 5):
            await until(lambda: reader.counts.total() > 1_200 * (start - 1))  # noqa: B023  # awaited at once
            await back.end()
            await muted(front, "front/boundary")  # it is not connected
            back = Started(name=f"back#{start}", inlet=inlet, sinks=[text_of(reader.address)], saved=saved)
        async with ending(back):
            await until(exact(reader, sent))


async def test_a_bit_flipped_between_workers_changes_no_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send = socket.socket.send
    flipped: list[bytes] = []

    def flipping(connection: socket.socket, data: bytes) -> int:
        parsed = parse_header(memoryview(data)) if len(data) >= HEADER_BYTES else None
        if parsed is not None and parsed[0] == LinkMessageKind.DATA and len(flipped) < 3:
            flipped.append(data)
            altered = bytearray(data)
            altered[-20] ^= 1  # in a word
            return send(connection, altered)
        return send(connection, data)

    monkeypatch.setattr(socket.socket, "send", flipping)
    sent, reader = [*islice(cycle(WORDS), 1_000)], CountReader(SMALL)
    back = Started(name="back", inlet="127.0.0.1:0", sinks=[text_of(reader.address)], saved=str(tmp_path / "counts"))
    front = Started(name="front", listen="127.0.0.1:0", next_worker=(await back.ready())["inlet"])
    sender = WordSender(sent, SMALL)
    async with ending(front, back, reader, sender):
        await sender.connect(address_of((await front.ready())["listen"]))
        await until(exact(reader, sent))
    assert len(flipped) == 3
    assert "altered on the way" in str(front.events)


COUNTS = "counts"


@pytest.fixture
def killed_within(monkeypatch: pytest.MonkeyPatch) -> Callable[[LinkMessageKind | str], list[socket.socket]]:
    """Kill the peer within the first two writes of a kind: the write fails, and so do all later ones."""
    send = socket.socket.send

    def kill(what: LinkMessageKind | str) -> list[socket.socket]:
        killed: list[socket.socket] = []

        def failing(connection: socket.socket, data: bytes) -> int:
            parsed = parse_header(memoryview(data)) if len(data) >= HEADER_BYTES else None
            # Of the house's own words: outside senders send no tabs.
            is_it = parsed[0] == what if parsed is not None else what == COUNTS and b"\t" in data
            if is_it and len(killed) < 2:
                killed.append(connection)
                connection.shutdown(socket.SHUT_RDWR)
            return send(connection, data)

        monkeypatch.setattr(socket.socket, "send", failing)
        return killed

    return kill


@pytest.mark.parametrize(
    "what",
    [*(kind for kind in LinkMessageKind if kind is not LinkMessageKind.REFUSED), COUNTS],
    ids=lambda what: getattr(what, "name", what),
)
async def test_a_peer_killed_within_a_write_stops_nobody_else(
    what: LinkMessageKind | str,
    killed_within: Callable[[LinkMessageKind | str], list[socket.socket]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent, logged = [*islice(cycle(WORDS), 1_000)], [*islice(cycle(WORDS), 2_000)]
    killed = killed_within(what)
    reader, log = CountReader(SMALL), LogServer(logged)
    back = Started(name="back", inlet="127.0.0.1:0", sinks=[text_of(reader.address)], saved=str(tmp_path / "counts"))
    inlet = (await back.ready())["inlet"]
    fronts = [Started(name=f"front{number}", listen="127.0.0.1:0", next_worker=inlet) for number in range(2)]
    of_log = Started(name="front of a log", log=text_of(log.address), next_worker=inlet)
    senders = [WordSender(sent, SMALL) for _ in fronts]
    async with ending(back, *fronts, of_log, reader, log, *senders):
        for front, sender in zip(fronts, senders, strict=True):
            await sender.connect(address_of((await front.ready())["listen"]))
        await until(lambda: len(killed) == 2 and reader.counts == Counter([*sent, *sent, *logged]))
        await until(lambda: log.committed == len(logged))
        for front in (*fronts, of_log):
            await until(lambda: not any(front.muters))  # noqa: B023  # awaited at once
    assert [record.getMessage() for record in caplog.records] == []


async def test_a_worker_that_dies_beside_a_stalled_reader_leaves_none_muted(tmp_path: Path) -> None:
    """wally #667: no unmute after recovery."""
    reader = CountReader(SMALL)
    back = Started(name="back#1", inlet="127.0.0.1:0", sinks=[text_of(reader.address)], saved=str(tmp_path / "counts"))
    inlet = (await back.ready())["inlet"]
    front = Started(name="front", listen="127.0.0.1:0", next_worker=inlet)
    sent = [*islice(cycle(WORDS), 6_000)]
    sender = WordSender(sent, SMALL)
    reader.stand_still()
    async with ending(front, reader, sender):
        await sender.connect(address_of((await front.ready())["listen"]))
        await muted(front, "back#1/out0")
        await back.end()
        reader.go_on()
        back = Started(name="back#2", inlet=inlet, sinks=[text_of(reader.address)], saved=str(tmp_path / "counts"))
        async with ending(back):
            await until(exact(reader, sent))
            assert not front.is_muted_by("back#1/out0")


async def test_a_worker_that_comes_during_a_stall_is_muted_at_once() -> None:
    """Between processes: the sink has no reader yet."""
    with reserved_address() as nobody:
        back = Started(name="back", inlet="127.0.0.1:0", sinks=[nobody])
        inlet = (await back.ready())["inlet"]
        front = Started(name="front", listen="127.0.0.1:0", next_worker=inlet)
        sender = WordSender(cycle(WORDS), SMALL)
        async with ending(front, back, sender):
            await sender.connect(address_of((await front.ready())["listen"]))
            await muted(front, "back/out0")
            assert sum(event["event"] == "unmuted" for event in front.events) == 0
            assert front.worker.pipeline.backlogs == {}


async def test_a_boundary_mutes_when_too_many_messages_are_not_acknowledged() -> None:
    """Over TCP: the worker behind it counts, and cannot save."""
    pipelines = Pipeline(), Pipeline()
    saving = Saving(lambda: None, after=1_000, seconds=1_000)
    words = WordCount()
    inlet = Inlet(pipeline=pipelines[1], name="inlet", feed=words.take, downstream="count", saving=saving)
    boundary = Boundary(
        pipeline=pipelines[0], name="boundary", address=inlet.address, marks=Marks(high_mark=4, low_mark=4)
    )
    words.sinks.append(Nowhere())
    graph = pipelines[0].graph
    assert graph.is_muting("boundary")  # not connected yet
    await until(lambda: not graph.is_muting("boundary"))
    for number in range(5):
        assert not graph.is_muting("boundary")
        boundary.send(Lines("origin", number, [b"word"]))
    assert graph.is_muting("boundary")
    await until(lambda: words.counts.total() == 5)
    saving.save_now()
    await until(lambda: not graph.is_muting("boundary"))
    for pipeline in pipelines:
        pipeline.close()


class Nowhere:
    """A sink that takes everything."""

    def write(self, data: bytes) -> None:
        pass


async def test_a_log_is_read_again_from_the_last_commit(tmp_path: Path) -> None:
    sent = [*islice(cycle(WORDS), 4_000)]
    words, counts = LogServer(sent, most_lines=16), LogServer([])
    saved = str(tmp_path / "counts")
    counts.stand_still()
    first = Started(name="one#1", log=text_of(words.address), log_sinks=[text_of(counts.address)], saved=saved)
    async with ending(words, counts):
        await first.ready()
        await muted(first, "one#1/log0")
        fetched = len(counts.appended)
        assert fetched < len(sent) / 2
        await first.end()
        words.break_off()
        assert words.committed <= fetched
        second = Started(name="one#2", log=text_of(words.address), log_sinks=[text_of(counts.address)], saved=saved)
        counts.go_on()
        async with ending(second):
            await until(lambda: words.committed == len(sent))
            await until(lambda: latest(counts.appended) == Counter(sent))
            assert counts.acknowledgements < len(sent) / 16


async def test_a_log_that_breaks_its_connections_gets_each_batch_once() -> None:
    sent = [*islice(cycle(WORDS), 4_000)]
    words, counts = LogServer(sent, most_lines=16), LogServer([])
    worker = Started(name="one", log=text_of(words.address), log_sinks=[text_of(counts.address)])
    async with ending(worker, words, counts):
        for _ in range(2):
            counts.stand_still()
            await muted(worker, "one/log0")
            counts.break_off()
            words.break_off()
            counts.go_on()
            before = len(counts.appended)
            await until(lambda: len(counts.appended) > before)  # noqa: B023  # awaited at once
        await until(lambda: words.committed == len(sent) == len(counts.appended))
        assert latest(counts.appended) == Counter(sent)


async def test_a_write_beyond_a_message_leaves_in_several() -> None:
    log, lines = LogServer([]), [b"%0999d" % number for number in range(1_000)]
    pipeline = Pipeline()
    LogSink(pipeline=pipeline, name="out", address=log.address).write(b"\n".join(lines) + b"\n")
    await until(lambda: log.appended == lines)
    pipeline.close()
    log.close()


async def test_a_line_beyond_a_message_is_refused() -> None:
    with reserved_address() as nobody:
        pipeline = Pipeline()
        sink = LogSink(pipeline=pipeline, name="out", address=address_of(nobody))
        with pytest.raises(InvalidParametersError, match="a line must be below 262,144 bytes, not 300001"):
            sink.write(b"x" * 300_000 + b"\n")
        pipeline.close()


async def test_a_feed_that_fails_loses_its_connection_and_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """An error of the house, not of the peer: it is logged, and what was not acknowledged comes again."""
    taken: list[bytes] = []
    failing = [ZeroDivisionError("a bug")]

    def feed(lines: Lines) -> None:
        if failing:
            raise failing.pop()
        taken.extend(lines.lines)

    pipelines, saving = (Pipeline(), Pipeline()), Saving(None)
    inlet = Inlet(pipeline=pipelines[1], name="inlet", feed=feed, downstream="count", saving=saving)
    boundary = Boundary(pipeline=pipelines[0], name="boundary", address=inlet.address)
    for number in range(3):
        boundary.send(Lines("origin", number, [b"word %d" % number]))
    await until(lambda: taken == [b"word 0", b"word 1", b"word 2"])
    assert ["a bug" in str(record.exc_info) for record in caplog.records] == [True]
    for pipeline in pipelines:
        pipeline.close()


async def test_a_log_commits_when_the_next_worker_has_counted() -> None:
    sent = [*islice(cycle(WORDS), 1_000)]
    log, reader = LogServer(sent), CountReader(SMALL)
    back = Started(name="back", inlet="127.0.0.1:0", sinks=[text_of(reader.address)])
    front = Started(name="front", log=text_of(log.address), next_worker=(await back.ready())["inlet"])
    async with ending(front, back, log, reader):
        await until(lambda: log.committed == len(sent))
        await until(exact(reader, sent))


async def test_a_worker_that_is_started_again_tells_all_saved_counts(tmp_path: Path) -> None:
    """What it had written before may be lost, and those words may never come again."""
    words, log, reader = WordCount(), LogServer([]), CountReader(SMALL)
    words.sinks.append(Nowhere())
    words.take(Lines("log", 0, WORDS))
    words.save(tmp_path / "counts")
    worker = Started(
        name="again",
        listen="127.0.0.1:0",
        sinks=[text_of(reader.address)],
        log_sinks=[text_of(log.address)],
        saved=str(tmp_path / "counts"),
    )
    async with ending(worker, log, reader):
        await until(lambda: reader.counts + latest(log.appended) == Counter(WORDS))


def test_saved_counts_know_which_lines_they_contain(tmp_path: Path) -> None:
    words, again = WordCount(), WordCount()
    words.sinks.append(Nowhere())
    again.sinks.append(Nowhere())
    words.take(Lines("log", 0, [b"a", b"\xff b"]))
    words.save(tmp_path / "counts")
    again.load(tmp_path / "counts")
    again.take(Lines("log", 1, [b"\xff b", b"b"]))
    assert again.counts == {b"a": 1, b"\xff": 1, b"b": 2}


async def test_counts_are_saved_after_some_changes_or_soon() -> None:
    saved: list[str] = []
    saving = Saving(lambda: saved.append("saved"), after=3, seconds=0.001)
    saving.on_saved.append(lambda: saved.append("told"))
    saving.note_change()
    saving.note_change()
    assert saved == []
    saving.note_change()
    assert saved == ["saved", "told"]
    saving.note_change()
    await until(lambda: saved == ["saved", "told"] * 2)


def latest(lines: Sequence[bytes]) -> Counter[bytes]:
    """The largest count of each word."""
    found: Counter[bytes] = Counter()
    for line in lines:
        word, _, count = line.partition(b"\t")
        found[word] = max(found[word], int(count))
    return found


async def test_several_inputs_and_outputs_of_both_kinds() -> None:
    sent = [*islice(cycle(WORDS), 3_000)]
    log, counts, readers = LogServer(sent), LogServer([]), [CountReader(SMALL), CountReader(SMALL)]
    worker = Started(
        name="one",
        listen="127.0.0.1:0",
        log=text_of(log.address),
        sinks=[text_of(reader.address) for reader in readers],
        log_sinks=[text_of(counts.address)],
    )
    senders = [WordSender(sent, SMALL) for _ in range(2)]
    async with ending(worker, log, counts, *readers, *senders):
        for sender in senders:
            await sender.connect(address_of((await worker.ready())["listen"]))
        await until(
            lambda: readers[0].counts + readers[1].counts + latest(counts.appended) == Counter([*sent, *sent, *sent])
        )


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (message(LinkMessageKind.WELCOME), "WELCOME cannot be decoded: it does not belong here"),
        (message(LinkMessageKind.DATA, b"x" * 40), "DATA cannot be decoded: it does not belong here"),
        (message(LinkMessageKind.HELLO, b"\xff"), "something else than messages"),
        (header(LinkMessageKind.HELLO, 16 << 20), "HELLO of 16,777,216 bytes cannot be decoded: it has 4 to 1,028"),
        (header(LinkMessageKind.HELLO), "HELLO of 0 bytes cannot be decoded: it has 4 to 1,028"),
        (message(LinkMessageKind.HELLO, b"front", number=1), "HELLO cannot be decoded: it was altered on the way"),
        (header(StreamMessageKind.GET), "it is not a message of a muted pipeline"),
        (b"GET / HTTP/1.1\r\n\r\n", "it is not a message of a muted pipeline"),
    ],
)
async def test_an_inlet_tells_a_stranger_why_it_hangs_up(said: bytes, complaint: str) -> None:
    events: list[Event] = []
    pipeline = Pipeline(hear=events.append)
    inlet = Inlet(pipeline=pipeline, name="inlet", feed=lambda lines: None, downstream="count", saving=Saving(None))
    reader, writer = await asyncio.open_connection(*inlet.address)
    writer.write(said)
    answer = await reader.read()
    assert parse_header(memoryview(answer)) == (LinkMessageKind.REFUSED, len(answer) - HEADER_BYTES)
    assert complaint in answer.decode(errors="replace")
    await until(lambda: complaint in str(events))
    writer.close()
    pipeline.close()


def test_saved_counts_that_are_something_else_are_refused_and_kept(tmp_path: Path) -> None:
    (path := tmp_path / "counts").write_text("nothing")
    with pytest.raises(SavedCountsError, match="holds no saved counts"):
        WordCount().load(path)
    assert path.read_text() == "nothing"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"sinks": ["h:1"]}, "nothing comes in"),
        ({"listen": "h:1"}, "and not both"),
        ({"listen": "h:1", "sinks": ["h:1"], "next_worker": "h:1"}, "and not both"),
        ({"inlet": "h:1", "next_worker": "h:1"}, "a worker behind another counts"),
        ({"listen": "h:1", "sinks": ["h:1"], "name": ""}, "must have 1 to 200 bytes"),
        ({"listen": "h:1", "sinks": ["h:1"], "name": "n" * 201}, "must have 1 to 200 bytes"),
        ({"listen": "h:1", "sinks": ["h:1"], "read_bytes": 1 << 20}, "must be 262,144 at most together"),
    ],
)
def test_settings_that_make_no_worker_are_refused(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidOptionError, match=complaint):
        WorkerSettings(**{"name": "worker", **settings})  # type: ignore[arg-type]


def test_settings_and_addresses_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="are no settings"):
        WorkerSettings.from_json('{"colour": "red"}')
    for text in ("localhost", ":5", "localhost:65536", "localhost:" + "9" * 5_000, "a..b:5"):
        with pytest.raises(InvalidOptionError, match="must be host:port"):
            address_of(text)
