"""A driver as an adapter of the kit: one of its ends at a time, with the kit's own end as the other."""

import asyncio
import base64
import binascii
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar, NoReturn

import pyarrow as pa

from permitflow.errors import InvalidParametersError, shortened
from permitflow.flows.messages import Kind
from permitflow.flows.recording import RecorderFactory
from permitflow.flows.seam import Parameters, stated_values
from permitflow.tracing.file import FileTrace
from permitflow_testing.adapter import Aborted, ChannelAdapter, Ended, Feature, ReceivedMessage, Refused
from permitflow_testing.bounded import AdapterError
from permitflow_testing.foreign.doors import Door, TcpDoor
from permitflow_testing.foreign.driver import (
    START_SECONDS,
    CallCancelled,
    CallFailed,
    CallRefused,
    Driver,
    DriverError,
    DriverRequest,
)
from permitflow_testing.foreign.model_ends import ModelReceiver, ModelSender
from permitflow_testing.foreign.peer import (
    CHANNEL,
    CODEC,
    NO_LIMIT,
    SCHEMA,
    Peer,
    ReceivingPeer,
    SendingPeer,
    batch_of,
    encoded,
    serial_of,
)
from permitflow_testing.foreign.recording import Noted, Recording
from permitflow_testing.foreign.table import WAYS
from permitflow_testing.rulebooks.table import rulebook_of
from permitflow_testing.rules import Lacks

PROTOCOL = 2
"""The version of what driver and kit say to each other."""
ENDS = ("sender", "receiver")
SETTLE, BYTES = "settle", "bytes"
"""What a driver may lack beside the features of channels: it does not know when its end has settled; its end knows no
byte window."""
_EVENT_SECONDS = 5.0
_AT_ONCE_SECONDS = 3.0
"""The longest wait that blocks the event loop, and for what needs no question; below what the kit takes for blocked."""
_QUIET_SECONDS = 0.05
_WAITERS = 10_000


@dataclass(frozen=True)
class Hello:
    """What a driver says of itself."""

    name: str
    ends: tuple[str, ...]
    flows: tuple[str, ...]
    lacks: Lacks
    settles: bool
    counts_bytes: bool
    makes_checksums: bool
    carriers: tuple[str, ...]

    @classmethod
    def of(cls, said: Any) -> "Hello":
        """Read the answer to ``hello``.

        Raises:
            DriverError: it is no such answer.
        """
        if not isinstance(said, Mapping):
            raise _wrong("hello", said, "an object")
        if said.get("protocol") != PROTOCOL:
            raise _wrong("hello", said.get("protocol"), f"protocol {PROTOCOL}")
        ends = _names(said, "ends", ENDS)
        flows = _names(said, "flows", tuple(WAYS))
        lackable = (*(feature.value for feature in Feature if feature is not Feature.ACKNOWLEDGEMENT), SETTLE, BYTES)
        lacks = _names(said, "lacks", lackable, least=0)
        carriers = _names(said, "carriers", ("tcp", "grpc")) if "carriers" in said else ("tcp",)
        features = frozenset(Feature(name) for name in lacks if name not in (SETTLE, BYTES))
        return cls(
            name=shortened(str(said.get("name", "")), 200),
            ends=ends,
            flows=flows,
            lacks=features,
            settles=SETTLE not in lacks,
            counts_bytes=BYTES not in lacks,
            makes_checksums=bool(said.get("checksums", False)),
            carriers=carriers,
        )


def _names(said: Mapping[str, Any], key: str, known: Sequence[str], *, least: int = 1) -> tuple[str, ...]:
    value = said.get(key, [])
    if not isinstance(value, list) or len(value) < least or not set(map(str, value)) <= set(known):
        raise _wrong("hello", {key: value}, f"{key} as a list of some of {', '.join(known)}")
    return tuple(value)


def _wrong(word: str, value: object, wanted: str) -> DriverError:
    return DriverError(f"your driver answers {word!r} with {shortened(repr(value), 500)}, not with {wanted}")


