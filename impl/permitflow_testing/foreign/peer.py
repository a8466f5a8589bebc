"""The kit's end of a stream: the driver's peer on the wire, made of the model.

It writes the frames that the model's end brings about, and tells the model's end what has come.  It checks what every
peer must keep, whatever the rules of a flow: frames that can be decoded, in an order that the protocol allows, and the
totals of End.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any, ClassVar

import pyarrow as pa

from permitflow.carriers.calling import calling
from permitflow.carriers.carrier import Carrier
from permitflow.carriers.connection import GET_STREAM, PUT_STREAM
from permitflow.carriers.reaching import Destination
from permitflow.change import Change
from permitflow.errors import PermitflowError, UndecodableDataError, UnexpectedFrameError
from permitflow.flows.byte_window import ByteWindow
from permitflow.flows.messages import Kind, Message
from permitflow.flows.seam import Parameters
from permitflow.stream.frames import (
    Abort,
    Agreement,
    Cancel,
    Data,
    End,
    Ended,
    EndOutcome,
    Failure,
    Feedback,
    Get,
    Put,
    ReturnedBytes,
    frame_name,
)
from permitflow.stream.handshake import PROTOCOL_VERSION, accept, agree, agree_on_bytes, stated, verify, verify_bytes
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.buffers import Buffer, Received
from permitflow.wire.checksum import Checksums
from permitflow.wire.codec import EncodedChunks, decode_downstream, decode_upstream, encode_downstream, encode_upstream
from permitflow.wire.schemas import OF_CONSUMER, read_schema, require_equal_schemas
from permitflow.wire.v1 import exchange_pb2 as pb
from permitflow_testing.adapter import ReceivedMessage
from permitflow_testing.foreign.doors import SILENCE_SECONDS, WHO, Accepted, Door
from permitflow_testing.foreign.driver import BrokenWireRule, DriverError
from permitflow_testing.foreign.model_ends import Leaving, ModelReceiver, ModelSender
from permitflow_testing.foreign.recording import Noted, Recording

CHANNEL = "conformance"
SCHEMA = pa.schema([pa.field("serial", pa.int64())])
CODEC = BatchCodec(SCHEMA)
_ASK, _ANSWER = (pb.FromUpstream(sign=sign).SerializeToString() for sign in (pb.SIGN_ASK, pb.SIGN_ANSWER))
NO_LIMIT = 1 << 62
"""As a byte window."""


@dataclass
class _Frame:
    """Chunks that travel together, and count together in the byte window."""

    size_bytes: int
    chunks: int
    """Chunks that are not consumed."""


def batch_of(serial: int, rows: int) -> pa.RecordBatch:
    """A chunk's rows: each carries the chunk's serial number."""
    return pa.record_batch({"serial": [serial] * rows}, schema=SCHEMA)


def encoded(batch: pa.RecordBatch) -> bytes:
    """As it travels in a body."""
    return b"".join(CODEC.encode([batch]))


def serial_of(batch: pa.RecordBatch) -> int | None:
    """The number in its rows, if there are any."""
    return batch.column("serial")[0].as_py() if batch.num_rows else None


class WireFault(Exception):
    """What has come breaks a rule that every peer must keep, whatever the flow."""


class Peer(ABC):
    """One stream with the driver's end."""

    end: ModelSender | ModelReceiver
    METHODS: ClassVar[tuple[str, str]]
    """The methods that the driver calls, and that the kit calls if it dials."""

    def __init__(self, agreed: Parameters, *, checksums: bool, byte_window: int, last_words: Callable[[], str]) -> None:
        """``agreed`` are the parameters that both ends shall have; ``checksums``: does this end make them?

        ``last_words`` are the driver's remarks, to append to a sentence.
        """
        self._agreed = agreed
        self._last_words = last_words
        self._window = ByteWindow(byte_window)
        self._checksums = Checksums(checksums)
        self._accepted: Accepted | None = None
        self._carrier: Carrier | None = None
        self._is_dialler = self._is_writable = False
        self._outgoing: list[Sequence[Buffer]] = []
        self.sent = self.received = 0
        """Messages on the wire, from the first one on."""
        self.changed = Change()
        self.error: DriverError | None = None
        self.stream = ""
        self._request: Get | Put | None = None
        self._has_agreed = self._has_half_closed = self._has_peer_closed = False
        self._finishing: asyncio.Task[None] | None = None
        self._outstanding_bytes = self._collected_bytes = 0
        self.arrived: set[int] = set()
        """The serial numbers of the chunks that have come; empty ones have none."""
        self._unconsumed: deque[_Frame | None] = deque()
        """The frame in which the chunk of each message came; None: it is not a chunk."""
        self.recording: Recording
        """Set before the stream begins."""

    # The connection.

    async def accept(self, door: Door) -> None:
        """Wait for the driver's connection, and for its first message."""
        self._accepted = await door.accepted()
        if self._accepted.method != self.METHODS[0]:
            raise DriverError(f"your driver calls {self._accepted.method}, not {self.METHODS[0]}")
        self._listen(self._accepted.carrier)

    @asynccontextmanager
    async def dialling(self, address: str, seconds: float) -> AsyncIterator[None]:
        """Call the driver's end, which listens there."""
        async with calling(Destination(address, self.METHODS[1], WHO, seconds, SILENCE_SECONDS)) as carrier:
            self._is_dialler = True
            self._checksums = Checksums(None)
            self._listen(carrier)
            self._request = self._wishes()
            self._write_frames([self._request])
            yield
            self._carrier = None

    def _listen(self, carrier: Carrier) -> None:
        self._carrier, self._is_writable = carrier, True
        carrier.listen(self)

    async def until(self, is_met: Any) -> None:
        """Wait until something is so.

        Raises:
            DriverError: the stream has failed before.
        """
        while not is_met():
            self.require_alive()
            await self.changed.wait()

    async def agreed(self) -> None:
        """Wait for the agreement."""
        await self.until(lambda: self._has_agreed)

    @property
    def is_due_to_close(self) -> bool:
        """Is it the driver's turn to close its half?"""
        return self._has_half_closed and self._may_close() and not self._has_peer_closed and self.error is None

    def require_alive(self) -> None:
        """Raise what has ended the stream, if it has failed."""
        if self.error is not None:
            raise self.error

    async def close(self) -> None:
        """End the stream."""
        carrier, self._carrier = self._carrier, None
        if self._finishing is not None:
            await asyncio.wait({self._finishing})
        elif self._accepted is not None:
            with suppress(Exception):
                await self._accepted.finish(
                    self.error and UndecodableDataError(what="the stream", reason=f"{self.error}")
                )
        if self._accepted is not None:
            await self._accepted.close()
        elif carrier is not None:
            await carrier.stop()

    # What comes.

    def on_message(self, message: Received, _has_more: bool) -> None:
        """As ``Listener``."""
        self.received += 1
        try:
            self._take(self._checksums.check(message))
        except (PermitflowError, WireFault) as error:
            self._fail(str(error))
        self.flush()

    def _take(self, message: memoryview) -> None:
        if bytes(message[:8]) == _ASK:
            self._write([_ANSWER])
            return
        if bytes(message[:8]) == _ANSWER:
            return
        for frame in self._decoded(message):
            if isinstance(frame, Failure):
                raise WireFault(f"it breaks the stream off: {frame.error.decode(errors='replace')}")
            if not self._has_agreed:
                self._agree(frame)
            else:
                self._process(frame)

    def _agree(self, frame: Any) -> None:
        request, schema = self._request, b""
        if request is not None:
            if not isinstance(frame, Agreement):
                raise UnexpectedFrameError(frame=frame_name(frame), expected="Agreement")
            agreed, self._window = verify(frame, request), verify_bytes(frame, request)
            schema, self.stream = frame.schema, frame.stream
        else:
            if not isinstance(frame, Put | Get):
                raise UnexpectedFrameError(frame=frame_name(frame), expected="Put or Get")
            if frame.channel != CHANNEL:
                raise WireFault(f"it asks for channel {frame.channel!r}, not {CHANNEL!r}")
            agreed, self._window = agree(self._agreed, frame), agree_on_bytes(self._window, frame)
            schema = CODEC.schema_bytes if frame.schema is None else frame.schema
            self.stream = CHANNEL
        if agreed != self._agreed:
            raise WireFault(f"it wishes or agrees to {agreed}, not to {self._agreed}")
        require_equal_schemas(ours=SCHEMA, theirs=read_schema(schema), owners=OF_CONSUMER)
        if request is None:
            self._write_frames(
                [accept(frame, agreed, schema=CODEC.schema_bytes, window=self._window, stream=self.stream)]
            )
        self._has_agreed = True

    def _wished(self) -> dict[str, Any]:
        wanted = stated(self._agreed)
        return {"schema": CODEC.schema_bytes, "byte_window": self._window.window_bytes, **wanted}

    def note_consumed(self) -> None:
        """The application has consumed its oldest message."""
        if not self._unconsumed:
            raise DriverError("your driver hands over more messages than have come")
        if (frame := self._unconsumed.popleft()) is not None:
            frame.chunks -= 1
            if frame.chunks == 0:
                self._collected_bytes += frame.size_bytes

    def on_writable(self) -> None:
        """As ``Listener``."""
        self._is_writable = True
        self._pump()

    def on_end(self) -> None:
        """As ``Listener``."""
        self._has_peer_closed = True
        if not self._may_close():
            self._fail("it closes its half of the stream before the end")
        self._finish_if_over()
        self.changed.note()

    def on_error(self, error: PermitflowError) -> None:
        """As ``Listener``."""
        if not self._has_half_closed:
            self._fail(error)
        self.changed.note()

    def _fail(self, why: str | PermitflowError) -> None:
        if self.error is None:
            self.error = BrokenWireRule(why, self._last_words())

    # What leaves.

    def _write(self, message: Sequence[Buffer]) -> None:
        self.sent += 1
        self._outgoing.append(self._checksums.add(message))
        self._pump()

    def _pump(self) -> None:
        while self._outgoing and self._is_writable and self._carrier is not None:
            self._is_writable = self._carrier.write(self._outgoing.pop(0))

    def flush(self) -> None:
        """Write what is due."""
        if self._has_agreed and self.error is None and (frames := list(self._due())):
            self._write_frames(frames)
        if self.is_over() and not self._has_half_closed:
            self._has_half_closed = True
            if self._is_dialler and self._carrier is not None:
                self._carrier.half_close()
        self._finish_if_over()
        self.changed.note()

    def _finish_if_over(self) -> None:
        if self._accepted is not None and self._finishing is None and self._has_half_closed and self._has_peer_closed:
            self._finishing = asyncio.create_task(self._accepted.finish(None))

    # Of each kind of end.

    @abstractmethod
    def _wishes(self) -> Get | Put: ...

    @abstractmethod
    def _write_frames(self, frames: Sequence[Any]) -> None: ...

    @abstractmethod
    def _decoded(self, message: memoryview) -> Sequence[Any]: ...

    @abstractmethod
    def _process(self, frame: Any) -> None: ...

    @abstractmethod
    def _due(self) -> Sequence[Any]: ...

    @abstractmethod
    def is_over(self) -> bool:
        """Has this end written all that it ever will?"""

    @abstractmethod
    def _may_close(self) -> bool:
        """May the driver's end close its half?"""


