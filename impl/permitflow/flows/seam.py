"""The seam between a protocol of flow control and the code that carries it.

A *flow* is one such protocol.  It decides when a message may leave (``Outbound``), which feedback its receiver owes for
consumed messages (``Inbound``), and by which parameters both ends count (``Parameters``).  Sessions, channels,
carriers, the exchange, traces and statistics use these classes and ``Flow``; they name no particular flow.

    sender      offer ─ waits in line ─ leave ───── wire ────> deliver ─ inbox ─ take ─ consume     receiver
                                        on_feedback <── wire ── take_feedback

A flow whose sender has more to tell than its data sends announcements beside them (``take_announcement``).  A flow
whose receivers share something has a ``Group`` of them.

Both ends of a flow do no I/O and are not thread-safe.  This file has what all flows need: the line of waiting messages,
the inbox, the totals, and the byte window (``byte_window.py``), which a chunk needs beside the flow's leave.  Messages
leave and arrive in the order in which they were offered.  A watermark leaves after the messages offered before it;
until then a newer watermark replaces it.  A flow adds guards and updates: its guard decides before any change, and only
the flow changes its counts.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import chain, islice
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

from permitflow.errors import (
    InvalidParametersError,
    LocalProtocolError,
    ParameterMismatchError,
    UnexpectedFrameError,
    WouldBlock,
)
from permitflow.flows.byte_window import (
    DEFAULT_WINDOW,
    ByteWindow,
    OutstandingBytes,
    RunSums,
    Sums,
    UnreturnedBytes,
)
from permitflow.flows.messages import Kind, Message, Offered, PlainChunk, chunk_of
from permitflow.flows.recording import ActionTable, ParameterValue, Recorder, Step, record_run

__all__ = [
    "AnyAnnouncement",
    "AnyFeedback",
    "Flow",
    "Group",
    "Inbound",
    "MessageReceiver",
    "MessageSender",
    "Outbound",
    "Parameters",
    "Totals",
    "Urgency",
    "Wishes",
    "register",
    "registered",
    "require_whole",
    "stated_values",
    "wishes_of",
]

T = TypeVar("T")
_MANY_CHUNKS = 16
"""To slice so many out of the batch in which they came costs more than a message."""
_CHUNK = Kind.CHUNK  # reading an enumeration's attribute costs more than the whole decision

AnyFeedback: TypeAlias = Any
"""The message from the receiver's end of a flow to the sender's: a named tuple that the flow defines.  It is an
increment: the carrier neither loses nor repeats it."""

AnyAnnouncement: TypeAlias = Any
"""The message from the sender's end of a flow to the receiver's, beside the data that have left before it: a named
tuple that the flow defines."""

Wishes: TypeAlias = Any
"""Parameters of a flow as one end states them, unchecked: the named tuple of ``wishes_of``."""


class Totals(NamedTuple):
    """Messages and rows that have left one end, or arrived at the other."""

    chunks: int
    rows: int
    barriers: int


class Urgency:
    """How soon feedback should leave; the larger, the sooner.

    The flow says this of the feedback it has now.  When it leaves is decided in one place for each kind of channel:
    inside a process at once, over a carrier in ``RemoteReceiver._advance``.
    """

    NONE = 0
    """There is no feedback."""
    LATER = 1
    """It may wait for more feedback for a moment: no message can need it."""
    SOON = 2
    """It may wait while the application takes the messages that are here, and until other tasks have run."""
    NOW = 3
    """The sender may be waiting for it."""


class Parameters(ABC):
    """The numbers by which both ends of a channel count; their class selects the flow."""

    __slots__ = ()

    flow: ClassVar["Flow"]
    """The flow of these parameters."""

    @property
    def window_rows(self) -> int | None:
        """The most rows that may be in the channel at once; None: the flow sets no bound."""
        return None

    @property
    def most_rows(self) -> int | None:
        """The most rows of a chunk; a larger chunk has to be split.  None: a chunk may have any number."""
        return None


def _do_nothing() -> None:
    pass


class Group:
    """What the receiver's ends of several channels share; all of them belong to one event loop.

    A call on one end may change another.  Such ends are ``touched``, and ``pump`` lets each pass its feedback on, in a
    turn of its own: within the call, ends are halfway through their updates.
    """

    def __init__(self) -> None:
        """Nothing is touched."""
        self.touched: OrderedDict[Inbound[Any], None] = OrderedDict()
        self.wake: Callable[[], None] = _do_nothing
        """Called when something is touched: schedules ``pump``, and does nothing else."""

    def touch(self, end: "Inbound[Any]") -> None:
        """Note that feedback may be due at this end."""
        if not self.touched:
            self.wake()
        self.touched[end] = None

    def pump(self) -> None:
        """Let each touched end pass its feedback on, in the order in which they were touched."""
        while self.touched:
            end, _ = self.touched.popitem(last=False)
            end.pass_on()


class Flow(ABC):
    """One protocol: its name, its parameters and its two ends."""

    feedback: ClassVar[type[tuple[Any, ...]]]
    announcement: ClassVar[type[tuple[Any, ...]] | None] = None
    """None: the sender tells nothing beside its data."""
    table: ClassVar[ActionTable]
    """The actions that its ends report to a recorder."""
    outbound: ClassVar["type[Outbound[Any]]"]
    """Makes the sender's end of a new channel from parameters and ``record``."""
    inbound: ClassVar["type[Inbound[Any]]"]
    """Makes the receiver's end, likewise."""
    gauge_help: ClassVar[Mapping[str, str]] = {}
    """What each gauge of its ends means."""
    parameters: type[Any]
    """The class of its parameters: set by ``register``."""
    wishes: Any
    """``wishes_of`` these parameters: set by ``register``."""
    as_wished: ClassVar[Collection[str]] = ()
    """Parameters that the server has to take over from the client's wishes; the others it may make smaller."""
    assumed: ClassVar[Collection[str]] = ()
    """Parameters that the server may make larger instead: what both ends assume of each other."""
    least_stated: ClassVar[Mapping[str, int]] = {}
    """The least numbers that can be stated; the numbers below them stand for defaults."""
    leading: ClassVar[Collection[str]] = ()
    following: ClassVar[Collection[str]] = ()
    """Parameters that follow from one of ``leading`` that a client states, if it does not state these as well."""

    @property
    @abstractmethod
    def wire(self) -> Any:
        """What has the protobuf messages ``Parameters``, ``Feedback`` and, if the flow has it, ``Announcement``.

        Their field names are those of ``wishes``, ``feedback`` and ``announcement``.  A module of generated messages is
        imported here, on first use: a channel inside a process needs no protobuf.
        """

    @property
    def name(self) -> str:
        """The flow's name on the wire, in traces and in files."""
        return self.table.flow

    def receiving(self, parameters: Any, *, record: Recorder | None, group: Group | None = None) -> "Inbound[Any]":
        """The receiver's end of a new channel, as a member of the group.

        Raises:
            InvalidParametersError: this flow has no such groups.
        """
        if group is not None:
            rule = f"must be None: channels of flow {self.name} share nothing"
            raise InvalidParametersError(name="group", value=group, rule=rule)
        return self.inbound(parameters, record=record)

    def parse(self, stated: Mapping[str, Any]) -> Any:
        """Parameters from names and values, as options and files state them; the flow chooses the missing ones.

        Raises:
            InvalidParametersError: a name is unknown, or a number is out of its range.
        """
        known = self.wishes._fields
        for name, value in stated.items():
            if name not in known:
                rule = f"must be a parameter of flow {self.name}, which has {', '.join(known) or 'none'}"
                raise InvalidParametersError(name=name, value=value, rule=rule)
        return self.complete(self.wishes(**stated))

    def state(self, parameters: Any) -> Wishes:
        """All parameters, to be sent to the other end."""
        return self.wishes(*(getattr(parameters, name) for name in self.wishes._fields))

    def stated(self, parameters: Any) -> Mapping[str, ParameterValue]:
        """All parameters by their names, as ``parse`` takes them."""
        by_name: dict[str, ParameterValue] = self.state(parameters)._asdict()
        return by_name

    def complete(self, wishes: Wishes) -> Any:
        """Parameters from stated ones; the flow chooses the missing ones.

        Raises:
            InvalidParametersError: a number is out of its range.
        """
        stated = stated_values(wishes)
        parameters = self.parameters(**stated)
        for name, least in self.least_stated.items():
            if stated.get(name, least) < least:
                raise InvalidParametersError(name=name, value=stated[name], rule=f"must be at least {least}")
        return parameters

    def agree(self, own: Any, wanted: Wishes) -> Any:
        """Reconcile the client's wishes with the server's own parameters; by default, the smaller number wins.

        Raises:
            InvalidParametersError: the wishes cannot work at all.
            ParameterMismatchError: they cannot be reconciled.
        """
        if not (stated := stated_values(wanted)):
            return own
        theirs = self._wanted(own, stated)
        return self.parameters(**{name: min(value, getattr(theirs, name)) for name, value in self.stated(own).items()})

    def _wanted(self, own: Any, stated: Mapping[str, Any]) -> Any:
        """The parameters of a client that states these; its gaps are filled with this end's numbers."""
        ours = self.state(own)
        if any(name in stated for name in self.leading):
            ours = ours._replace(**dict.fromkeys(self.following))
        return self.complete(ours._replace(**stated))

    def verify(self, agreed: Wishes, wanted: Wishes | None) -> Any:
        """Check the server's decision at the client, because it may be wrong.  ``wanted``: None is not a wish.

        Raises:
            ParameterMismatchError: a parameter is missing, cannot work, or differs from the wish in more than being
                smaller.
        """
        wishes = {} if wanted is None else stated_values(wanted)
        stated: Mapping[str, Any] = agreed._asdict()
        for name, theirs in stated.items():
            if theirs is None:
                rule = "must be stated in the agreement"
                raise ParameterMismatchError(name=name, ours=wishes.get(name), theirs=None, rule=rule)
        try:
            parameters = self.complete(agreed)
        except InvalidParametersError as error:
            ours = wishes.get(error.name)
            raise ParameterMismatchError(name=error.name, ours=ours, theirs=error.value, rule=error.rule) from error
        for name, ours in wishes.items():
            theirs = stated[name]
            if name in self.as_wished:
                rule = "" if theirs == ours else "must be the requested one"
            elif name in self.assumed:
                rule = "" if theirs >= ours else "must not be less than what was assumed"
            else:
                rule = "" if theirs <= ours else "must not exceed the wish"
            if rule:
                raise ParameterMismatchError(name=name, ours=ours, theirs=theirs, rule=rule)
        return parameters


