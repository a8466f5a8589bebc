"""The seam: what a protocol of flow control decides, and what everything that carries it knows of it.

A *flow* is one such protocol.  It says when a message may leave (``Outbound``), what its receiver owes for what was
consumed (``Inbound``), and by which parameters both count (``Parameters``).  Sessions, channels, carriers, the
exchange, traces and statistics know a flow through these and its ``Flow`` only, and none by name.

    sender      offer ─ waits in line ─ leave ───── wire ────> deliver ─ inbox ─ take ─ consume     receiver
                                        on_feedback <── wire ── take_feedback

Both ends of a flow are without I/O, and not thread-safe.  What all flows need stands here: the line of what waits, the
inbox, the totals.  Messages leave in the order in which they were offered and arrive in it; a watermark waits for what
was offered before it, and a newer one replaces it until it leaves.  A flow adds guards and updates: it is asked before
anything changes, and nobody else changes what it counts.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

from permitflow.errors import (
    InvalidParametersError,
    LocalProtocolError,
    ParameterMismatchError,
    UnexpectedFrameError,
    WouldBlock,
)
from permitflow.protocol.messages import Kind, Message, Offered, PlainChunk, chunk_of
from permitflow.protocol.names import MOST_NAME_CHARACTERS
from permitflow.protocol.recording import ActionTable, ParameterValue, Recorder

__all__ = [
    "AnyFeedback",
    "Flow",
    "Haste",
    "Inbound",
    "Outbound",
    "Parameters",
    "Totals",
    "Wishes",
    "flow_named",
    "flow_names",
    "register",
]

T = TypeVar("T")
_CHUNK = Kind.CHUNK  # reading an enumeration's attribute costs more than the whole decision

AnyFeedback: TypeAlias = Any
"""What the receiver's end of a flow says to the sender's: a named tuple of the flow's own.  It is an increment: the
carrier neither loses nor repeats it."""

Wishes: TypeAlias = Any
"""Parameters of a flow as one end states them: a named tuple of the flow's own, None where it says nothing."""


class Totals(NamedTuple):
    """What has left one end, or has come to the other."""

    chunks: int
    rows: int
    barriers: int


class Haste:
    """How soon feedback should leave; the larger, the sooner."""

    NONE = 0
    """There is none."""
    LATER = 1
    """It may wait for more for a moment: no message can need it."""
    SOON = 2
    """It may wait as long as the application goes on taking what is here, and others have their turn."""
    NOW = 3
    """Somebody may be waiting for it."""


class Parameters(ABC):
    """The numbers by which both ends of a channel count, and with them the choice of its flow."""

    __slots__ = ()

    flow: ClassVar["Flow"]
    """The protocol whose parameters these are."""

    @property
    def window_rows(self) -> int | None:
        """The most rows that may be in the channel at once; None: the flow has no bound of its own."""
        return None

    @property
    def most_rows(self) -> int | None:
        """The most rows of a chunk, so that a larger one has to be split; None: it may have any number."""
        return None