def hello(driver: Driver) -> Hello:
    """Start the driver, and hear what it has and lacks.

    Raises:
        DriverError: it says nothing that can be understood, or nothing in time.
    """
    if not driver.is_usable:
        driver.end()
    return Hello.of(driver.told_at_once("hello", START_SECONDS, protocol=PROTOCOL))


@asynccontextmanager
async def _listening(carrier: str) -> AsyncIterator[Door]:
    """Wait for the driver's connections on the loopback, over ``tcp`` or ``grpc``."""
    if carrier == "grpc":
        from permitflow_testing.foreign.grpc_door import grpc_door

        async with grpc_door() as door:
            yield door
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield TcpDoor(listener)


class CommandAdapter(ChannelAdapter):
    """One end of a driver's, and the kit's own as the other.  ``adapter_of`` makes classes of it."""

    driver: ClassVar[Driver]
    said: ClassVar[Hello]
    flow: ClassVar[str]
    dial: ClassVar[str]
    carrier: ClassVar[str]
    end_name: ClassVar[str]
    trace: ClassVar[FileTrace | None] = None
    """Gets the events of every run."""
    numbers: ClassVar[Iterator[int]]
    byte_window: ClassVar[int] = 64 << 10
    """More than is ever out: it brakes nothing."""
    timeout_seconds = _EVENT_SECONDS

    peer: Peer

    async def open(self, parameters: Parameters, record: RecorderFactory) -> None:
        """Open a stream between both ends, and agree on the parameters."""
        self._fault: Exception | None = None
        self._asked: list[DriverRequest] = []
        self._sends: dict[int, DriverRequest] = {}
        """Those that nobody has given up, by the serial numbers of their chunks."""
        if not self.driver.is_usable:
            await asyncio.to_thread(self.driver.end)
            await self.driver.told("hello", seconds=START_SECONDS, protocol=PROTOCOL)
        self._stack = AsyncExitStack()
        records = [record] if self.trace is None else [record, self.trace.recorder]
        stream = f"{self.end_name}/{next(self.numbers)}"
        limit = self.driver.limit_seconds
        self.peer = self.new_peer(parameters)
        way, at_sender = WAYS[self.flow], self.peer.end.shown_by_sender.values()
        self.recording = self.peer.recording = Recording(way, parameters, at_sender, stream, records)
        self._agreed = parameters
        content: dict[str, Any] = {
            "end": self.end_name,
            "flow": self.flow,
            "parameters": stated_values(parameters.flow.state(parameters)),
            "channel": CHANNEL,
            "schema": _text(CODEC.schema_bytes),
        }
        try:
            if self.dial:
                answer = await self.driver.told("open", listen=self.dial, **content)
                address = answer.get("address", self.dial) if isinstance(answer, Mapping) else self.dial
                await self._stack.enter_async_context(self.peer.dialling(str(address), limit))
                await self._within(self.peer.agreed(), limit, "your driver's end has not agreed")
                return
            door = await self._stack.enter_async_context(_listening(self.carrier))
            opened = self.driver.ask("open", address=door.address, **content)
            accepting = asyncio.ensure_future(
                self._within(self.peer.accept(door), limit, "your driver has not dialled")
            )
            answered = asyncio.ensure_future(self.driver.answered(opened))
            try:
                await asyncio.wait({accepting, answered}, return_when=asyncio.FIRST_COMPLETED)
                if answered.done():
                    answered.result()
                await accepting
                await self._within(self.peer.agreed(), limit, f"your driver's end has not said {self._first_frame}")
                await self.driver.answered(opened, limit)
            finally:
                accepting.cancel()
                answered.cancel()
        except BaseException:
            with suppress(Exception):
                await self.peer.close()
            await self._stack.aclose()
            await asyncio.to_thread(self.driver.end)  # nobody knows how its stream stands
            raise

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "checksums": self.said.makes_checksums,
            "byte_window": self.byte_window,
            "last_words": self.driver.last_words,
        }

    @property
    def _soon_seconds(self) -> float:
        return min(_AT_ONCE_SECONDS, self.driver.limit_seconds)

    @property
    def _first_frame(self) -> str:
        return "Put" if self.end_name == "sender" else "Get"

    async def _within(self, awaitable: Any, seconds: float, what: str) -> None:
        try:
            async with asyncio.timeout(seconds):
                await awaitable
        except TimeoutError:
            raise self.driver.in_vain(what, seconds) from None

    async def close(self) -> None:
        """End the stream; a driver that does not close its end is ended, and started again for the next run."""
        try:
            await self._see_it_close()
            if self.driver.is_usable:  # else the call that met it has said so
                await self.driver.told("close")
        except AdapterError:
            await asyncio.to_thread(self.driver.end)
            raise
        finally:
            await self.peer.close()
            await self._stack.aclose()

    async def _see_it_close(self) -> None:
        """After the end, the driver's end must close its half; told once."""
        if self.peer.is_due_to_close and "half" not in self.driver.faults:
            with suppress(TimeoutError, DriverError):
                async with asyncio.timeout(self._soon_seconds):
                    await self.peer.until(lambda: not self.peer.is_due_to_close)
        if self.peer.is_due_to_close:
            self.driver.note("half", "your driver's end does not close its half of the stream after the end")

    def new_peer(self, parameters: Parameters) -> Peer:
        """The kit's end."""
        raise NotImplementedError

    # Calls.

    def noted(self, kind: Kind, rows: int = 0, serial: int = 0) -> Noted:
        """A message, for the recording."""
        return Noted(kind, rows, WAYS[self.flow].held_by(kind, rows, self._agreed), serial)

    async def call(self, word: str, message: Noted | None = None, **content: Any) -> Any:
        """Ask for something that may wait for long; a cancellation is passed on.

        If it crosses the answer, the answer counts.
        """
        self._require_alive()
        request = self.driver.ask(word, **content)
        key = -request.number if message is None else message.serial or -request.number
        if message is not None:
            self.recording.offered(message._replace(serial=key))
            self._sends[key] = request
        try:
            return await self.driver.answered(request)
        except asyncio.CancelledError:
            if not request.answer.done():
                self.recording.giving_up(key)
                self.driver.ask("cancel", request=request.number)
            with suppress(CallCancelled):
                return await self.driver.answered(request, self.driver.limit_seconds)
            self.recording.withdrawn(key)
            raise
        except CallFailed:
            self.recording.withdrawn(key)
            raise
        finally:
            self._sends.pop(key, None)

    def tell(self, word: str, **content: Any) -> None:
        """Ask for something that is done at once; what comes of it is looked at when all has settled."""
        self._require_alive()
        self._asked.append(self.driver.ask(word, **content))

    def _require_alive(self) -> None:
        self.peer.require_alive()
        if self.driver.error is not None:
            raise self.driver.error

    async def settle(self) -> None:
        """Wait until both ends have handled every message of the other."""
        asked, self._asked = self._asked, []
        for request in asked:
            await self.driver.answered(request, self.driver.limit_seconds)
        clock, limit = asyncio.get_running_loop().time, self.driver.limit_seconds
        deadline = clock() + limit
        while True:
            before = self.peer.sent, self.peer.received
            answer = await self.driver.told(SETTLE)
            found = [answer.get(name) for name in ("handled", "written")] if isinstance(answer, Mapping) else []
            if not found or not all(isinstance(count, int) for count in found):
                raise _wrong(SETTLE, answer, "the messages of its end, as {'handled': 4, 'written': 2}")
            self.peer.require_alive()
            if before == tuple(found) == (self.peer.sent, self.peer.received):
                self._check_settled(answer.get("state", {}))
                return
            if clock() > deadline:
                here = f"{self.peer.sent} were sent and {self.peer.received} have come"
                what = f"your driver's end has handled {found[0]} messages and written {found[1]}, it says; {here}"
                raise self.driver.in_vain(f"{what}: they do not agree", limit)

    def _check_settled(self, shown: Any) -> None:
        """Check what must be so when nothing is under way."""
        for serial, request in self._sends.items():
            if serial in self.peer.arrived and not request.answer.done():
                raise DriverError(f"your driver has not answered {request.name}, though its chunk has come")
        if not isinstance(shown, Mapping):
            raise _wrong(SETTLE, shown, "an object as its state")
        if self.peer.is_over():
            return
        for name, due in self.due_state().items():
            if shown.get(name, due) != due:
                fault = f"your driver's end says that {name} is {shortened(repr(shown[name]), 500)}"
                self.driver.note(f"state {name}", f"{fault}; by what was on the wire, it is {due!r}")

    def due_state(self) -> dict[str, int]:
        """What the driver's end should show, by what was seen on the wire."""
        raise NotImplementedError