@cache
def wishes_of(parameters: type[Parameters]) -> Any:
    """A class of named tuples with a field for each field of this dataclass; None, the default: nothing is stated.

    To be pickled, it has to be found beside the parameters, as ``StatedParameters``.
    """
    names = [field.name for field in fields(parameters)]  # type: ignore[arg-type]  # a dataclass
    return namedtuple("StatedParameters", names, defaults=[None] * len(names), module=parameters.__module__)


def stated_values(wishes: Wishes) -> dict[str, Any]:
    """What is stated, by name."""
    return {name: value for name, value in wishes._asdict().items() if value is not None}


def require_whole(parameters: object, least: Mapping[str, int]) -> None:
    """Refuse parameters that are not whole numbers, or are below the least ones; -1 stands for a default.

    Raises:
        InvalidParametersError: which one.
    """
    for name, at_least in least.items():
        value = getattr(parameters, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
            rule = f"must be a whole number of at least {max(0, at_least)}"
            raise InvalidParametersError(name=name, value=value, rule=rule)


class Outbound(ABC, Generic[T]):
    """The sender's end: the line of waiting messages, and the totals of those that have left.

    The core decides, the shell waits: the shell offers a message, and gets it back from ``take_sendable`` as soon as it
    may leave.  Chunks and barriers leave in the order in which they were offered: neither a small chunk nor a barrier
    overtakes a large chunk at the head.
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
        "byte_ledger",
        "parameters",
    )

    gets_room_by_backlog: ClassVar[bool] = False
    """Does the receiver give room for waiting chunks?  Then a sender announces the chunks that wait: ``expect``."""

    is_optimistic: ClassVar[bool] = False
    """May messages leave until feedback says otherwise?  Then a sender must take in feedback between them."""

    def __init__(self, parameters: Any, *, record: Recorder | None = None) -> None:
        """Start with nothing offered."""
        self.parameters = parameters
        self._most_rows: int | None = parameters.most_rows
        self._sent_chunks = self._sent_rows = self._sent_barriers = 0
        self._waiting: deque[Offered[T]] = deque()
        self._watermark: Message[T] | None = None
        self._watermark_after = 0
        self._record = record
        self.byte_ledger = OutstandingBytes(DEFAULT_WINDOW)
        """The bytes that are out."""

    def limit_bytes(self, window: ByteWindow, *, is_written_later: bool = False) -> OutstandingBytes:
        """Count bytes by this window, before anything has left; see ``OutstandingBytes``."""
        self.byte_ledger = OutstandingBytes(window, is_written_later=is_written_later)
        return self.byte_ledger

    # What the flow decides.

    @property
    @abstractmethod
    def room_rows(self) -> int:
        """About how many rows may leave now."""

    @abstractmethod
    def admits(self, rows: Sequence[int]) -> int:
        """How many of these chunks, from the first on, may leave now if nothing waits.

        This changes nothing.  A chunk that has to be split is not admitted.
        """

    @abstractmethod
    def lack(self, kind: Kind, rows: Sequence[int] = ()) -> str:
        """Why a message may not leave now, in words: a barrier, a watermark, or a chunk in these pieces."""

    @abstractmethod
    def on_feedback(self, feedback: AnyFeedback) -> None:
        """Take in feedback from the receiver's end.

        Raises:
            RemoteProtocolError: the feedback breaks the flow's rules; nothing was changed.
        """

    @property
    def is_stopped(self) -> bool:
        """Does nothing leave behind the last barrier until the receiver says so?"""
        return False

    @property
    def rows_held(self) -> int:
        """Rows that have left and, as far as this end knows, take room; 0 if the flow does not report consumption."""
        return 0

    @property
    def peak_rows_held(self) -> int:
        """The most rows that ever took room at once."""
        return 0

    def unsettled(self) -> tuple[str, int] | None:
        """What the receiver still owes at the end of a stream: a name and a number; None if it owes nothing."""
        return None

    def gauges(self) -> dict[str, int]:
        """Numbers that only this flow has, by the names in ``Flow.gauge_help``."""
        return {}

    @property
    def sent_mark(self) -> tuple[int, ...] | None:
        """The progress of sending, in numbers that only grow; None: the flow does not report consumption."""
        return None

    @property
    def acknowledged_mark(self) -> tuple[int, ...]:
        """The progress of consumption: every message that left while ``sent_mark`` was at most this is consumed."""
        return ()

    @abstractmethod
    def _may_leave(self, message: Message[T]) -> bool:
        """The guard: may this message leave now, if it is its turn?"""

    # A flow that counts or tells nothing inherits these; likewise at the other end.

    def take_announcement(self) -> AnyAnnouncement | None:
        """What to tell the receiver now, behind all that has left; it counts as told from here on."""
        return None

    def expect(self, rows: Sequence[int]) -> None:
        """Note that chunks of these rows will be offered next, those stated before included; no chunks: none will.

        A flow that ``gets_room_by_backlog`` uses this.
        """

    def _leave(self, message: Message[T]) -> None:
        """The update: the message leaves."""

    def _leave_at_once(self, rows: Sequence[int], total: int, least: int) -> int:
        """Let the chunks leave that ``admits`` would admit; return how many.

        Args:
            rows: of each chunk; at least one chunk.
            total: the sum of ``rows``.
            least: the smallest of ``rows``.
        """
        return self.admits(rows)

    def _tell(self, verb: str, message: Message[T]) -> None:
        """Report to the recorder that a message was offered or withdrawn ("Offer", "Withdraw")."""

    # State.

    @property
    def totals(self) -> Totals:
        """Messages and rows that have left."""
        return Totals(self._sent_chunks, self._sent_rows, self._sent_barriers)

    @property
    def has_waiting(self) -> bool:
        """Has something been offered that has not left yet?"""
        return bool(self._waiting or self._watermark is not None)

    @property
    def may_end(self) -> bool:
        """May the end of the stream leave now?"""
        return not self.has_waiting

    @property
    def waiting(self) -> tuple[Message[T], ...]:
        """Chunks and barriers that wait, oldest first."""
        return tuple(offered.message for offered in self._waiting)

    @property
    def messages_before_watermark(self) -> int | None:
        """Chunks and barriers that leave before the pending watermark; None if none is pending."""
        return None if self._watermark is None else self._watermark_after

    def admits_barrier(self) -> bool:
        """May a barrier leave now, if nothing waits?"""
        barrier: Message[Any] = Message(Kind.BARRIER, None)
        return self._may_leave(barrier)

    def can_send(self) -> bool:
        """May the oldest message that waits leave now?"""
        return bool(self._waiting) and self._fits(self._waiting[0]) and self._may_leave(self._waiting[0].message)

    def _fits(self, offered: Offered[T]) -> bool:
        """Does the byte window admit this message?"""
        return offered.size_bytes is None or self.byte_ledger.admits(offered.size_bytes)

    def sendable(self) -> int:
        """How many waiting messages may leave now, one after the other; a flow may return 1 for any larger number."""
        return int(self.can_send())

    def leavable(self) -> int:
        """As ``sendable``, but not more than the byte window admits."""
        count, window, out = self.sendable(), self.byte_ledger.window, self.byte_ledger.outstanding_bytes
        for position, offered in enumerate(islice(self._waiting, count)):
            size_bytes = offered.size_bytes
            if size_bytes is not None and not window.admits(out, size_bytes):
                return position
            out += size_bytes or 0
        return count

    def lack_of(self, kind: Kind, rows: Sequence[int], size_bytes: int | None) -> str:
        """As ``lack``, or that the byte window has no room for the chunk."""
        if size_bytes is None or self.byte_ledger.admits(size_bytes):
            return self.lack(kind, rows)
        return self.byte_ledger.lack(size_bytes)

    def can_send_watermark(self) -> bool:
        """May the pending watermark leave now?"""
        return self._watermark is not None and self._watermark_after == 0 and self._may_leave(self._watermark)

    # Offering.

    def offer(self, kind: Kind, payload: T, rows: int = 0, size_bytes: int | None = None) -> Offered[T]:
        """Append a chunk or a barrier to the line of waiting messages.

        ``size_bytes`` is what the chunk takes of the byte window; None: the window does not count it.

        Raises:
            InvalidParametersError: ``rows`` is negative.
            LocalProtocolError: the chunk has more rows than a chunk may; split it first.
        """
        if rows < 0:
            raise InvalidParametersError(name="rows", value=rows, rule="must not be negative")
        most = self._most_rows
        if most is not None and rows > most:
            rule = f"exceeds this channel's limit of {most} rows for a chunk: offer it in slices"
            raise LocalProtocolError(f"a chunk of {rows} rows {rule}")
        offered = Offered(Message(kind, payload, rows), size_bytes)
        self._waiting.append(offered)
        if self._record is not None:
            self._tell("Offer", offered.message)
        return offered

    def offer_watermark(self, payload: T) -> None:
        """Announce a watermark.  The caller never waits; the watermark replaces one that has not left yet.

        It leaves after the chunks and barriers that wait now.
        """
        self._watermark = Message(Kind.WATERMARK, payload, 0)
        self._watermark_after = len(self._waiting)
        if self._record is not None:
            self._tell("Offer", self._watermark)

    def withdraw(self, offered: Offered[T]) -> bool:
        """Take back a message that still waits; return whether it still waited."""
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
        """Take back all waiting messages, newest first, and drop a pending watermark: the stream is over."""
        self._watermark = None
        while self._waiting:
            message = self._waiting.pop().message
            if self._record is not None:
                self._tell("Withdraw", message)

    # Leaving.

    def send_now(self, rows: Sequence[int], sums: Sums | None = None) -> int:
        """Offer and send chunks from the first on, until one may not leave; the rest are not offered.

        Args:
            rows: of each chunk.
            sums: of the chunks' bytes, for the byte window; None: it does not count them.

        Returns:
            How many have left; 0 while other messages wait.

        Raises:
            InvalidParametersError: a number of rows is negative.
        """
        if self._waiting or not rows:
            return 0
        total, least = sum(rows), min(rows)
        if least < 0:
            raise InvalidParametersError(name="rows", value=least, rule="must not be negative")
        if sums is not None and (fitting := self.byte_ledger.fitting(sums, len(rows))) < len(rows):
            if not fitting:
                return 0
            rows = rows[:fitting]
            total = sum(rows)
        count = self._leave_at_once(rows, total, least)
        if sums is not None:
            self.byte_ledger.send(sums[count])
        self._sent_chunks += count
        self._sent_rows += total if count == len(rows) else sum(rows[:count])
        return count

    def send_oldest(self) -> Message[T]:
        """Send the oldest waiting message, a chunk or a barrier.

        Raises:
            WouldBlock: no message waits, or the oldest may not leave yet.
        """
        message = self.try_send()
        if message is None:
            raise WouldBlock(self.oldest_lack or "nothing waits")
        return message

    @property
    def oldest_lack(self) -> str:
        """What the oldest waiting chunk or barrier lacks, in words; empty: none waits."""
        if not self._waiting:
            return ""
        message, size_bytes = self._waiting[0].message, self._waiting[0].size_bytes
        return self.lack_of(message.kind, (message.rows,), size_bytes)

    def try_send(self) -> Message[T] | None:
        """As ``send_oldest``; None if no message waits, or the oldest may not leave yet."""
        if not self._waiting:
            return None
        message, size_bytes = self._waiting[0].message, self._waiting[0].size_bytes
        if not self._fits(self._waiting[0]) or not self._may_leave(message):
            return None
        self._waiting.popleft()
        if size_bytes is not None:
            self.byte_ledger.send(size_bytes)
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
        """Send the newest watermark.

        Raises:
            WouldBlock: no watermark is pending, messages offered before it still wait, or it may not leave yet.
        """
        if not self.can_send_watermark() or (message := self._watermark) is None:
            raise WouldBlock("no watermark may leave now")
        self._watermark = None
        self._leave(message)
        return message

    def take_sendable(self) -> list[Message[T]]:
        """All messages that may leave now, in order.

        A watermark goes as soon as it may, so that a steady stream of messages cannot hold it up.
        """
        ready: list[Message[T]] = []
        while True:
            if self._watermark is not None and self.can_send_watermark():
                ready.append(self.send_watermark())
            if (message := self.try_send()) is None:
                return ready
            ready.append(message)


class MessageSender(Outbound[T]):
    """The sender's end of a flow that counts messages, whatever their rows; its recorder gets one counter."""

    __slots__ = ()

    spends: ClassVar[int] = 1
    """How much of the counter a message takes that leaves."""

    @property
    @abstractmethod
    def room_messages(self) -> int:
        """Messages that may leave at once."""

    @property
    def room_rows(self) -> int:
        """Messages that may leave at once; each may have any number of rows."""
        return self.room_messages

    @abstractmethod
    def _send(self, rows: Sequence[int]) -> None:
        """The update: messages of these rows leave.  Its ``Spec:`` line also names what ``_tell`` reports."""

    def _counter(self) -> int:
        """What the recorder gets."""
        return self.room_messages

    def admits(self, rows: Sequence[int]) -> int:
        """How many of these chunks may leave: the guard of Send."""
        return min(len(rows), self.room_messages)

    def sendable(self) -> int:
        """How many waiting messages may leave now."""
        return min(len(self._waiting), self.room_messages)

    def _may_leave(self, message: Message[T]) -> bool:
        return self.room_messages > 0

    def _leave(self, message: Message[T]) -> None:
        if self._record is not None:
            # A watermark may be replaced while it waits: it is reported when it leaves.
            offers = (message.kind is Kind.WATERMARK,)
            record_run(self._record, _steps_of_sending(offers, self._counter(), self.spends))
        self._send((message.rows,))

    def _leave_at_once(self, rows: Sequence[int], total: int, least: int) -> int:
        if count := self.admits(rows):
            if self._record is not None:
                record_run(self._record, _steps_of_sending((True,) * count, self._counter(), self.spends))
            self._send(rows[:count])
        return count

    def _tell(self, verb: str, message: Message[T]) -> None:
        """Report Offer or Withdraw, which change no count."""
        if message.kind is not Kind.WATERMARK:
            self._note(verb)

    def _note(self, action: str, *arguments: int) -> None:
        if self._record is not None:
            self._record(action, arguments, (self._counter(),))


def _steps_of_sending(offers: Iterable[bool], counter: int, spends: int) -> Iterator[Step]:
    """Messages leave, one for each of ``offers``: is it reported as offered first?"""
    for is_offered_now in offers:
        if is_offered_now:
            yield "Offer", (), (counter,)
        counter -= spends
        yield "Send", (), (counter,)


ChunkRun: TypeAlias = tuple[Sequence[T], Sequence[int], int, int | None]
"""Consecutive chunks that arrived together: payloads, the rows of each, how many chunks at the front were removed, and
what all of them took of the byte window when they arrived; None: it does not count them."""

Entries: TypeAlias = Collection[ChunkRun[T] | Message[T]]
"""Entries of an inbox: runs, and single messages."""


class Inbound(ABC, Generic[T]):
    """The receiver's end: messages that have arrived, those that the application has taken, and those it has consumed.

    The flow bounds the inbox.  Chunks that arrive together are one entry of it, a run.  Taking a message (``take``) and
    consuming it (``consume_many``) are two steps: a flow gives room back only for consumed messages.

    The counts stay right even if finalizers run in the middle of a call: an entry leaves its queue before any object is
    made from it, and payloads are freed last.
    """

    __slots__ = (
        "_came_barriers",
        "_came_chunks",
        "_came_rows",
        "_held",
        "_here",
        "_pass_on",
        "_record",
        "_run_sizes",
        "_runs",
        "byte_ledger",
        "consumed_chunks",
        "consumed_rows",
        "inbox_rows",
        "parameters",
        "peak_inbox_rows",
        "untaken",
    )

    def __init__(self, parameters: Any, *, record: Recorder | None = None) -> None:
        """Start empty."""
        self.parameters = parameters
        # Plain tuples: the garbage collector would scan objects of a class again and again.
        self._runs: deque[ChunkRun[T] | Message[T]] = deque()
        # Taken and not consumed.
        self._held: deque[ChunkRun[T] | Message[T]] = deque()
        # Messages in both queues.
        self._here = 0
        self.untaken = 0
        """Messages that the application has not taken yet."""
        self._came_chunks = self._came_rows = self._came_barriers = 0
        self.consumed_chunks = self.consumed_rows = 0
        """Chunks and their rows that the application has consumed."""
        self.inbox_rows = self.peak_inbox_rows = 0
        """Rows that have arrived and are not consumed yet, and the most that ever were."""
        self._record = record
        self._pass_on: Callable[[], None] = _do_nothing
        self.byte_ledger = UnreturnedBytes(DEFAULT_WINDOW)
        """The bytes that are here."""
        # Of each run that is counted and not consumed: how many chunks have arrived up to its last, and its bytes.
        self._run_sizes: deque[tuple[int, int]] = deque()

    def limit_bytes(self, window: ByteWindow) -> UnreturnedBytes:
        """Count bytes by this window, before anything has arrived."""
        self.byte_ledger = UnreturnedBytes(window)
        return self.byte_ledger

    # What the flow decides.

    @property
    @abstractmethod
    def urgency(self) -> int:
        """How soon feedback should leave: one of ``Urgency``; 0: there is none."""

    @abstractmethod
    def take_feedback(self, *, residue: bool = True) -> AnyFeedback | None:
        """The feedback to send now; it counts as sent from here on.

        Args:
            residue: include feedback too small to be sent by itself, because the application has consumed every
                message that is here.
        """

    @property
    def belongs_to_group(self) -> bool:
        """Does it share something with other receivers, so that it cannot stop by itself?"""
        return False

    def when_touched(self, pass_on: Callable[[], None]) -> None:
        """Call this when feedback is due because of a call on another end of the group; it passes the feedback on."""
        self._pass_on = pass_on

    def pass_on(self) -> None:
        """Let the channel pass feedback on."""
        self._pass_on()

    def ask(self) -> bool:
        """Note that the application asks for a message while none is here; return whether feedback is due for that.

        A flow that sends nothing unasked uses this.
        """
        return False

    def aim_at(self, latency_seconds: float) -> None:
        """Adapt the window, so that what is here waits about this long; ``observe`` must be called from now on.

        Raises:
            InvalidParametersError: this flow cannot, or the latency is out of its range.
        """
        rule = f"must be None: only the window of permits adapts, and this is the flow {self.parameters.flow.name}"
        raise InvalidParametersError(name="target_latency_seconds", value=latency_seconds, rule=rule)

    @property
    def aimed_rows(self) -> int | None:
        """The rows that may be here and on the way as this end aims now: ``window_rows``, or less if that adapts."""
        window_rows: int | None = self.parameters.window_rows
        return window_rows

    def observe(self, at_seconds: float) -> None:
        """Tell the time after messages came, or were consumed."""

    @property
    def least_latency_seconds(self) -> float | None:
        """About how long rows wait at least, as measured, because the wanted latency is too short for the chunks.

        None: it is not, as far as is known, or no window adapts.
        """
        return None

    def on_announcement(self, announcement: AnyAnnouncement) -> None:
        """Take in what the sender tells beside its data.

        Raises:
            RemoteProtocolError: it breaks the flow's rules; nothing was changed.
        """
        raise UnexpectedFrameError(frame="an announcement", expected="none: this flow has no announcements")

    def unsettled(self) -> bool:
        """Does this end still owe feedback for consumed messages?"""
        return self.urgency > Urgency.NONE

    def gauges(self) -> dict[str, int]:
        """Numbers that only this flow has, by the names in ``Flow.gauge_help``."""
        return {}

    def _accept_chunks(self, rows: Sequence[int], total: int, least: int) -> None:
        """Guard and update of the arrival of chunks.

        Args:
            rows: of each chunk; at least one chunk.
            total: the sum of ``rows``.
            least: the smallest of ``rows``, at least 0.

        Raises:
            RemoteProtocolError: the peer may not have sent them; nothing was changed.
        """

    def _accept_marker(self, message: Message[T]) -> None:
        """Guard and update of the arrival of a barrier or a watermark; raises likewise."""

    def _consume(self, rows: Sequence[int], total: int, markers: Sequence[Message[T]], taken: Entries[T]) -> None:
        """The update for consumed messages, at least one: chunks, barriers and watermarks.

        Args:
            rows: of each chunk.
            total: the sum of ``rows``.
            markers: the barriers and watermarks.
            taken: all messages in order, for the recorder: ``messages_of`` makes messages of them.
        """

    def _note_delivered(self, rows: Sequence[int]) -> None:
        """Report to the recorder that chunks of these rows have arrived, as if one by one."""

    def _note_marker(self, message: Message[T]) -> None:
        """Report to the recorder that a barrier or a watermark has arrived."""

    # State.

    @property
    def totals(self) -> Totals:
        """Messages and rows that have arrived."""
        return Totals(self._came_chunks, self._came_rows, self._came_barriers)

    @property
    def inbox(self) -> tuple[Message[T], ...]:
        """Messages that have arrived and are not consumed, oldest first; those that were taken are at the front."""
        return tuple(messages_of([*self._held, *self._runs]))

    @property
    def runs(self) -> Sequence[ChunkRun[T] | Message[T]]:
        """The entries that the application has not taken yet, oldest first; read only."""
        return self._runs

    @property
    def unconsumed(self) -> int:
        """Messages that have arrived and are not consumed yet."""
        return self._here

    # Arriving.

    def deliver(self, message: Message[T], size_bytes: int | None = None) -> None:
        """Accept a message from the wire; ``size_bytes`` is what a chunk takes of the byte window.

        Raises:
            RemoteProtocolError: the flow does not allow the message; nothing was changed.
        """
        if message.kind is _CHUNK:
            self.deliver_many((message.payload,), (message.rows,), size_bytes)
            return
        self._accept_marker(message)
        self._came_barriers += message.kind is Kind.BARRIER
        self._here += 1
        self.untaken += 1
        self._runs.append(message)
        if self._record is not None:
            self._note_marker(message)

    def deliver_many(self, payloads: Sequence[T], rows: Sequence[int], size_bytes: int | None = None) -> None:
        """Accept chunks from the wire.

        Args:
            payloads: of each chunk, to be indexed and sliced; a list may change after this call, not during it.
            rows: of each chunk.
            size_bytes: what all of them take of the byte window, until the last one is consumed: they may be slices of
                one piece of memory.  None: the window does not count them.

        Raises:
            RemoteProtocolError: the flow does not allow all of them; nothing was changed.
        """
        if not rows:
            return
        total, least = sum(rows), min(rows)
        if least < 0:
            raise UnexpectedFrameError(frame=f"a chunk of {least} rows", expected="one of at least 0")
        # A list lets go of a payload that was taken, so that only the application holds it.
        run = (payloads.copy() if isinstance(payloads, list) else payloads, tuple(rows), 0, size_bytes)
        if size_bytes is not None:
            self.byte_ledger.require_room(size_bytes)
        self._accept_chunks(rows, total, least)
        self._came_chunks += len(rows)
        if size_bytes:
            self.byte_ledger.accept(size_bytes)
            self._run_sizes.append((self._came_chunks, size_bytes))
        self._came_rows += total
        self.inbox_rows += total
        if self.inbox_rows > self.peak_inbox_rows:
            self.peak_inbox_rows = self.inbox_rows
        self._here += len(rows)
        self.untaken += len(rows)
        self._runs.append(run)
        if self._record is not None:
            self._note_delivered(rows)

    # Taking.

    def hold(self, most: int) -> Entries[T]:
        """Take the oldest untaken messages, at most ``most``, in their runs."""
        taken = _cut_off(self._runs, most)
        self._held.extend(taken)
        self.untaken -= sum(1 if isinstance(entry, Message) else len(entry[1]) for entry in taken)
        return taken

    def take(self) -> Message[T]:
        """Take the oldest untaken message.

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
        """Take the oldest untaken messages, at most ``most``."""
        return messages_of(self.hold(most))

    def chunks_at_hand(self, most: int, most_rows: int) -> tuple[Sequence[T], Sequence[int], Sums]:
        """The oldest chunks before the first other message, at most ``most``, and the rows of each; they stay here.

        The third is what they take of the byte window here; a part of a run counts by its share of the rows.

        Empty while the application holds a message.  The number of chunks is at most ``most_rows`` divided by the rows
        of the first chunk, plus one.  Many chunks that are no list, such as the rows of one batch, are returned without
        others, and fewer of them uncut behind others.  Else they, and all that follow, would have to be joined again.
        """
        parts: list[Sequence[T]] = []
        rows_of_each: list[int] = []
        runs: list[tuple[int, int]] = []
        for entry in () if self._held else self._runs:
            if isinstance(entry, Message):
                break
            payloads, rows, start, size_bytes = entry
            if not parts:
                most = min(most, 1 + most_rows // max(1, rows[start]))
            left = most - len(rows_of_each)
            is_list = isinstance(payloads, list)
            is_whole = len(rows) - start >= _MANY_CHUNKS and not is_list
            if parts and (is_whole or left < (1 if is_list else len(rows))):
                break
            if start or left < len(rows):
                sums = RunSums(rows, ((len(rows), size_bytes or 0),))
                size_bytes = sums[start + left] - sums[start]
                payloads, rows = payloads[start : start + left], rows[start : start + left]
            parts.append(payloads)
            rows_of_each += rows
            runs.append((len(rows), size_bytes or 0))
            if is_whole:
                break
        chunks = parts[0] if len(parts) == 1 else [*chain.from_iterable(parts)]
        return chunks, rows_of_each, RunSums(rows_of_each, runs)

    def rows_at_hand(self, most: int, most_rows: int) -> Sequence[int]:
        """The rows of each chunk that ``chunks_at_hand`` would return if it put all runs together."""
        found: list[int] = []
        for entry in () if self._held else self._runs:
            if isinstance(entry, Message) or len(found) >= most:
                break
            found += entry[1][entry[2] :]
        return found[: min(most, 1 + most_rows // max(1, found[0]))] if found else found

    # Consuming.

    def consume_many(self, count: int) -> None:
        """Note that the application has consumed the ``count`` oldest messages that it took.

        ``take_feedback`` then returns the feedback for them.

        Raises:
            LocalProtocolError: the application holds fewer; nothing was changed.
        """
        if count > (taken := self._here - self.untaken):
            if not taken:
                raise LocalProtocolError("cannot consume: no message was taken")
            raise LocalProtocolError(f"cannot consume {count} messages: only {taken} were taken")
        self._note_consumed(_cut_off(self._held, count))

    def consume_oldest(self, most: int) -> Entries[T]:
        """Take and consume the oldest messages at once, at most ``most``, in their runs.

        Raises:
            LocalProtocolError: the application holds a message, which has to be consumed first; nothing was changed.
        """
        self.require_none_taken()
        taken = _cut_off(self._runs, most)
        self._note_consumed(taken)
        return taken

    def receive_many(self, most: int) -> list[Message[T]]:
        """The messages of ``consume_oldest``; raises likewise."""
        return messages_of(self.consume_oldest(most))

    def try_receive(self) -> Message[T] | None:
        """As ``receive_many``, for one message; None if no message is here."""
        self.require_none_taken()
        if not self._runs:
            return None
        message = self._pop_oldest()
        is_chunk, taken = message.kind is _CHUNK, (message,)
        self._count_consumed((message.rows,) if is_chunk else (), () if is_chunk else taken, taken)
        return message

    def require_none_taken(self) -> None:
        """Require that the application holds no message; raises as ``receive_many``."""
        if self._held:
            count = self._here - self.untaken
            raise LocalProtocolError(f"{count} messages were taken and not consumed: consume them first")

    def _pop_oldest(self) -> Message[T]:
        """Remove the oldest message: ``_cut_off`` for one message, the usual case, in half the time."""
        entry = self._runs.popleft()
        if isinstance(entry, Message):
            return entry
        payloads, rows, start, size_bytes = entry
        if start + 1 < len(rows):
            self._runs.appendleft((payloads, rows, start + 1, size_bytes))
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
        if self.untaken > self._here:  # messages passed by were never taken
            self.untaken = self._here
        self.consumed_chunks += len(rows)
        self.consumed_rows += total
        self.inbox_rows -= total
        while self._run_sizes and self._run_sizes[0][0] <= self.consumed_chunks:
            self.byte_ledger.consume(self._run_sizes.popleft()[1])
        self._consume(rows, total, markers, taken)

    def discard(self) -> None:
        """Consume all messages unused: the application needs no more, and both ends still count the same."""
        if taken := self._here - self.untaken:
            self.consume_many(taken)
        self.consume_oldest(self.untaken)

    def drop(self) -> None:
        """Drop the unconsumed messages: the stream is over."""
        self.inbox_rows = self._here = self.untaken = 0
        self._run_sizes.clear()
        self.byte_ledger.drop()
        for queue in self._held, self._runs:
            queue.clear()  # last, because freeing payloads may run any code


class MessageReceiver(Inbound[T]):
    """The receiver's end of a flow that counts messages, whatever their rows."""

    __slots__ = ()

    @abstractmethod
    def _accept(self, messages: int) -> None:
        """Guard and update of the arrival of messages; raises as ``_accept_chunks``."""

    def _consume_messages(self, messages: int) -> None:
        """The update for consumed messages."""

    @abstractmethod
    def _counters(self) -> tuple[int, ...]:
        """What the recorder gets: the messages here, and what else changes with them."""

    @abstractmethod
    def _counters_after(self, action: str, before: tuple[int, ...]) -> tuple[int, ...]:
        """The same after one message more: for the recorder, which reports messages one by one."""

    def _accept_chunks(self, rows: Sequence[int], total: int, least: int) -> None:
        self._accept_many(len(rows))

    def _accept_marker(self, message: Message[T]) -> None:
        self._accept_many(1)

    def _accept_many(self, messages: int) -> None:
        before = () if self._record is None else self._counters()
        self._accept(messages)
        if self._record is not None:
            record_run(self._record, self._steps("Deliver", messages, before))

    def _consume(self, rows: Sequence[int], total: int, markers: Sequence[Message[T]], taken: Entries[T]) -> None:
        messages = len(rows) + len(markers)
        if self._record is not None:
            here, *others = self._counters()
            record_run(self._record, self._steps("Consume", messages, (here + messages, *others)))
        self._consume_messages(messages)

    def _steps(self, action: str, messages: int, counters: tuple[int, ...]) -> Iterator[Step]:
        for _ in range(messages):
            counters = self._counters_after(action, counters)
            yield action, (), counters


def _cut_off(queue: deque[ChunkRun[T] | Message[T]], most: int) -> list[ChunkRun[T] | Message[T]]:
    """Remove the oldest messages from a queue, at most ``most``: whole runs, and the first chunks of one more."""
    taken: list[ChunkRun[T] | Message[T]] = []
    while most > 0 and queue:
        entry = queue.popleft()
        if isinstance(entry, Message):
            most -= 1
        else:
            payloads, rows, start, size_bytes = entry
            stop = start + most
            most -= len(rows) - start
            if most < 0:
                queue.appendleft((payloads, rows, stop, size_bytes))
            if start or most < 0:
                entry = (payloads[start:stop], rows[start:stop], 0, None)
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
            payloads, rows, start, _ = entry
            if len(rows) == 1:
                messages.append(chunk_of(payloads[0], rows[0]))
            else:
                messages += map(chunk_of, payloads[start:], rows[start:])
    return messages


# Flows by name.

_FLOWS: dict[str, Flow] = {}


def register(flow: Flow, parameters: type[Parameters]) -> None:
    """Register a flow under its name and its parameters' class.

    Raises:
        InvalidParametersError: another flow has this name.
    """
    if type(_FLOWS.setdefault(flow.name, flow)) is not type(flow):
        raise InvalidParametersError(name="flow", value=flow.name, rule="is the name of another flow")
    parameters.flow, flow.parameters, flow.wishes = flow, parameters, wishes_of(parameters)


def registered() -> Mapping[str, Flow]:
    """The flows whose modules have been imported, by their names."""
    return _FLOWS