class Flow(ABC):
    """One protocol: its name, its parameters and its two ends."""

    wire: ClassVar[str]
    """The module with the protobuf messages ``Parameters`` and ``Feedback``, whose fields have the names of those of
    ``wishes`` and ``feedback``."""
    wishes: ClassVar[type[tuple[Any, ...]]]
    feedback: ClassVar[type[tuple[Any, ...]]]
    table: ClassVar[ActionTable]
    """What its ends tell a recorder."""
    outbound: ClassVar["type[Outbound[Any]]"]
    """The sender's end of a new channel: called with parameters, and ``record``."""
    inbound: ClassVar["type[Inbound[Any]]"]
    """The receiver's end, likewise."""
    gauge_help: ClassVar[Mapping[str, str]] = {}
    """What each gauge of its ends means."""

    @property
    def name(self) -> str:
        """As it is said on the wire, in traces and in files."""
        return self.table.flow

    def parse(self, stated: Mapping[str, Any]) -> Any:
        """Parameters by their names, as options and files state them; what is left out is chosen.

        Raises:
            InvalidParametersError: a name is not known, or a number is out of its range.
        """
        known: tuple[str, ...] = self.wishes._fields  # type: ignore[attr-defined]  # a named tuple
        for name, value in stated.items():
            if name not in known:
                rule = f"must be a parameter of flow {self.name}, which has {', '.join(known) or 'none'}"
                raise InvalidParametersError(name=name, value=value, rule=rule)
        return self.complete(self.wishes(**stated))

    def state(self, parameters: Any) -> Wishes:
        """All parameters, to be told to the other end."""
        known: tuple[str, ...] = self.wishes._fields  # type: ignore[attr-defined]  # a named tuple
        return self.wishes(*(getattr(parameters, name) for name in known))

    def stated(self, parameters: Any) -> Mapping[str, ParameterValue]:
        """All parameters by their names, as ``parse`` takes them."""
        by_name: dict[str, ParameterValue] = self.state(parameters)._asdict()
        return by_name

    @abstractmethod
    def complete(self, wishes: Wishes) -> Any:
        """Parameters from what was stated; what was left open is chosen.

        Raises:
            InvalidParametersError: a number is out of its range.
        """

    def agree(self, own: Any, wanted: Wishes) -> Any:
        """Of the end that is dialled: reconcile the wishes of the one that dials with its own parameters.

        A flow whose ends have nothing to agree on leaves it at this.

        Raises:
            InvalidParametersError: the wishes cannot work at all.
            ParameterMismatchError: they cannot be reconciled.
        """
        self.complete(wanted)
        return own

    def verify(self, agreed: Wishes, wanted: Wishes | None) -> Any:
        """Of the end that has dialled: check what the other one decided, which may lie.  ``wanted``: None is no wish.

        Raises:
            InvalidParametersError, ParameterMismatchError: a number is missing, cannot work, or exceeds what was asked
                for.
        """
        return self.complete(agreed)


