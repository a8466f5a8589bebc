"""A message that was altered on a network is noticed, whichever bit it was; what was not altered is left as it is."""

import asyncio
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.channels.interface import ReceiveEnd
from permitflow.errors import (
    AlteredMessageError,
    ChannelAbortedError,
    PeerGoneError,
    PermitflowError,
    UndecodableDataError,
)
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.control import AskPositions, Published
from permitflow.protocol.frames import End, Feedback
from permitflow.protocol.permits import PERMITS, ChannelParameters, Permits
from permitflow.transports.checksum import CHECKSUM_BYTES, Checksums, checked, with_checksum
from permitflow.transports.codec import EncodedChunks, decode_upstream, encode_downstream, encode_upstream
from permitflow.transports.connection import CONTROL, GET_STREAM, PUT_STREAM
from permitflow.transports.control_codec import decode_reply, decode_request, encode_reply, encode_request
from permitflow.transports.grpc_aio import SameHost, get, put
from permitflow.transports.tcp import HEADER_BYTES, Kind
from permitflow.wire.v1 import exchange_pb2 as pb
from tests.support.carriers import message_of
from tests.support.number_streams import SCHEMA, batch
from tests.support.peers_by_hand import ByHand, dialling, encoded, get_frame, is_failure, put_frame, serving

CHANNEL = "numbers/0"


@given(st.lists(st.binary(max_size=80), min_size=1, max_size=4), st.data())
def test_any_bit_that_is_flipped_is_noticed(pieces: list[bytes], data: st.DataObject) -> None:
    message = message_of(pieces)
    assert checked(message) == b"".join(pieces)
    bit = data.draw(st.integers(0, 8 * len(message) - 1))
    with pytest.raises((AlteredMessageError, UndecodableDataError)):
        checked(flipped(message, bit))


