"""A signal's exception in a blocking end, wherever it hits: nothing is lost, nothing comes twice, or it says so."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

import pyarrow as pa
import pytest

from permitflow.errors import ChannelClosedError, EndOfStream, InterruptedEndError
from permitflow.protocol.frames import Get, Put
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.permits import PERMITS, ChannelParameters
from permitflow.protocol.session import DownstreamSession, State, UpstreamSession
from permitflow.transports import blocking_ends
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.blocking_calls import Closed
from permitflow.transports.blocking_ends import BlockingSink, BlockingSource
from permitflow.transports.carrier import Buffer, Received
from permitflow.transports.codec import decode_downstream, decode_upstream, encode_downstream, encode_upstream
from permitflow.transports.joined import JoinedChunks
from permitflow.transports.shared_memory.blocking_link import Outgoing
from permitflow.transports.trains import TrainWriter, encoded, with_batches
from tests.support.interrupting import Interrupting, Peer, SignalError
from tests.support.served_exchange import SCHEMA, ServedExchange, numbers, sink_of, source_of, values

PARAMETERS = ChannelParameters(row_permits=40, permit_batch=2, max_chunk_cost=8)
TRAINS = [[2, 3, 1], [4], [5, 2]]
ROWS = sum(map(sum, TRAINS))
SENT_ROWS = 44
CODEC = BatchCodec(SCHEMA)


class FakeCall(Peer):
    """A call whose other end is in this process; a message comes whenever somebody waits for one."""

    path = "memory"
    is_cut = False

    def __init__(self, *_: object, **__: object) -> None:
        self.coming: deque[Received | Closed] = deque()
        self._is_here = self.is_closed = False

    def settle(self, answer: object) -> None:
        pass

    def wait(self, seconds: float) -> bool:
        assert self.coming, "it waits for ever"
        self._is_here = True
        return True

    def receive_nowait(self) -> Received | Closed | None:
        is_here, self._is_here = self._is_here, False
        return self.coming.popleft() if is_here else None

    def outgoing(self, message: Sequence[Buffer]) -> Outgoing:
        return Outgoing(message)

    def checked(self, message: Received) -> Received:
        return message

    def write(self, message: Outgoing) -> None:
        if not message.is_begun:
            self.is_at_work = message.is_begun = True
            self.take(b"".join(message.pieces))
            self.is_at_work = False

    def take(self, message: bytes) -> None:
        raise NotImplementedError

    def half_close(self) -> None:
        self.coming.append(Closed(None))

    def close(self) -> None:
        self.is_closed = True


class SendingPeer(FakeCall):
    """Sends all trains and the end at once; hears of permits."""

    def take(self, message: bytes) -> None:
        if not hasattr(self, "session"):
            self.session: UpstreamSession[object] = UpstreamSession()
        for frame in decode_downstream(message, PERMITS):
            self.session.receive(frame)
            if isinstance(frame, Get):
                self._send_all()

    def _send_all(self) -> None:
        self.session.accept(PARAMETERS, schema=CODEC.schema_bytes)
        self.coming.extend(b"".join(each) for each in encode_upstream(encoded(self.session.take_frames(), None)))
        writer, start = TrainWriter(CODEC, PARAMETERS), 0
        for train in TRAINS:
            for rows in train:
                self.session.offer(Kind.CHUNK, numbers(start, start + rows), rows)
                start += rows
            messages = encode_upstream(writer.encoded(self.session.take_frames()))
            self.coming.extend(b"".join(each) for each in messages)
        self.session.offer(Kind.BARRIER, "epoch")
        self.session.end()
        self.coming.extend(b"".join(each) for each in encode_upstream(writer.encoded(self.session.take_frames())))

    def half_close(self) -> None:
        self.session.peer_closed()
        super().half_close()


class ReceivingPeer(FakeCall):
    """Consumes what comes, and says so when the sender waits."""

    def take(self, message: bytes) -> None:
        if not hasattr(self, "session"):
            self.session: DownstreamSession[object] = DownstreamSession()
            self.received: list[int] = []
        for frame in decode_upstream(message):
            if isinstance(frame, Put):
                self.session.receive(frame)
                self.session.accept(PARAMETERS, schema=CODEC.schema_bytes)
            else:
                self.session.receive(with_batches(frame, CODEC))

    def wait(self, seconds: float) -> bool:
        self.is_at_work = True
        self._consume()
        self.is_at_work = False
        return super().wait(seconds)

    def _consume(self) -> None:
        if self.session.state is not State.DECIDING:
            while self.session.inbound.has_untaken:
                self.received += found(self.session.take())
                self.session.consume()
        self.coming.extendleft(b"".join(each) for each in encode_downstream(self.session.take_frames(), PERMITS))


def opened_source(monkeypatch: pytest.MonkeyPatch) -> tuple[BlockingSource, SendingPeer]:
    monkeypatch.setattr(blocking_ends, "BlockingHostCall", SendingPeer)
    source = BlockingSource("nowhere", Get(1, "orders/0"), 5.0, None)
    source.open("")
    peer = source._call
    assert isinstance(peer, SendingPeer)
    return source, peer


def opened_sink(monkeypatch: pytest.MonkeyPatch) -> tuple[BlockingSink, ReceivingPeer]:
    monkeypatch.setattr(blocking_ends, "BlockingHostCall", ReceivingPeer)
    put = Put(1, "orders/0", schema=CODEC.schema_bytes)
    sink = BlockingSink("nowhere", put, 5.0, None)
    sink.open("")
    peer = sink._call
    assert isinstance(peer, ReceivingPeer)
    return sink, peer


def found(received: object) -> list[int]:
    """The numbers in whatever was received."""
    match received:
        case JoinedChunks():
            return values([received.batch])
        case Message(kind=Kind.CHUNK):
            return values([received.payload])
        case pa.RecordBatch():
            return values([received])
    return []


WAYS: dict[str, Callable[[BlockingSource], Callable[[], object]]] = {
    "receive": lambda source: source.receive,
    "receive_joined, four rows": lambda source: lambda: source.receive_joined(4),
    "iteration": lambda source: source.__next__,
    "joined": lambda source: source.joined().__next__,
}


def read_on(source: BlockingSource, way: str, interrupting: Interrupting) -> list[int]:
    """All that comes, as a caller reads who goes on after an exception."""
    seen: list[int] = []
    receive = WAYS[way](source)
    while True:
        try:
            seen += found(interrupting.call(receive))
        except SignalError:
            receive = WAYS[way](source)
        except (EndOfStream, StopIteration, ChannelClosedError):
            return seen


@pytest.mark.parametrize("way", WAYS)
def test_a_receive_that_is_interrupted_anywhere_loses_no_row(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    broken = set[str]()
    for place in range(100_000):
        source, peer = opened_source(monkeypatch)
        interrupting = Interrupting(place, peer)
        try:
            seen = read_on(source, way, interrupting)
        except InterruptedEndError:
            broken.add(interrupting.where)
            assert peer.is_closed
            with pytest.raises(InterruptedEndError, match="open the channel again"):
                source.receive()
        else:
            assert seen == list(range(ROWS)), interrupting.where
            assert peer.session.outbound.unsettled() is None, interrupting.where
        if not interrupting.where:
            break
    assert place > 100, "it was interrupted in too few places"
    assert not {"wait: call", "write: call", "write: c_return", "wait: c_return"} & broken


def test_a_send_that_is_interrupted_anywhere_sends_each_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = set[str]()
    for place in range(100_000):
        sink, peer = opened_sink(monkeypatch)
        interrupting = Interrupting(place, peer)
        try:
            send_on(sink, interrupting)
        except InterruptedEndError:
            broken.add(interrupting.where)
            assert peer.is_closed
            sink.abort("it cannot say so any more")
        else:
            assert peer.received == list(range(SENT_ROWS)), interrupting.where
        assert peer.received == list(range(len(peer.received))), interrupting.where
        if not interrupting.where:
            break
    assert place > 100, "it was interrupted in too few places"
    assert not {"wait: call", "write: call", "write: c_return", "take: call"} & broken


def send_on(sink: BlockingSink, interrupting: Interrupting) -> None:
    """Send all rows in chunks that leave in slices, as a caller does who goes on after an exception; then the end."""
    while (sent := sink.statistics().sent_rows) < SENT_ROWS:
        try:
            interrupting.call(lambda: sink.send(numbers(sent, min(sent + 12, SENT_ROWS))))  # it is called at once
        except SignalError:
            continue
    try:
        interrupting.call(lambda: sink.end(closes_channel=True))
    except SignalError:
        with suppress(ChannelClosedError):  # all was well, and it was about to say so
            sink.end(closes_channel=True)


def test_an_end_whose_link_was_cut_says_so(exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch) -> None:
    with sink_of(exchange, exchange.channel()) as sink:
        sink.send(numbers(0, 3))
        monkeypatch.setattr(type(sink._call), "is_cut", True)
        for _ in range(2):
            with pytest.raises(InterruptedEndError):
                sink.send(numbers(3, 6))
        assert sink.statistics().sent_rows == 6, "it has left for good"


def test_a_message_that_is_written_again_after_an_interrupt_goes_once(
    exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over every path, and with each message written again, of both ends."""
    channel = exchange.channel()
    with sink_of(exchange, channel) as sink, source_of(exchange, channel) as source:
        seen: list[int] = []
        for end in (sink, source):
            monkeypatch.setattr(end._call, "write", written_twice(end._call.write))
        for start in range(0, 6 * 64, 64):
            try:
                sink.send(numbers(start, start + 64))
            except KeyboardInterrupt:
                assert sink.statistics().sent_rows == start + 64
            while len(seen) < start + 64:
                with suppress(KeyboardInterrupt):
                    seen += found(source.receive())
    assert seen == list(range(6 * 64))


def written_twice(write: Callable[[Outgoing], None]) -> Callable[[Outgoing], None]:
    """A write that is interrupted when all is done, each time when a message is new to it."""
    known: list[Outgoing] = []

    def written(message: Outgoing) -> None:
        write(message)
        if message not in known:
            known.append(message)
            raise KeyboardInterrupt

    return written