class Outbound(ABC, Generic[T]):
    """The sender's end: what waits, in line, and what has left.

    The core decides, the shell waits: an application offers a message, and gets it back from ``take_sendable`` as soon
    as it may leave.  Chunks and barriers leave in the order in which they were offered: a large chunk at the head is
    overtaken neither by a small one nor by a barrier.
    """

    __slots__ = (
        "_most_rows",
        "_record",
        "_sent_barriers",
        "_sent_chunks",
        "_sent_rows",
        "_waiting",
        "_watermark",
        "_watermark_after",
        "parameters",
    )

    def __init__(self, parameters: Any, *, record: Recorder | None = None) -> None:
        """Start with nothing offered."""
        self.parameters = parameters
        self._most_rows: int | None = parameters.most_rows
        self._sent_chunks = self._sent_rows = self._sent_barriers = 0
        self._waiting: deque[Offered[T]] = deque()
        self._watermark: Message[T] | None = None
        self._watermark_after = 0
        self._record = record

    # What the flow decides.

    @property
    @abstractmethod
    def room_rows(self) -> int:
        """About how many rows may leave now."""

    @abstractmethod
    def admits(self, rows: Sequence[int]) -> int:
        """How many of the first of these chunks may leave now, one after the other, if nothing waits.

        Nothing is changed.  A chunk that has to be split is not admitted.
        """

    @abstractmethod
    def lack(self, kind: Kind, rows: Sequence[int] = ()) -> str:
        """Why a message may not leave now, in words: a barrier, a watermark, or a chunk in these pieces."""

    @abstractmethod
    def on_feedback(self, feedback: AnyFeedback) -> None:
        """Take in what the receiver's end has said.

        Raises:
            RemoteProtocolError: it cannot have said that; nothing was changed.
        """

    @property
    def rows_held(self) -> int:
        """Rows that have left and, as far as this end knows, take room; 0 if it never learns what was consumed."""
        return 0

    @property
    def peak_rows_held(self) -> int:
        """The most rows that ever took room at once."""
        return 0

    def unsettled(self) -> tuple[str, int] | None:
        """What is still out at the end of a stream, and how much of it; None if nothing is."""
        return None

    def gauges(self) -> dict[str, int]:
        """Numbers of the flow's own, by the names in ``Flow.gauge_help``."""
        return {}

    @property
    def sent_mark(self) -> tuple[int, ...] | None:
        """How far sending has come, in numbers that only grow; None: this flow does not learn what was consumed."""
        return None

    @property
    def heard_mark(self) -> tuple[int, ...]:
        """What is known to be consumed: all that had left when ``sent_mark`` was no larger than this."""
        return ()

    @abstractmethod
    def _may_leave(self, message: Message[T]) -> bool:
        """May this message leave now, if it is its turn?  The guard."""

    # A flow that counts nothing leaves these as they are; so too at the other end.

    def _leave(self, message: Message[T]) -> None:
        """It leaves: the update."""

    def _leave_at_once(self, rows: Sequence[int], total: int, least: int) -> int:
        """Of these chunks, offer as many of the first ones as ``admits`` would admit, and let them leave; say how many.

        Args:
            rows: of each chunk; there is one.
            total: all their rows.
            least: the rows of the smallest one.
        """
        return self.admits(rows)

    def _tell(self, verb: str, message: Message[T]) -> None:
        """Tell the recorder, which is there, that a message was offered or withdrawn ("Offer", "Withdraw")."""

    # What there is.

    @property
    def totals(self) -> Totals:
        """What has left."""
        return Totals(self._sent_chunks, self._sent_rows, self._sent_barriers)

    @property
    def has_waiting(self) -> bool:
        """Has something been offered that has not left yet?"""
        return bool(self._waiting or self._watermark is not None)

    @property
    def waiting(self) -> tuple[Message[T], ...]:
        """Chunks and barriers that wait, oldest first."""
        return tuple(offered.message for offered in self._waiting)

    @property
    def messages_before_watermark(self) -> int | None:
        """Chunks and barriers that leave before the pending watermark may; None if none is pending."""
        return None if self._watermark is None else self._watermark_after

    def admits_barrier(self) -> bool:
        """May a barrier leave now, if nothing waits?"""
        barrier: Message[Any] = Message(Kind.BARRIER, None)
        return self._may_leave(barrier)

    def can_send(self) -> bool:
        """May the oldest message that waits leave now?"""
        return bool(self._waiting) and self._may_leave(self._waiting[0].message)

    def sendable(self) -> int:
        """How many of those that wait may leave now, one after the other; a flow may say 1 where it is more."""
        return int(self.can_send())

    def can_send_watermark(self) -> bool:
        """May the pending watermark leave now?"""
        return self._watermark is not None and self._watermark_after == 0 and self._may_leave(self._watermark)

    # Offering.

    def offer(self, kind: Kind, payload: T, rows: int = 0) -> Offered[T]:
        """Put a chunk or a barrier at the end of what waits.

        Raises:
            InvalidParametersError: ``rows`` is negative.
            LocalProtocolError: the chunk has more rows than a chunk may; split it first.
        """
        if rows < 0:
            raise InvalidParametersError(name="rows", value=rows, rule="must not be negative")
        most = self._most_rows
        if most is not None and rows > most:
            rule = f"has more than the {most} that a chunk may have on this channel: offer it in slices"
            raise LocalProtocolError(f"a chunk of {rows} rows {rule}")
        offered = Offered(Message(kind, payload, rows))
        self._waiting.append(offered)
        if self._record is not None:
            self._tell("Offer", offered.message)
        return offered

    def offer_watermark(self, payload: T) -> None:
        """Announce a watermark.  It never waits for the caller, and replaces one that has not left yet.

        It will leave after the chunks and barriers that wait now, never before them.
        """
        self._watermark = Message(Kind.WATERMARK, payload, 0)
        self._watermark_after = len(self._waiting)
        if self._record is not None:
            self._tell("Offer", self._watermark)

    def withdraw(self, offered: Offered[T]) -> bool:
        """Take back a message that still waits; say whether it was still here.  Nothing is lost."""
        try:
            position = self._waiting.index(offered)
        except ValueError:
            return False
        del self._waiting[position]
        if position < self._watermark_after:
            self._watermark_after -= 1
        if self._record is not None:
            self._tell("Withdraw", offered.message)
        return True

    def withdraw_all(self) -> None:
        """Take back everything that waits, the newest first, and forget a pending watermark: the stream is over."""
        self._watermark = None
        while self._waiting:
            message = self._waiting.pop().message
            if self._record is not None:
                self._tell("Withdraw", message)

    # Leaving.

    def send_now(self, rows: Sequence[int]) -> int:
        """Offer chunks, and let as many of the first ones leave as may now; the others were not offered.

        Args:
            rows: of each chunk.

        Returns:
            How many have left.  None do while others wait.

        Raises:
            InvalidParametersError: one of them is negative.
        """
        if self._waiting or not rows:
            return 0
        total, least = sum(rows), min(rows)
        if least < 0:
            raise InvalidParametersError(name="rows", value=least, rule="must not be negative")
        count = self._leave_at_once(rows, total, least)
        self._sent_chunks += count
        self._sent_rows += total if count == len(rows) else sum(rows[:count])
        return count

    def send_oldest(self) -> Message[T]:
        """Let the oldest message that waits leave, a chunk or a barrier.

        Raises:
            WouldBlock: nothing waits, or it may not leave yet.
        """
        message = self.try_send()
        if message is None:
            oldest = self._waiting[0].message if self._waiting else None
            raise WouldBlock("nothing waits" if oldest is None else self.lack(oldest.kind, (oldest.rows,)))
        return message

    def try_send(self) -> Message[T] | None:
        """As ``send_oldest``; None if nothing waits, or it may not leave yet."""
        if not self._waiting:
            return None
        message = self._waiting[0].message
        if not self._may_leave(message):
            return None
        self._waiting.popleft()
        if self._watermark_after > 0:
            self._watermark_after -= 1
        if message.kind is _CHUNK:
            self._sent_chunks += 1
            self._sent_rows += message.rows
        else:
            self._sent_barriers += 1
        self._leave(message)
        return message

    def send_watermark(self) -> Message[T]:
        """Let the newest watermark leave.

        Raises:
            WouldBlock: none is pending, messages offered before it still wait, or it may not leave yet.
        """
        if not self.can_send_watermark() or (message := self._watermark) is None:
            raise WouldBlock("no watermark may leave now")
        self._watermark = None
        self._leave(message)
        return message

    def take_sendable(self) -> list[Message[T]]:
        """Everything that may leave now, in the order in which it leaves.

        A watermark goes as soon as it may, so that a steady stream of messages cannot hold it up.
        """
        ready: list[Message[T]] = []
        while True:
            if self._watermark is not None and self.can_send_watermark():
                ready.append(self.send_watermark())
            if (message := self.try_send()) is None:
                return ready
            ready.append(message)