class DrivenSender(CommandAdapter):
    """The driver sends, the kit receives."""

    end_name = "sender"
    peer: ReceivingPeer

    def new_peer(self, parameters: Parameters) -> ReceivingPeer:
        """The kit's receiver."""
        self._turn = asyncio.Lock()
        outside = _outside(self.flow, parameters, self.said.lacks)
        return ReceivingPeer(parameters, ModelReceiver(outside, self.flow), **self._options)

    async def offer_chunk(self, serial: int, rows: int) -> None:
        """Spec: OfferChunk, SendChunk; cancelled, WithdrawChunk."""
        try:
            await self.call("send", self.noted(Kind.CHUNK, rows, serial), **_chunk(serial, rows))
        except CallFailed as failure:
            if self.peer.is_cancelled:
                raise Refused(str(failure)) from failure
            raise

    def send_chunk_now(self, serial: int, rows: int) -> None:
        """Spec: OfferChunk, SendChunk."""
        self._require_alive()
        try:
            self.driver.told_at_once("send_now", _AT_ONCE_SECONDS, **_chunk(serial, rows))
        except CallRefused as refusal:
            raise Refused(str(refusal)) from None
        self.recording.offered(self.noted(Kind.CHUNK, rows, serial))

    async def offer_barrier(self) -> None:
        """Spec: OfferBarrier, SendBarrier; cancelled, WithdrawBarrier."""
        await self.call("send_barrier", self.noted(Kind.BARRIER))

    def offer_watermark(self, value: int) -> None:
        """Spec: OfferWatermark."""
        self.recording.offered(self.noted(Kind.WATERMARK))
        self.tell("send_watermark", value=value)

    async def end(self) -> None:
        """End the stream."""
        await self.call("end")

    def abort(self) -> None:
        """Give the stream up."""
        self.tell("abort", reason="the kit says so")

    async def take(self) -> ReceivedMessage:
        """Take the oldest message that has come."""
        async with self._turn:
            await self.peer.until(lambda: self.peer.end.untaken or self.peer.ended is not None)
        if self.peer.is_aborted:
            raise Aborted
        if not self.peer.end.untaken:
            raise Ended
        return self.peer.end.take()

    def consume(self) -> None:
        """Spec: Consume."""
        self.peer.consume()
        self.peer.flush()

    async def stop(self) -> None:
        """Write Cancel, and wait for the end of the stream."""
        self.peer.cancel()
        what = "Cancel has come, and your driver's end has not written End"
        await self._within(self.peer.until(lambda: self.peer.ended is not None), self._soon_seconds, what)

    def due_state(self) -> dict[str, int]:
        """Permits, or requested messages, that are at the sender."""
        return self.peer.end.shown_by_sender