def flipped(message: bytes, bit: int) -> bytes:
    altered = bytearray(message)
    altered[bit // 8] ^= 1 << bit % 8
    return bytes(altered)


MESSAGES = {
    "permits": message_of(*encode_downstream([Feedback(Permits(rows=300, barriers=1))], PERMITS)),
    "chunks": message_of(*encode_upstream([EncodedChunks((2, 1), (b"arrow" * 9,))])),
    "end": message_of(*encode_upstream([End(1, 2, 3)])),
    "request": encode_request(AskPositions(("c",), "me")),
    "reply": encode_reply(Published(was_published=True)),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_each_bit_of_each_kind_of_message_counts(name: str) -> None:
    message = MESSAGES[name]
    for bit in range(8 * len(message)):
        with pytest.raises((AlteredMessageError, UndecodableDataError)):
            checked(flipped(message, bit))


def test_what_was_altered_is_told_in_numbers() -> None:
    altered = flipped(MESSAGES["end"], 0)
    with pytest.raises(
        AlteredMessageError, match="was altered on the way, or one before it was lost: its checksum is"
    ) as caught:
        checked(altered)
    facts = caught.value.facts
    assert facts["size_bytes"] == len(altered) - CHECKSUM_BYTES
    assert facts["stated"] != facts["computed"]


@pytest.mark.parametrize("message", [b"", b"y1234567", b"".join(*encode_upstream([End(1, 2, 3)]))])
def test_a_message_without_a_checksum_is_refused(message: bytes) -> None:
    with pytest.raises(UndecodableDataError, match="it carries no checksum"):
        checked(message)


@pytest.mark.parametrize("decode", [decode_request, decode_reply])
def test_questions_and_replies_are_checked(decode: Callable[[bytes], object]) -> None:
    good = MESSAGES["request" if decode is decode_request else "reply"]
    decode(good)
    with pytest.raises(AlteredMessageError):
        decode(flipped(good, 0))


def test_the_end_that_was_dialled_decides_whether_there_are_checksums() -> None:
    without, dialler = Checksums(wanted=False), Checksums(wanted=None)
    first = b"".join(dialler.add([b"Get"]))
    assert bytes(checked(first)) == b"Get"
    assert bytes(without.check(first)) == b"Get"
    answer = b"".join(without.add([b"Agreement"]))
    assert answer == b"Agreement\x71" + bytes(8)
    assert bytes(dialler.check(answer)) == b"Agreement"
    assert b"".join(dialler.add([b"AddPermits"])) == b"AddPermits\x71" + bytes(8)


@pytest.mark.parametrize("came", [[1], [0, 2], [0, 0]], ids=["the first is lost", "one is lost", "one is repeated"])
def test_a_message_that_is_lost_or_repeated_is_noticed_at_the_next_one(came: list[int]) -> None:
    sender, receiver = Checksums(wanted=True), Checksums(wanted=True)
    sent = [b"".join(sender.add([b"the same"])) for _ in range(3)]
    *good, bad = (sent[number] for number in came)
    for message in good:
        assert bytes(receiver.check(message)) == b"the same"
    with pytest.raises(AlteredMessageError, match="or one before it was lost"):
        receiver.check(bad)


def test_an_end_that_was_dialled_and_wants_checksums_takes_nothing_without() -> None:
    wanting = Checksums(wanted=True)
    with pytest.raises(UndecodableDataError, match="makes none, and this end wants one"):
        wanting.check(b"".join(Checksums(wanted=False).add([b"Get"])))
    assert bytes(checked(b"".join(wanting.add([b"Agreement"])))) == b"Agreement"


def test_no_flipped_bit_makes_a_checksum_look_like_none() -> None:
    message = MESSAGES["end"]
    for bit in range(8 * CHECKSUM_BYTES):
        with pytest.raises((AlteredMessageError, UndecodableDataError)):
            Checksums(wanted=None).check(flipped(message, 8 * (len(message) - CHECKSUM_BYTES) + bit))


def test_the_checksum_is_the_one_of_the_definition() -> None:
    """XXH3 of nothing, from its authors' own tests; and protobuf reads it as the field that is declared."""
    assert message_of([b""]) == b"\x79" + (0x2D06800538D394C2).to_bytes(8, "little")
    for kind in (pb.FromUpstream, pb.FromDownstream, pb.ControlRequest, pb.ControlReply):
        assert kind.FromString(message_of([b""])).checksum == 0x2D06800538D394C2


def test_a_body_stays_where_arrow_reads_it_and_is_not_copied() -> None:
    body = memoryview(pa.py_buffer(bytes(64)))
    (pieces,) = encode_upstream([EncodedChunks((1,), (body,))])
    summed = with_checksum(pieces)
    assert summed[1] is pieces[1]
    message = b"".join(summed)
    view = checked(message)
    assert view.obj is message
    ((chunks,),) = (frame.arrow for frame in decode_upstream(view) if isinstance(frame, EncodedChunks))
    assert isinstance(chunks, memoryview)
    assert chunks.obj is message
    assert message.index(bytes(chunks)) % 64 == 0


# Over TCP, through somebody who alters one bit of one message.

HEADER = struct.Struct(">B2sBI")
Alter = Callable[[bytearray], None]


class Tampering:
    """Passes on what both sides write, and alters one message of those that go one way."""

    def __init__(self, target: str, *, to_exchange: bool, number: int, alter: Alter) -> None:
        """``number`` counts the messages of that direction from 0."""
        self._target, self._to_exchange, self._number, self._alter = target, to_exchange, number, alter
        self._tasks = set[asyncio.Task[None]]()
        self.altered = 0

    async def accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Dial the exchange for a client."""
        host, _, port = self._target.removeprefix("tcp://").rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        ways = ((reader, far_writer, self._to_exchange), (far_reader, writer, not self._to_exchange))
        with suppress(OSError):
            await asyncio.gather(*(self._pass_on(*way) for way in ways))

    async def _pass_on(self, reader: StreamReader, writer: StreamWriter, is_altered: bool) -> None:
        count = 0
        with suppress(asyncio.IncompleteReadError):
            while True:
                header = await reader.readexactly(HEADER_BYTES)
                kind, _, _, size = HEADER.unpack(header)
                payload = bytearray(await reader.readexactly(size))
                if kind == Kind.MESSAGE:
                    if is_altered and count == self._number:
                        self._alter(payload)
                        self.altered += 1
                    count += 1
                writer.write(header + payload)
                await writer.drain()
        writer.close()


def flips(bit: int) -> Alter:
    """Flip this bit, counted from the beginning, or from the end if it is negative."""

    def alter(payload: bytearray) -> None:
        place = bit % (8 * len(payload))
        payload[place // 8] ^= 1 << place % 8

    return alter


@asynccontextmanager
async def tampered(
    *, to_exchange: bool, number: int, alter: Alter, checksums: bool = True
) -> AsyncIterator[tuple[Exchange, Tampering, str]]:
    """An exchange with one channel, and the address at which a client finds it, and somebody between."""
    parameters = ChannelParameters(row_permits=16, permit_batch=4, max_chunk_cost=4)
    exchange = Exchange(parameters=parameters, checksums=checksums)
    exchange.add_channel(CHANNEL, schema=SCHEMA)
    async with ExchangeServer(exchange, "tcp://127.0.0.1:0") as server:
        tampering = Tampering(server.address, to_exchange=to_exchange, number=number, alter=alter)
        between = await asyncio.start_server(tampering.accept, "127.0.0.1", 0)
        async with between:
            port = between.sockets[0].getsockname()[1]
            yield exchange, tampering, f"tcp://127.0.0.1:{port}"


async def ended(sending: Sequence[pa.RecordBatch], address: str) -> None:
    """Send all, and end."""
    async with put(address, CHANNEL, SCHEMA, same_host=SameHost.NEVER) as sender:
        for chunk in sending:
            await sender.send(chunk)
        await sender.end()


CHUNKS = [batch(n, n + 1, n + 2) for n in range(0, 60, 3)]


@pytest.mark.parametrize("byte", range(18))
async def test_permits_that_were_altered_on_their_way_back_stop_the_producer(byte: int) -> None:
    """Before there was a checksum, a smaller number let it wait for ever."""
    async with tampered(to_exchange=False, number=1, alter=flips(8 * byte + byte % 8)) as (
        exchange,
        tampering,
        address,
    ):
        receiver = exchange.channel(CHANNEL).receiver
        consuming = asyncio.create_task(take_all(receiver, []))
        with pytest.raises((AlteredMessageError, UndecodableDataError)) as caught:
            await asyncio.wait_for(ended(CHUNKS, address), 20)
        with pytest.raises(ChannelAbortedError) as told:
            await consuming
        assert tampering.altered == 1
        assert f"it broke the stream off: {caught.value}" in told.value.reason


async def anything(receiver: ReceiveEnd[pa.RecordBatch]) -> list[int]:
    """The numbers that come, until the stream ends somehow."""
    got: list[int] = []
    with suppress(PermitflowError):
        await take_all(receiver, got)
    return got


async def take_all(receiver: ReceiveEnd[pa.RecordBatch], into: list[int]) -> None:
    """Append the numbers that come, until the stream ends somehow."""
    async for message in receiver:
        into += message.payload.column(0).to_pylist()


@pytest.mark.parametrize("bit", [0, 9, 8 * 64, 8 * 100 + 3, 8 * 400 + 5, -80, -72, -1])
async def test_no_altered_row_reaches_a_consumer_and_the_producer_is_told(bit: int) -> None:
    async with tampered(to_exchange=True, number=2, alter=flips(bit)) as (exchange, tampering, address):
        receiving = asyncio.create_task(anything(exchange.channel(CHANNEL).receiver))
        with pytest.raises((AlteredMessageError, UndecodableDataError)) as caught:
            await asyncio.wait_for(ended(CHUNKS, address), 20)
        got = await receiving
        assert tampering.altered == 1
        assert got == list(range(len(got)))
        assert len(got) < 60
        assert "checksum" in str(caught.value)


async def test_a_consumer_takes_nothing_that_was_altered_on_its_way() -> None:
    async with tampered(to_exchange=False, number=2, alter=flips(8 * 300)) as (exchange, tampering, address):
        sender = exchange.channel(CHANNEL).sender

        async def feed() -> None:
            for chunk in CHUNKS:
                await sender.send(chunk)
            await sender.end()

        feeding = asyncio.create_task(feed())
        got: list[int] = []
        with pytest.raises(AlteredMessageError) as caught:
            async with get(address, CHANNEL, same_host=SameHost.NEVER) as receiver:
                await take_all(receiver, got)
        with pytest.raises(PeerGoneError):
            await feeding
        reason = f"it left halfway: it broke the stream off: {caught.value}"
        assert exchange.channel(CHANNEL).statistics().reason == reason
        assert tampering.altered == 1
        assert got == list(range(len(got)))


@pytest.mark.parametrize("to_exchange", [True, False])
async def test_a_handshake_that_was_altered_is_refused(to_exchange: bool) -> None:
    async with tampered(to_exchange=to_exchange, number=0, alter=flips(80)) as (_, tampering, address):
        with pytest.raises(AlteredMessageError):
            await asyncio.wait_for(ended(CHUNKS, address), 20)
        assert tampering.altered == 1


async def test_an_exchange_that_makes_no_checksums_gets_none_and_delivers_what_was_altered() -> None:
    """It was told to: who relies on the network below saves what a checksum costs."""
    seen: list[bytes] = []

    def alter(payload: bytearray) -> None:
        seen.append(bytes(payload[-CHECKSUM_BYTES:]))
        payload[payload.index(struct.pack("<3q", 0, 1, 2)) + 1] ^= 1

    async with tampered(to_exchange=True, number=1, alter=alter, checksums=False) as (exchange, _, address):
        receiving = asyncio.create_task(anything(exchange.channel(CHANNEL).receiver))
        await asyncio.wait_for(ended(CHUNKS, address), 20)
        assert await receiving == [256, *range(1, 60)]
        assert seen == [b"\x71" + bytes(8)]


@pytest.mark.parametrize("method", [GET_STREAM, PUT_STREAM, CONTROL])
async def test_over_grpc_the_exchange_says_what_has_come(method: str) -> None:
    altered = flipped(MESSAGES["request" if method == CONTROL else "end"], 3)

    async def until_over() -> None:
        while (answer := await carrier.read()) is not None:
            assert is_failure(method, answer)
            carrier.half_close()

    async with serving() as (_, address), dialling(address, method) as carrier:
        if method != CONTROL:
            await carrier.write([encoded(method, get_frame() if method == GET_STREAM else put_frame())])
            assert await carrier.read()
        await super(ByHand, carrier).write([altered])
        with pytest.raises(AlteredMessageError) as caught:
            await until_over()
        assert caught.value.facts["size_bytes"] == len(altered) - CHECKSUM_BYTES
