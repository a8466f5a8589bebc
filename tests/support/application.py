"""The application at both ends of a channel: what it does, in tasks of its own, and what it sees."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias, runtime_checkable

from permitflow.channels.interface import ReceiveEnd, SendEnd
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.moves import Divergence, Move
from permitflow.tracing.events import Event

__all__ = ["Application", "ChannelUnderTest", "Ends", "JoinedReads", "Task", "running"]

Task: TypeAlias = asyncio.Task[None]
Ends: TypeAlias = tuple[SendEnd[object], ReceiveEnd[object]]


class ChannelUnderTest(Protocol):
    """What has to be known about a kind of channel in order to lead it."""

    timeout_seconds: float
    """After how long without any event the channel has stopped; only failing runs wait that long."""

    def open(self, parameters: ChannelParameters, record: RecorderFactory | None) -> AbstractAsyncContextManager[Ends]:
        """Open a channel; both ends are ready."""
        ...

    def streams(self, sender: SendEnd[object], receiver: ReceiveEnd[object]) -> Sequence[str]:
        """The names under which the streams from sender to receiver are recorded, the sender's first."""
        ...

    def chunk(self, serial: int, rows: int) -> object:
        """A chunk of so many rows that can be recognised."""
        ...

    def serial(self, message: Message[object]) -> int | None:
        """The serial number of a received chunk; None if it is too small to tell."""
        ...


class Joined(Protocol):
    """Chunks that were read jointly: their rows, and iterating over it each of them."""

    @property
    def rows(self) -> Sequence[int]:
        """Of each chunk."""
        ...

    def __iter__(self) -> Iterator[object]:
        """Each chunk."""
        ...


@runtime_checkable
class JoinedReads(Protocol):
    """A receiving end that can read chunks jointly; not every kind of channel has one."""

    async def receive_joined(self, max_rows: int | None = None) -> Joined | Message[object]:
        """Receive the chunks that came together, or one other message."""
        ...