class DrivenReceiver(CommandAdapter):
    """The kit sends, the driver receives."""

    end_name = "receiver"
    peer: SendingPeer

    def new_peer(self, parameters: Parameters) -> SendingPeer:
        """The kit's sender."""
        outside = _outside(self.flow, parameters, self.said.lacks)
        self._held = self._barriers = 0
        return SendingPeer(parameters, ModelSender(outside, self.flow), **self._options)

    async def offer_chunk(self, serial: int, rows: int) -> None:
        """Spec: OfferChunk, SendChunk; cancelled, WithdrawChunk."""
        await self._offer(Kind.CHUNK, rows, batch_of(serial, rows), serial)

    async def offer_barrier(self) -> None:
        """Spec: OfferBarrier, SendBarrier; cancelled, WithdrawBarrier."""
        await self._offer(Kind.BARRIER, 0, None)

    async def _offer(self, kind: Kind, rows: int, payload: Any, serial: int = 0) -> None:
        if self.peer.is_cancelled:
            raise Aborted
        end = self.peer.end
        self._barriers -= not serial
        name = serial or self._barriers
        self.recording.offered(self.noted(kind, rows, name))
        key = end.offer(kind, rows, payload)
        self.peer.flush()
        try:
            await self.peer.until(lambda: key in end.left or self.peer.is_aborted or self.peer.is_cancelled)
        except asyncio.CancelledError:
            if end.withdraw(key):
                self.recording.withdrawn(name)
                self.peer.flush()
                raise
        if key not in end.left:
            self.recording.withdrawn(name)
            raise Aborted
        if self.peer.is_stopped:  # permits came before Cancel, as they may, and the receiver drops it
            raise Aborted

    def send_chunk_now(self, serial: int, rows: int) -> None:
        """Spec: OfferChunk, SendChunk."""
        self._require_alive()
        self.peer.end.send_now(rows, batch_of(serial, rows))
        self.recording.offered(self.noted(Kind.CHUNK, rows, serial))
        self.peer.flush()

    def offer_watermark(self, value: int) -> None:
        """Spec: OfferWatermark."""
        self.recording.offered(self.noted(Kind.WATERMARK))
        self.peer.end.announce(value)
        self.peer.flush()

    async def end(self) -> None:
        """End the stream."""
        self.peer.ask_end()
        await self.peer.until(lambda: self.peer.has_ended)

    def abort(self) -> None:
        """Give the stream up."""
        self.peer.abort()

    async def take(self) -> ReceivedMessage:
        """Let the driver take the oldest message that has come."""
        answer = await self.call("receive")
        if isinstance(answer, Mapping) and len(answer) == 1:
            ((kind, value),) = answer.items()
            if kind in ("chunk", "barrier", "watermark"):
                self._held += 1
                self.recording.delivered()
            match kind:
                case "chunk":
                    return _received(value)
                case "barrier":
                    return ReceivedMessage(Kind.BARRIER)
                case "watermark" if isinstance(value, int):
                    return ReceivedMessage(Kind.WATERMARK, value)
                case "ended":
                    if not self._held:
                        what = "your driver says that the stream has ended, and its end has not written Ended"
                        answered = self.peer.until(lambda: self.peer.outcome is not None)
                        await self._within(answered, self._soon_seconds, what)
                    raise Ended
                case "aborted":
                    raise Aborted
        raise _wrong("receive", answer, "one of chunk, barrier, watermark, ended, aborted")

    def consume(self) -> None:
        """Spec: Consume."""
        self._held -= 1
        self.recording.consumed()
        self.peer.end.note_consumed()
        self.peer.note_consumed()
        self.tell("consume")

    async def stop(self) -> None:
        """Let the driver's end write Cancel, and wait until it has answered the end of the stream."""
        self.peer.stop()
        try:
            await self.driver.told("stop", reason="the kit needs no more")
        except CallFailed as failure:
            raise CallFailed(f"{failure}; a driver that cannot stop lists it in 'lacks' of its hello") from None
        what = "your driver has answered 'stop', and its end has not written Cancel"
        await self._within(self.peer.until(lambda: self.peer.is_cancelled), self._soon_seconds, what)
        what = "your driver's end has written Cancel, and has not answered End with Ended"
        await self._within(self.peer.until(lambda: self.peer.outcome is not None), self._soon_seconds, what)

    def _check_settled(self, shown: Any) -> None:
        """Also that bytes came back."""
        super()._check_settled(shown)
        if problem := self.peer.unreturned_bytes():
            raise DriverError(f"your driver's end {problem}")

    def due_state(self) -> dict[str, int]:
        """What was consumed and is not returned."""
        return self.peer.end.shown_by_receiver