class ReceivingPeer(Peer):
    """The driver sends, and the kit receives."""

    METHODS = PUT_STREAM, GET_STREAM
    end: ModelReceiver

    def __init__(self, agreed: Parameters, end: ModelReceiver, **options: Any) -> None:
        """``end`` is at rest; ``options`` as for ``Peer``."""
        super().__init__(agreed, **options)
        self.end = end
        self.ended: End | Abort | None = None
        self._has_answered = False
        self._may_cross: list[int] | None = None
        """What the sender had when Cancel was written: more may not leave any more."""

    def _wishes(self) -> Get:
        return Get(PROTOCOL_VERSION, CHANNEL, **self._wished())

    def _write_frames(self, frames: Sequence[Any]) -> None:
        for message in encode_downstream(frames, self._agreed.flow):
            self._write(message)

    def _decoded(self, message: memoryview) -> Sequence[Any]:
        return decode_upstream(message)

    def _process(self, frame: Any) -> None:
        if self.ended is not None:
            raise UnexpectedFrameError(frame=frame_name(frame), expected="nothing")
        match frame:
            case EncodedChunks():
                (arrow,) = frame.arrow
                self._take_bytes(_Frame(frame.uncompressed_bytes or len(arrow), len(frame.rows)))
                batch = CODEC.decode(arrow, frame.rows, frame.uncompressed_bytes)
                for end, rows in zip(accumulate(frame.rows), frame.rows, strict=True):
                    self._arrive(ReceivedMessage(Kind.CHUNK, serial_of(batch.slice(end - rows, rows)), rows))
            case Data(message=message):
                value = message.payload if isinstance(message.payload, int) else 0
                self._unconsumed.append(None)
                self._arrive(ReceivedMessage(message.kind, value))
            case End():
                here = self.end.totals[Kind.CHUNK], self.end.rows, self.end.totals[Kind.BARRIER]
                if (told := (frame.chunks, frame.rows, frame.barriers)) != here:
                    words = "chunks, rows and barriers"
                    raise WireFault(f"End with {words} {told}, while {here} have come")
                self.ended = frame
            case Abort():
                self.ended = frame
            case _:
                raise UnexpectedFrameError(frame=frame_name(frame), expected="Chunks, Data, End or Abort")

    @property
    def is_cancelled(self) -> bool:
        """Was Cancel written?"""
        return self._may_cross is not None

    def cancel(self) -> None:
        """Write Cancel; what has come is consumed, without being used, and returned behind it."""
        self._may_cross = [*self.end.shown_by_sender.values()]
        self._write_frames([Cancel("the kit needs no more")])
        self.discard()
        self.flush()

    def discard(self) -> None:
        """Count what was sent as consumed."""
        while self.end.untaken:
            self.end.take()
        while not self.end.is_idle:
            self.consume()

    def consume(self) -> None:
        """The application is done with the oldest message that it took."""
        self.recording.consumed()
        self.note_consumed()
        self.end.consume()

    def _take_bytes(self, frame: "_Frame") -> None:
        if not self._window.admits(self._outstanding_bytes, frame.size_bytes):
            what = f"a frame of chunks of {frame.size_bytes} bytes"
            out = f"{self._outstanding_bytes} bytes are out, of a byte window of {self._window.window_bytes}"
            raise WireFault(f"{what}, while {out}")
        self._outstanding_bytes += frame.size_bytes
        self._unconsumed += [frame] * frame.chunks

    @property
    def is_aborted(self) -> bool:
        """Has the driver's end given the stream up?"""
        return isinstance(self.ended, Abort)

    def _due(self) -> Sequence[Any]:
        feedback, self.end.feedback = self.end.feedback, []
        for content in feedback:
            self.recording.returned(content)
            self.recording.added(content)
        frames: list[Any] = [Feedback(content) for content in feedback]
        if self._collected_bytes and (feedback or self._collected_bytes >= self._window.batch_bytes):
            frames.append(ReturnedBytes(self._collected_bytes))
            self._outstanding_bytes -= self._collected_bytes
            self._collected_bytes = 0
        if isinstance(self.ended, End) and self.end.is_idle and not self._has_answered:
            self._has_answered = True
            if self.ended.until is not None:
                frames.append(Ended(EndOutcome.CANCELLED if self.is_cancelled else self.ended.until))
        return frames

    def _arrive(self, message: ReceivedMessage) -> None:
        held = self.end.arrive(message)
        serial = (message.value or 0) if message.kind is Kind.CHUNK else 0
        self.arrived.add(serial)
        self.recording.sent(Noted(message.kind, message.rows, held, serial))
        self.recording.delivered()
        if self._may_cross is not None:
            self._may_cross = [here - amount for here, amount in zip(self._may_cross, held, strict=True)]
            if min(self._may_cross) < 0:
                raise WireFault(f"it sends a {message.kind.value} with permits that came behind Cancel")
            self.discard()

    def is_over(self) -> bool:
        """See ``Peer``."""
        return self._has_answered or isinstance(self.ended, Abort)

    def _may_close(self) -> bool:
        return self.ended is not None


