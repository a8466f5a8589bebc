"""Demand: the receiver requests messages, and the sender sends what was requested, proved in spec/demand/Demand.tla.

Chunks, barriers and watermarks are all messages.  ``size`` of them may be out.  The receiver counts what its
application has consumed, and requests ``batch`` more at a time.  One rule, many schedules:

    Demand(size=1)              stop-and-wait
    Demand(size=4, batch=4)     full batches: the sender stops until all four are consumed
    Demand(size=4)              overlapping half batches, as in Akka Streams: 4, then 2 after every 2
    Demand(size=4, initial=0)   pull: nothing is sent before the application asks for a message

docs/protocols/demand.md compares them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from permitflow.errors import InvalidParametersError, PermitOverrunError, UnexpectedFrameError
from permitflow.flows import seam
from permitflow.flows.credit import Credit
from permitflow.flows.messages import Kind
from permitflow.flows.recording import ActionTable, Recorder
from permitflow.flows.seam import Flow, Inbound, MessageReceiver, MessageSender, Outbound, Urgency, require_whole

T = TypeVar("T")

# Akka Streams' max-input-buffer-size.
DEFAULT_SIZE = 16
AS_MANY_AS_POSSIBLE = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand(seam.Parameters):
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
        require_whole(self, {"size": 1, "batch": 0, "initial": AS_MANY_AS_POSSIBLE})
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


class Request(NamedTuple):
    """This many messages may come, besides those requested before."""

    messages: int = 0


class DemandSender(MessageSender[T]):
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
    def room_messages(self) -> int:
        """Messages that may leave at once: as many as were requested."""
        return self._credit

    credit = room_messages

    def gauges(self) -> dict[str, int]:
        """Its figures, by the names in ``Flow.gauge_help``."""
        return {"messages_requested": self._credit}

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
        self._note("Request", count)

    def _send(self, rows: Sequence[int]) -> None:
        """The update.

        Spec: Offer, Withdraw, Send.
        """
        self._credit -= len(rows)


class DemandReceiver(MessageReceiver[T]):
    """Requests a batch more whenever one was consumed; and at first, when the application asks, what it has withheld.

    Spec: Demand, the variables inbox, unrequested and withheld.
    """

    __slots__ = ("_credit",)

    parameters: Demand

    def __init__(self, parameters: Demand, *, record: Recorder | None = None) -> None:
        """Nothing has arrived."""
        super().__init__(parameters, record=record)
        self._credit = Credit("messages", parameters.size, batch=parameters.batch, initial=parameters.initial)

    @property
    def unrequested(self) -> int:
        """Consumed messages for which no more were requested yet."""
        return self._credit.collected

    @property
    def withheld(self) -> int:
        """Messages that are requested when the application first asks."""
        return self._credit.withheld

    def gauges(self) -> dict[str, int]:
        """Its figures, by the names in ``Flow.gauge_help``."""
        return {"messages_unrequested": self.unrequested, "messages_withheld": self.withheld}

    def ask(self) -> bool:
        """Request what was withheld.

        Spec: RequestWithheld.
        """
        if not self._credit.withheld:
            return False
        self._credit.release()
        if self._record is not None:
            self._record("RequestWithheld", (), self._counters())
        return True

    @property
    def urgency(self) -> int:
        """A request leaves at once: the sender may wait for it."""
        return Urgency.NOW if self._credit.due else Urgency.NONE

    def take_feedback(self, *, residue: bool = True) -> Request | None:
        """The number to request now; this many more messages may arrive from here on."""
        return Request(self._credit.take_due()) if self._credit.due else None

    def _accept(self, messages: int) -> None:
        """No more arrive than were requested.

        Spec: Deliver.
        """
        self._credit.accept(messages)

    def _consume_messages(self, messages: int) -> None:
        """The update: whole batches are requested again, as if messages had been consumed one by one.

        Spec: Consume.
        """
        self._credit.consume(messages)

    def _counters(self) -> tuple[int, ...]:
        return self._here, self._credit.collected, self._credit.withheld

    def _counters_after(self, action: str, before: tuple[int, ...]) -> tuple[int, ...]:
        here, unrequested, withheld = before
        if action == "Deliver":
            return here + 1, unrequested, withheld
        return here - 1, (unrequested + 1) % self.parameters.batch, withheld


class DemandFlow(Flow):
    """The flow of ``Demand``: both ends count with the smaller numbers."""

    feedback: ClassVar[type[tuple[Any, ...]]] = Request
    table: ClassVar[ActionTable] = ActionTable(
        "demand",
        {
            "sender": {**dict.fromkeys(("Offer", "Withdraw", "Send"), ()), "Request": ("messages",)},
            "receiver": dict.fromkeys(("Deliver", "Consume", "RequestWithheld"), ()),
        },
        {"sender": ("credit",), "receiver": ("inbox_messages", "unrequested", "withheld")},
    )
    gauge_help: ClassVar[Mapping[str, str]] = {
        "messages_requested": "Messages that the sender may send at once, because they were requested.",
        "messages_unrequested": "Consumed messages for which the receiver has not requested more yet.",
        "messages_withheld": "Messages that the receiver requests when its application first asks.",
    }
    least_stated: ClassVar[Mapping[str, int]] = {"batch": 1, "initial": 0}
    leading: ClassVar[Collection[str]] = ("size",)
    following: ClassVar[Collection[str]] = ("batch", "initial")
    outbound: ClassVar[type[Outbound[Any]]] = DemandSender
    inbound: ClassVar[type[Inbound[Any]]] = DemandReceiver

    @property
    def wire(self) -> Any:
        """Its messages in protobuf."""
        from permitflow.wire.v1 import demand_pb2

        return demand_pb2


DEMAND = DemandFlow()
seam.register(DEMAND, Demand)