Run: TypeAlias = tuple[Sequence[T], Sequence[int], int]
"""Chunks that follow each other: payloads, the rows of each, and how many of the first ones are no longer here."""

Entries: TypeAlias = Collection[Run[T] | Message[T]]
"""Entries of an inbox: runs, and single messages."""


class Inbound(ABC, Generic[T]):
    """The receiver's end: what has arrived, what the application has taken, and what it has consumed.

    The inbox has no limit of its own; the flow bounds it.  Chunks that arrive together are one entry of it, a run.
    Taking a message out (``take``) and having consumed it (``consume_many``) are two steps: a flow gives room only for
    what was consumed.

    Where finalizers run in the middle of a call, because objects were made or freed, the counts stay right: an entry is
    taken out of its queue before anything is made of it, and payloads are freed last.
    """

    __slots__ = (
        "_came_barriers",
        "_came_chunks",
        "_came_rows",
        "_consumed_chunks",
        "_consumed_rows",
        "_held",
        "_here",
        "_inbox_rows",
        "_peak_inbox_rows",
        "_record",
        "_runs",
        "parameters",
        "untaken",
    )

    def __init__(self, parameters: Any, *, record: Recorder | None = None) -> None:
        """Start empty."""
        self.parameters = parameters
        # Plain tuples: garbage collection would look at objects of a class again and again.
        self._runs: deque[Run[T] | Message[T]] = deque()
        # What was taken and not consumed.
        self._held: deque[Run[T] | Message[T]] = deque()
        # Messages in both queues.
        self._here = 0
        self.untaken = 0
        """Messages that the application has not taken yet."""
        self._came_chunks = self._came_rows = self._came_barriers = 0
        self._consumed_chunks = self._consumed_rows = 0
        self._inbox_rows = self._peak_inbox_rows = 0
        self._record = record

    # What the flow decides.

    @property
    @abstractmethod
    def haste(self) -> int:
        """Is there something to say to the sender's end, and how soon should it leave?  One of ``Haste``, 0 for no."""

    @abstractmethod
    def take_feedback(self, *, residue: bool = True) -> AnyFeedback | None:
        """What is to be said to the sender's end now; it counts as said from here on.

        Args:
            residue: may what is too little to be said by itself be said as well, because the application has consumed
                all that is here?
        """

    def unsettled(self) -> bool:
        """Is feedback still owed for what was consumed?"""
        return self.haste > Haste.NONE

    def gauges(self) -> dict[str, int]:
        """Numbers of the flow's own, by the names in ``Flow.gauge_help``."""
        return {}

    def _accept_chunks(self, rows: Sequence[int], total: int, least: int) -> None:
        """Guard and update of the arrival of chunks.

        Args:
            rows: of each chunk; there is one.
            total: all their rows.
            least: the rows of the smallest one, at least 0.

        Raises:
            RemoteProtocolError: the peer may not have sent them; nothing was changed.
        """

    def _accept_marker(self, message: Message[T]) -> None:
        """Guard and update of the arrival of a barrier or a watermark; raises likewise."""

    def _consume(self, rows: Sequence[int], total: int, markers: Sequence[Message[T]], taken: Entries[T]) -> None:
        """The update when messages were consumed, at least one: chunks, and barriers and watermarks.

        Args:
            rows: of each chunk.
            total: all their rows.
            markers: the others.
            taken: all of them in their order, for the recorder: ``messages_of`` makes messages of them.
        """

    def _note_delivered(self, rows: Sequence[int]) -> None:
        """Tell the recorder, which is there, that chunks of so many rows have arrived, as if one by one."""

    def _note_marker(self, message: Message[T]) -> None:
        """Tell the recorder, which is there, that a barrier or a watermark has arrived."""

    # What there is.

    @property
    def totals(self) -> Totals:
        """What has come."""
        return Totals(self._came_chunks, self._came_rows, self._came_barriers)

    @property
    def inbox(self) -> tuple[Message[T], ...]:
        """What has arrived and was not consumed, oldest first; what the application has taken is at the front."""
        return tuple(messages_of([*self._held, *self._runs]))

    @property
    def runs(self) -> Sequence[Run[T] | Message[T]]:
        """What the application has not taken yet, oldest first, to look at."""
        return self._runs

    @property
    def inbox_rows(self) -> int:
        """Rows that have arrived and are not consumed yet."""
        return self._inbox_rows

    @property
    def peak_inbox_rows(self) -> int:
        """The most rows that were ever here and not consumed."""
        return self._peak_inbox_rows

    @property
    def consumed_chunks(self) -> int:
        """Chunks that were consumed."""
        return self._consumed_chunks

    @property
    def consumed_rows(self) -> int:
        """Rows of the chunks that were consumed."""
        return self._consumed_rows

    @property
    def unconsumed(self) -> int:
        """Messages that have arrived and are not consumed yet."""
        return self._here

    # Arriving.

    def deliver(self, message: Message[T]) -> None:
        """Accept a message from the wire.

        Raises:
            RemoteProtocolError: the peer may not have sent it; nothing was changed.
        """
        if message.kind is _CHUNK:
            self.deliver_many((message.payload,), (message.rows,))
            return
        self._accept_marker(message)
        self._came_barriers += message.kind is Kind.BARRIER
        self._here += 1
        self.untaken += 1
        self._runs.append(message)
        if self._record is not None:
            self._note_marker(message)

    def deliver_many(self, payloads: Sequence[T], rows: Sequence[int]) -> None:
        """Accept chunks from the wire.

        Args:
            payloads: of each chunk, to be indexed and sliced; nobody changes it, but a list may change afterwards.
            rows: of each chunk.

        Raises:
            RemoteProtocolError: the peer may not have sent all of them; nothing was changed.
        """
        if not rows:
            return
        total, least = sum(rows), min(rows)
        if least < 0:
            raise UnexpectedFrameError(frame=f"a chunk of {least} rows", expected="one of at least 0")
        # What was taken goes out of a list, so that only the application has it.
        run = (payloads.copy() if isinstance(payloads, list) else payloads, tuple(rows), 0)
        self._accept_chunks(rows, total, least)
        self._came_chunks += len(rows)
        self._came_rows += total
        self._inbox_rows += total
        if self._inbox_rows > self._peak_inbox_rows:
            self._peak_inbox_rows = self._inbox_rows
        self._here += len(rows)
        self.untaken += len(rows)
        self._runs.append(run)
        if self._record is not None:
            self._note_delivered(rows)

    # Taking.

    def hold(self, most: int) -> Entries[T]:
        """Hand the oldest messages over that were not taken yet, at most so many, in their runs."""
        taken = _cut_off(self._runs, most)
        self._held.extend(taken)
        self.untaken -= sum(1 if isinstance(entry, Message) else len(entry[1]) for entry in taken)
        return taken

    def take(self) -> Message[T]:
        """Hand the oldest message that was not taken yet to the application.

        Raises:
            WouldBlock: there is none.
        """
        if not self._runs:
            raise WouldBlock("no message is here")
        message = self._pop_oldest()
        self._held.append(message)
        self.untaken -= 1
        return message

    def take_many(self, most: int) -> list[Message[T]]:
        """Hand the oldest messages over that were not taken yet, at most so many."""
        return messages_of(self.hold(most))

    def chunks_at_hand(self, most: int, most_rows: int) -> tuple[Sequence[T], Sequence[int]]:
        """The oldest chunks, at most so many, up to the first other message, and the rows of each; they stay.

        None while the application holds a message.  No more than would have ``most_rows`` if all were as long as the
        first one, and another.  Chunks that lie in one run come as they came.
        """
        chunks: list[T] = []
        sizes: list[int] = []
        for entry in () if self._held else self._runs:
            if isinstance(entry, Message) or most <= len(chunks):
                break
            payloads, rows, start = entry
            if not chunks:
                most = min(most, 1 + most_rows // max(1, rows[start]))
            left = most - len(chunks)
            if start or left < len(rows):
                payloads, rows = payloads[start : start + left], rows[start : start + left]
            if not chunks and (len(rows) == most or len(self._runs) == 1):
                return payloads, rows
            chunks += payloads
            sizes += rows
        return chunks, sizes

    # Consuming.

    def consume_many(self, count: int) -> None:
        """Note that the application has consumed so many of the oldest messages it took.

        What is to be said of it is left in ``take_feedback``.

        Raises:
            LocalProtocolError: the application holds fewer; nothing was changed.
        """
        if count > (taken := self._here - self.untaken):
            if not taken:
                raise LocalProtocolError("nothing was taken that could have been consumed")
            raise LocalProtocolError(f"{taken} messages were taken, not the {count} that are said to be consumed")
        self._note_consumed(_cut_off(self._held, count))

    def pass_by(self, most: int) -> Entries[T]:
        """Take the oldest messages and consume them at once, at most so many, in their runs.

        Raises:
            LocalProtocolError: the application holds a message, so that "the oldest it took" is another one; nothing
                was changed.
        """
        self.require_none_taken()
        taken = _cut_off(self._runs, most)
        self._note_consumed(taken)
        return taken

    def receive_many(self, most: int) -> list[Message[T]]:
        """The messages of ``pass_by``; raises likewise."""
        return messages_of(self.pass_by(most))

    def try_receive(self) -> Message[T] | None:
        """As ``receive_many``, of one message; None if nothing is here."""
        self.require_none_taken()
        if not self._runs:
            return None
        message = self._pop_oldest()
        is_chunk, taken = message.kind is _CHUNK, (message,)
        self._count_consumed((message.rows,) if is_chunk else (), () if is_chunk else taken, taken)
        return message

    def require_none_taken(self) -> None:
        """Insist that the application holds no message; raises as ``receive_many``."""
        if self._held:
            count = self._here - self.untaken
            raise LocalProtocolError(f"{count} messages were taken and not consumed: consume them first")

    def _pop_oldest(self) -> Message[T]:
        """Take the oldest message out; ``_cut_off`` of one, which is the usual case, in half the time."""
        entry = self._runs.popleft()
        if isinstance(entry, Message):
            return entry
        payloads, rows, start = entry
        if start + 1 < len(rows):
            self._runs.appendleft((payloads, rows, start + 1))
        message: PlainChunk[T] = PlainChunk()
        message.payload, message.rows = payloads[start], rows[start]
        if isinstance(payloads, list):
            payloads[start] = None
        return message

    def _note_consumed(self, taken: Entries[T]) -> None:
        if not taken:
            return
        rows: list[int] = []
        markers: list[Message[T]] = []
        for entry in taken:
            if not isinstance(entry, Message):
                rows += entry[1]
            elif entry.kind is _CHUNK:
                rows.append(entry.rows)
            else:
                markers.append(entry)
        self._count_consumed(rows, markers, taken)

    def _count_consumed(self, rows: Sequence[int], markers: Sequence[Message[T]], taken: Entries[T]) -> None:
        total = sum(rows)
        self._here -= len(rows) + len(markers)
        if self.untaken > self._here:  # what was passed by has never been taken
            self.untaken = self._here
        self._consumed_chunks += len(rows)
        self._consumed_rows += total
        self._inbox_rows -= total
        self._consume(rows, total, markers, taken)

    def drop(self) -> None:
        """Forget what has arrived and was not consumed: the stream is over."""
        self._inbox_rows = self._here = self.untaken = 0
        for queue in self._held, self._runs:
            queue.clear()  # last, because freeing payloads may run anybody's code


def _cut_off(queue: deque[Run[T] | Message[T]], most: int) -> list[Run[T] | Message[T]]:
    """Take the oldest messages out of a queue, at most so many: whole runs, and the first chunks of another."""
    taken: list[Run[T] | Message[T]] = []
    while most > 0 and queue:
        entry = queue.popleft()
        if isinstance(entry, Message):
            most -= 1
        else:
            payloads, rows, start = entry
            stop = start + most
            most -= len(rows) - start
            if most < 0:
                queue.appendleft((payloads, rows, stop))
            if start or most < 0:
                entry = (payloads[start:stop], rows[start:stop], 0)
                if isinstance(payloads, list):
                    payloads[start:stop] = [None] * len(entry[1])
        taken.append(entry)
    return taken


def messages_of(entries: Entries[T]) -> list[Message[T]]:
    """The messages of entries of an inbox."""
    messages: list[Message[T]] = []
    for entry in entries:
        if isinstance(entry, Message):
            messages.append(entry)
        else:
            payloads, rows, start = entry
            if len(rows) == 1:
                messages.append(chunk_of(payloads[0], rows[0]))
            else:
                messages += map(chunk_of, payloads[start:], rows[start:])
    return messages


# Flows by their names.

_FLOWS: dict[str, Flow] = {}


def register(flow: Flow, parameters: type[Parameters]) -> None:
    """Let a flow be found by its name, and by its parameters.

    Raises:
        InvalidParametersError: another one has this name.
    """
    if type(_FLOWS.setdefault(flow.name, flow)) is not type(flow):
        raise InvalidParametersError(name="flow", value=flow.name, rule="is the name of another flow")
    parameters.flow = flow


def flow_named(name: str) -> Flow:
    """The flow of this name: one that was registered, or one of this package.

    Raises:
        ParameterMismatchError: there is none.
    """
    if name not in _FLOWS and name not in flow_names():
        raise ParameterMismatchError(
            name="flow",
            ours=", ".join(flow_names()),
            theirs=name[:MOST_NAME_CHARACTERS],
            rule="must be one that both ends know",
        )
    return _FLOWS[name]


def flow_names() -> list[str]:
    """The names of all flows: those that were registered, and those of this package."""
    _import_all()
    return sorted(_FLOWS)


@cache
def _import_all() -> None:
    package = __name__.rpartition(".")[0]
    for module in iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")