class SendingPeer(Peer):
    """The driver receives, and the kit sends."""

    METHODS = GET_STREAM, PUT_STREAM
    end: ModelSender

    def __init__(self, agreed: Parameters, end: ModelSender, **options: Any) -> None:
        """``end`` is at rest; ``options`` as for ``Peer``."""
        super().__init__(agreed, **options)
        self.end = end
        self._ending = self.is_aborted = False
        self.has_ended = False
        """Was End written?"""
        self.is_stopped = self.is_cancelled = False
        self.outcome: EndOutcome | None = None

    def _wishes(self) -> Put:
        return Put(PROTOCOL_VERSION, CHANNEL, **self._wished())

    def _write_frames(self, frames: Sequence[Any]) -> None:
        for message in encode_upstream(frames):
            self._write(message)

    def _decoded(self, message: memoryview) -> Sequence[Any]:
        return decode_downstream(message, self._agreed.flow if self._has_agreed else None)

    def _process(self, frame: Any) -> None:
        if self.is_stopped:
            self._discard()
        match frame:
            case Feedback():
                self.recording.returned(frame.content)
                self.recording.added(frame.content)
                self.end.on_feedback(frame.content)
            case ReturnedBytes():
                if not 1 <= frame.size_bytes <= self._collected_bytes:
                    due = f"{self._collected_bytes} are to come back of chunks that were consumed"
                    raise WireFault(f"a return of {frame.size_bytes} bytes, while {due}")
                self._collected_bytes -= frame.size_bytes
            case Cancel() if self.is_stopped and not self.is_cancelled and self.outcome is None:
                self.is_cancelled = self._ending = True
                self.end.withdraw_all()
            case Ended() if self.has_ended and self.outcome is None:
                self.outcome = frame.outcome
                if self.is_stopped:
                    self._check_cancelled()
            case _:
                raise UnexpectedFrameError(
                    frame=frame_name(frame), expected="Feedback" if not self.has_ended else "Ended"
                )

    def _check_cancelled(self) -> None:
        if self.outcome is not EndOutcome.CANCELLED:
            raise WireFault("it has stopped the stream, and writes Ended with another outcome than CANCELLED")
        if (owed := self.end.shown_by_receiver["unreturned"]) > 0:
            raise WireFault(f"it writes Ended, and {owed} of what it was sent have not come back")
        if owed < 0:
            raise WireFault(f"it returns {-owed} more than it was sent")

    def stop(self) -> None:
        """The driver's application is asked to need no more: Cancel comes, and whatever was sent counts as consumed."""
        self.is_stopped = True

    def _discard(self) -> None:
        """Count what was sent as consumed."""
        while self._unconsumed:
            self.recording.delivered()
            self.recording.consumed()
            self.end.note_consumed()
            self.note_consumed()

    def unreturned_bytes(self) -> str:
        """What is wrong, if the driver's end keeps a batch of bytes, or more."""
        if self._collected_bytes < self._window.batch_bytes:
            return ""
        batch = f"from {self._window.batch_bytes} on, a quarter of the byte window, they must be returned"
        return f"keeps {self._collected_bytes} bytes of consumed chunks: {batch}, or a sender stops"

    def ask_end(self) -> None:
        """End the stream behind what waits."""
        self._ending = True
        self.flush()

    def abort(self) -> None:
        """Give the stream up."""
        self.is_aborted = True
        self._write_frames([Abort("the kit gives up")])
        self.flush()

    def _due(self) -> Sequence[Any]:
        if self.is_aborted:
            return ()
        leaving, self.end.leaving = self.end.leaving, []
        for one in leaving:
            serial = (serial_of(one.payload) or 0) if one.kind is Kind.CHUNK else 0
            self.recording.sent(Noted(one.kind, one.rows, one.held, serial))
        frames: list[Any] = []
        for kind, group in groupby(leaving, key=lambda one: one.kind):
            together = list(group)
            if kind is Kind.CHUNK:
                frames.append(_chunks(together))
                sent = _Frame(sum(map(len, frames[-1].arrow)), len(together))
                self._unconsumed += [sent] * sent.chunks
                continue
            frames += [_marker(one) for one in together]
            self._unconsumed += [None] * len(together)
        if self._ending and not self.has_ended and not self.end.has_waiting:
            self.has_ended = True
            totals = self.end.totals
            frames.append(End(totals[Kind.CHUNK], self.end.rows, totals[Kind.BARRIER], until=EndOutcome.CONSUMED))
        return frames

    def is_over(self) -> bool:
        """See ``Peer``."""
        return self.has_ended or self.is_aborted

    def _may_close(self) -> bool:
        return self.is_aborted or self.outcome is not None


def _chunks(together: Sequence[Leaving]) -> EncodedChunks:
    batches = [one.payload for one in together]
    return EncodedChunks(tuple(one.rows for one in together), CODEC.encode(batches))


def _marker(one: Leaving) -> Data[Any]:
    return Data(Message(one.kind, one.payload))