_ADAPTERS = {"sender": DrivenSender, "receiver": DrivenReceiver}


def adapter_of(
    driver: Driver,
    said: Hello,
    *,
    end: str,
    flow: str,
    dial: str,
    carrier: str,
    trace: FileTrace | None,
) -> type[CommandAdapter]:
    """The adapter's class for one end of a driver.

    Args:
        driver: runs, or is started by the first run.
        said: what it has said of itself.
        end: ``"sender"`` or ``"receiver"``.
        flow: the protocol of the stream.
        dial: where the driver's end listens; empty: the kit listens, and the driver dials.
        carrier: ``"tcp"`` or ``"grpc"``, of a kit that listens; empty: the first that the driver has.
        trace: gets the events of every run; its channels are numbered.

    Raises:
        InvalidParametersError: the driver has no such end, flow or carrier.
    """
    for name, value, known in (
        ("--end", end, said.ends),
        ("--flow", flow, said.flows),
        ("--accept", carrier or said.carriers[0], said.carriers),
    ):
        if value not in known:
            raise InvalidParametersError(
                name=name, value=value, rule=f"must be one that the driver has: {', '.join(known)}"
            )
    base = _ADAPTERS[end]
    fields = {
        "driver": driver,
        "said": said,
        "flow": flow,
        "dial": dial,
        "carrier": carrier or said.carriers[0],
        "lacks": said.lacks,
        "trace": trace,
        "numbers": count(1),
        "byte_window": CommandAdapter.byte_window if said.counts_bytes else NO_LIMIT,
        "quiet_seconds": 0.0 if said.settles else _QUIET_SECONDS,
        "call_seconds": START_SECONDS + 10 * driver.limit_seconds,
    }
    if said.settles:
        fields["settled"] = base.settle
    return type(base.__name__, (base,), fields)


