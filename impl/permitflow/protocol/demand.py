"""Demand: the receiver requests messages, and the sender sends what was requested, proved in spec/demand/Demand.tla.

Chunks, barriers and watermarks are all messages.  ``size`` of them may be out.  The receiver counts what its
application has consumed, and requests ``batch`` more at a time.  One rule, many schedules:

    Demand(size=1)              stop-and-wait
    Demand(size=4, batch=4)     full batches: the sender stops until all four are consumed
    Demand(size=4)              overlapping half batches, as in Akka Streams: 4, then 2 after every 2
    Demand(size=4, initial=0)   pull: nothing is sent before the application asks for a message

docs/protocols/demand.md compares them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from permitflow.errors import InvalidParametersError, OverspendError, PermitOverrunError, UnexpectedFrameError
from permitflow.protocol import flow
from permitflow.protocol.flow import Entries, Flow, Haste, Inbound, Outbound
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.recording import ActionTable, Recorder

__all__ = ["DEMAND", "Demand", "DemandFlow", "DemandReceiver", "DemandSender", "Request", "StatedDemand"]

T = TypeVar("T")

# Akka Streams' max-input-buffer-size.
DEFAULT_SIZE = 16
AS_MANY_AS_POSSIBLE = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand(flow.Parameters):
    """Parameters of a channel with demand, in messages.

    Live for every sequence of messages because ``batch <= size``.

    Spec: Size, Batch, Initial.

    Raises:
        InvalidParametersError: a number is out of its range.
    """

    size: int = DEFAULT_SIZE
    """Messages that may be out at once."""
    batch: int = 0
    """The receiver requests more once its application has consumed this many; 0: half of ``size``."""
    initial: int = AS_MANY_AS_POSSIBLE
    """Messages that may be sent before any request; the others are requested when the application first asks for a
    message that is not here.  0: the sender waits until then.  -1: ``size``."""

    def __post_init__(self) -> None:
        """Fill in the defaults, then refuse numbers that cannot work."""
        for name in ("size", "batch", "initial"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise InvalidParametersError(name=name, value=value, rule="must be a whole number")
        if self.size < 1:
            raise InvalidParametersError(name="size", value=self.size, rule="must be at least 1")
        if self.batch == 0:
            object.__setattr__(self, "batch", max(1, self.size // 2))
        if self.initial == AS_MANY_AS_POSSIBLE:
            object.__setattr__(self, "initial", self.size)
        for name, least in (("batch", 1), ("initial", 0)):
            if not least <= getattr(self, name) <= self.size:
                rule = f"must be in {least} .. size = {self.size}"
                if name == "batch":
                    rule += ", else no batch is ever complete"
                raise InvalidParametersError(name=name, value=getattr(self, name), rule=rule)


class StatedDemand(NamedTuple):
    """Parameters as one end states them: unchecked; None: the end states nothing."""

    size: int | None = None
    batch: int | None = None
    initial: int | None = None


class Request(NamedTuple):
    """So many messages may come, besides those requested before."""

    messages: int = 0


class DemandSender(Outbound[T]):
    """Sends what was requested.

    Spec: Demand, the variables waiting and credit.
    """

    __slots__ = ("_credit",)

    parameters: Demand

    def __init__(self, parameters: Demand, *, record: Recorder | None = None) -> None:
        """Start with the initial credit."""
        super().__init__(parameters, record=record)
        self._credit = parameters.initial

    @property
    def credit(self) -> int:
        """Messages that may leave at once."""
        return self._credit

    @property
    def room_rows(self) -> int:
        """Messages that may leave at once; each may have any number of rows."""
        return self._credit

    def gauges(self) -> dict[str, int]:
        """By the names in ``Flow.gauge_help``."""
        return {"messages_requested": self._credit}

    def admits(self, rows: Sequence[int]) -> int:
        """As many chunks as were requested: the guard of Send."""
        return min(len(rows), self._credit)

    def lack(self, kind: Kind, rows: Sequence[int] = ()) -> str:
        """Nobody has requested it."""
        return f"the {kind.value} has to wait until the receiver requests more"

    def on_feedback(self, feedback: Request) -> None:
        """Take in a request.

        Raises:
            UnexpectedFrameError: it is for no message.
            PermitOverrunError: more would be out than may be; nothing was changed.

        Spec: Request.
        """
        count, most = feedback.messages, self.parameters.size - self._credit
        if count < 1:
            raise UnexpectedFrameError(frame=f"a request for {count} messages", expected="one for at least 1")
        if count > most:
            raise PermitOverrunError(permit_class="messages", returned=count, outstanding=most)
        self._credit += count
        self._record_count("Request", count)

    def sendable(self) -> int:
        """How many waiting messages may leave now."""
        return min(len(self._waiting), self._credit)

    def _may_leave(self, message: Message[T]) -> bool:
        return self._credit > 0

    def _leave(self, message: Message[T]) -> None:
        self._send(1)
        if self._record is not None:
            if message.kind is Kind.WATERMARK:
                self._record_count("Offer", credit=self._credit + 1)
            self._record_count("Send")

    def _leave_at_once(self, rows: Sequence[int], total: int, least: int) -> int:
        count = min(len(rows), self._credit)
        self._send(count)
        if self._record is not None:
            self._record_sent(count)
        return count

    def _send(self, messages: int) -> None:
        """The update.

        Spec: Send.
        """
        self._credit -= messages

    def _tell(self, verb: str, message: Message[T]) -> None:
        """Offering and withdrawing change no count.

        Spec: Offer, Withdraw.
        """
        # A watermark may be replaced while it waits: report it when it leaves.
        if message.kind is not Kind.WATERMARK:
            self._record_count(verb)

    def _record_sent(self, messages: int) -> None:
        """Report messages that left together as if they had left one by one."""
        for credit in range(self._credit + messages, self._credit, -1):
            self._record_count("Offer", credit=credit)
            self._record_count("Send", credit=credit - 1)

    def _record_count(self, action: str, *arguments: int, credit: int | None = None) -> None:
        if self._record is not None:
            self._record(action, arguments, (self._credit if credit is None else credit,))


class DemandReceiver(Inbound[T]):
    """Requests a batch more whenever one was consumed; and at first, when the application asks, what it has withheld.

    Spec: Demand, the variables inbox, unrequested and withheld.
    """

    __slots__ = ("_due", "_requested", "_unrequested", "_withheld")

    parameters: Demand

    def __init__(self, parameters: Demand, *, record: Recorder | None = None) -> None:
        """Nothing has arrived."""
        super().__init__(parameters, record=record)
        self._requested = parameters.initial  # and not arrived yet
        self._withheld = parameters.size - parameters.initial
        self._unrequested = self._due = 0

    @property
    def unrequested(self) -> int:
        """Consumed messages for which no more were requested yet."""
        return self._unrequested

    @property
    def withheld(self) -> int:
        """Messages that are requested when the application first asks."""
        return self._withheld

    def gauges(self) -> dict[str, int]:
        """By the names in ``Flow.gauge_help``."""
        return {"messages_unrequested": self._unrequested, "messages_withheld": self._withheld}

    def ask(self) -> bool:
        """Request what was withheld.

        Spec: Ask.
        """
        if not self._withheld:
            return False
        self._due += self._withheld
        self._withheld = 0
        self._record_count("Ask")
        return True

    @property
    def haste(self) -> int:
        """A request leaves at once: the sender may wait for it."""
        return Haste.NOW if self._due else Haste.NONE

    def take_feedback(self, *, residue: bool = True) -> Request | None:
        """The number to request now; so many more messages may arrive from here on."""
        if not self._due:
            return None
        due, self._due = self._due, 0
        self._requested += due
        return Request(due)

    def _accept_chunks(self, rows: Sequence[int], total: int, least: int) -> None:
        self._accept(len(rows))

    def _accept_marker(self, message: Message[T]) -> None:
        self._accept(1)

    def _accept(self, messages: int) -> None:
        """The guard and the update: no more arrive than were requested.

        Spec: Deliver.
        """
        if messages > self._requested:
            raise OverspendError(permit_class="requested", cost=messages, available=self._requested)
        self._requested -= messages

    def _note_delivered(self, rows: Sequence[int]) -> None:
        for here in range(self._here - len(rows) + 1, self._here + 1):
            self._record_count("Deliver", here=here)

    def _note_marker(self, message: Message[T]) -> None:
        self._record_count("Deliver")

    def _consume(self, rows: Sequence[int], total: int, markers: Sequence[Message[T]], taken: Entries[T]) -> None:
        """The update: whole batches are requested again, as if messages had been consumed one by one.

        Spec: Consume.
        """
        count, before, batch = len(rows) + len(markers), self._unrequested, self.parameters.batch
        batches, self._unrequested = divmod(before + count, batch)
        self._due += batches * batch
        if self._record is not None:
            for consumed in range(1, count + 1):
                self._record_count(
                    "Consume", here=self._here + count - consumed, unrequested=(before + consumed) % batch
                )

    def _record_count(self, action: str, *, here: int | None = None, unrequested: int | None = None) -> None:
        if self._record is not None:
            here = self._here if here is None else here
            unrequested = self._unrequested if unrequested is None else unrequested
            self._record(action, (), (here, unrequested, self._withheld))


class DemandFlow(Flow):
    """The flow of ``Demand``: both ends count with the smaller numbers."""

    wire: ClassVar[str] = "permitflow.wire.v1.demand_pb2"
    wishes: ClassVar[type[tuple[Any, ...]]] = StatedDemand
    feedback: ClassVar[type[tuple[Any, ...]]] = Request
    table: ClassVar[ActionTable] = ActionTable(
        "demand",
        {
            "sender": {**dict.fromkeys(("Offer", "Withdraw", "Send"), ()), "Request": ("messages",)},
            "receiver": dict.fromkeys(("Deliver", "Consume", "Ask"), ()),
        },
        {"sender": ("credit",), "receiver": ("inbox_messages", "unrequested", "withheld")},
    )
    gauge_help: ClassVar[Mapping[str, str]] = {
        "messages_requested": "Messages that the sender may send at once, because they were requested.",
        "messages_unrequested": "Consumed messages for which the receiver has not requested more yet.",
        "messages_withheld": "Messages that the receiver requests when its application first asks.",
    }

    outbound: ClassVar[type[Outbound[Any]]] = DemandSender
    inbound: ClassVar[type[Inbound[Any]]] = DemandReceiver

    def complete(self, wishes: StatedDemand) -> Demand:
        """Parameters from stated ones; the numbers that stand for defaults cannot be stated."""
        stated = {name: value for name, value in wishes._asdict().items() if value is not None}
        for name, least in (("batch", 1), ("initial", 0)):
            if name in stated and stated[name] < least:
                raise InvalidParametersError(name=name, value=stated[name], rule=f"must be at least {least}")
        return Demand(**stated)

    def agree(self, own: Demand, wanted: StatedDemand) -> Demand:
        """The smaller number wins; if the client states a size, its other numbers follow from that.

        Raises:
            InvalidParametersError: the client's numbers cannot work.
        """
        ours = self.state(own) if wanted.size is None else StatedDemand()
        stated = {name: value for name, value in wanted._asdict().items() if value is not None}
        theirs = self.complete(ours._replace(**stated))
        return Demand(**{name: min(getattr(own, name), getattr(theirs, name)) for name in StatedDemand._fields})


DEMAND = DemandFlow()
flow.register(DEMAND, Demand)