class Application:
    """A method for each of its moves.  Those that wait begin a task; the others do it, or raise the refusal."""

    def __init__(self, kind: ChannelUnderTest, ends: Ends) -> None:
        """Nothing has been sent."""
        self.kind = kind
        self.sender, self.receiver = ends
        self._streams = kind.streams(*ends)
        self.changed = asyncio.Event()
        """Set whenever a task has ended."""
        self.chunks: list[Task] = []
        """Sends that were begun, oldest first; see ``running``."""
        self.barriers: list[Task] = []
        self.receives: list[Task] = []
        self.taken: list[Message[object]] = []
        self.received: list[Message[object]] = []
        self._offered: list[int] = []
        self._withdrawn: set[int] = set()
        self._watermark = 0
        self._watermarks_due: list[int] = []
        self._serial = 0

    def perform(self, move: Move) -> None:
        """Make a move.

        Raises:
            ChannelError, ProtocolError: the channel refuses.
        """
        getattr(self, move.method)(*move.arguments)

    # At the sender.

    def offer_chunk(self, rows: int) -> None:
        """Begin to send a chunk."""
        self._begin(self.chunks, self._send(rows))

    async def _send(self, rows: int) -> None:
        serial, chunk = self._next_chunk(rows)
        # No await before the channel has the chunk: this is the order in which it was offered.
        self._offered.append(serial)
        try:
            await self.sender.send(chunk, rows)
        except asyncio.CancelledError:
            self._withdrawn.add(serial)
            raise

    def offer_barrier(self) -> None:
        """Begin to send a barrier."""
        self._begin(self.barriers, self.sender.send_barrier())

    def offer_watermark(self) -> None:
        """Announce a watermark."""
        self._watermark += 1
        self.sender.send_watermark(self._watermark)

    def withdraw_chunk(self, position: int) -> None:
        """Cancel a send; 0 is the oldest of those that are under way, beyond the newest it begins again."""
        _cancel(self.chunks, position)

    def withdraw_barrier(self, position: int) -> None:
        """Cancel the sending of a barrier."""
        _cancel(self.barriers, position)

    def send_now(self, rows: int) -> None:
        """Send a chunk without waiting."""
        serial, chunk = self._next_chunk(rows)
        self.sender.send_nowait(chunk, rows)
        self._offered.append(serial)

    def send_barrier_now(self) -> None:
        """Send a barrier without waiting."""
        self.sender.send_barrier_nowait()

    def _next_chunk(self, rows: int) -> tuple[int, object]:
        self._serial += 1
        return self._serial, self.kind.chunk(self._serial, rows)

    # At the receiver.

    def receive_now(self) -> None:
        """Receive without waiting."""
        self.received.append(self.receiver.receive_nowait())

    def receive(self) -> None:
        """Begin to receive."""
        self._begin(self.receives, self.receive_one())

    async def receive_one(self) -> None:
        """Receive, waiting for a message."""
        self.received.append(await self.receiver.receive())

    def receive_joined(self, max_rows: int) -> None:
        """Begin to receive jointly."""
        self._begin(self.receives, self._receive_joined(max_rows))

    async def _receive_joined(self, max_rows: int) -> None:
        assert isinstance(self.receiver, JoinedReads), "such a move is made only where there is such an end"
        received = await self.receiver.receive_joined(max_rows)
        if isinstance(received, Message):
            self.received.append(received)
            return
        cost_of = self.receiver.parameters.cost_of
        chunks = [
            Message(Kind.CHUNK, chunk, rows, cost_of(rows)) for chunk, rows in zip(received, received.rows, strict=True)
        ]
        self.received += chunks
        if len(chunks) > 1 and sum(received.rows) > max_rows:
            raise Divergence(f"{list(received.rows)} rows were read jointly, {max_rows} were wanted at most")

    def give_up_receive(self, position: int) -> None:
        """Cancel a receive."""
        _cancel(self.receives, position)

    def take(self) -> None:
        """Take a message and keep its permits."""
        message = self.receiver.take_nowait()
        self.taken.append(message)
        self.received.append(message)

    def consume_taken(self) -> None:
        """Be done with the oldest message that was taken."""
        self.receiver.consume()
        del self.taken[0]

    def _begin(self, tasks: list[Task], coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        task.add_done_callback(lambda _: self.changed.set())
        tasks.append(task)

    def cancel_all(self) -> None:
        """Give up everything that is under way."""
        for task in (*self.chunks, *self.barriers, *self.receives):
            task.cancel()

    # What was seen.

    def note(self, event: Event) -> None:
        """A watermark that leaves is the newest that was announced."""
        if event.action == "SendWatermark" and event.channel == self._streams[0]:
            self._watermarks_due.append(self._watermark)

    def due_chunks(self) -> list[int]:
        """What the receiver has to see, in this order."""
        return [serial for serial in self._offered if serial not in self._withdrawn]

    def received_chunks(self) -> list[int | None]:
        """What the receiver has seen."""
        return [self.kind.serial(message) for message in self.received if message.kind is Kind.CHUNK]

    def check_received(self) -> None:
        """Chunks come in order, each once; watermarks are the newest of their time.

        Raises:
            Divergence: they do not.
        """
        chunks, due = self.received_chunks(), self.due_chunks()
        if len(chunks) > len(due) or any(came not in (None, due[at]) for at, came in enumerate(chunks)):
            raise Divergence(f"chunks {chunks} were received, {due} were sent")
        watermarks = [message.payload for message in self.received if message.kind is Kind.WATERMARK]
        sent: Iterator[object] = iter(self._watermarks_due)
        # A bridge may conflate them once more; a single stream delivers what has left.
        is_conflated = len(self._streams) > 1 and all(watermark in sent for watermark in watermarks)
        if not is_conflated and watermarks != self._watermarks_due[: len(watermarks)]:
            raise Divergence(f"watermarks {watermarks} were received, {self._watermarks_due} were sent")


def _cancel(tasks: list[Task], position: int) -> None:
    under_way = [task for task in tasks if not task.done()]
    if under_way:
        under_way[position % len(under_way)].cancel()


def running(tasks: list[Task]) -> list[Task]:
    """Drop the tasks that are over; raise the error of one that failed."""
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()
    tasks[:] = [task for task in tasks if not task.done()]
    return tasks