def _outside(flow: str, parameters: Parameters, lacks: Lacks) -> Any:
    return rulebook_of(flow).seen(parameters, (), lacks=lacks - {Feature.IDLE_FLUSH}, waiters=_WAITERS)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _chunk(serial: int, rows: int) -> dict[str, Any]:
    return {"serial": serial, "rows": rows, "batch": _text(encoded(batch_of(serial, rows)))}


def _received(value: Any) -> ReceivedMessage:
    """The chunk in an answer: with its serial number, or with the batch in which its rows are."""

    def refuse(why: str) -> NoReturn:
        raise DriverError(f"your driver answers 'receive' with a chunk that {why}: {shortened(repr(value), 500)}")

    if not isinstance(value, Mapping) or not isinstance(rows := value.get("rows"), int):
        refuse("does not say its rows")
    if "batch" not in value:
        serial = value.get("serial")
        return ReceivedMessage(Kind.CHUNK, serial if isinstance(serial, int) else None, rows)
    try:
        data = base64.b64decode(value["batch"], validate=True)
        batch = pa.ipc.read_record_batch(pa.py_buffer(data), SCHEMA)
    except (TypeError, binascii.Error, pa.ArrowInvalid, OSError) as error:
        refuse(f"has no record batch ({error})")
    offset = value.get("offset", 0)
    if not isinstance(offset, int) or not 0 <= offset <= offset + rows <= batch.num_rows:
        refuse(f"does not lie in its batch of {batch.num_rows} rows")
    return ReceivedMessage(Kind.CHUNK, serial_of(batch.slice(offset, rows)), rows)
