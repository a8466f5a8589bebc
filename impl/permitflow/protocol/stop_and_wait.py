"""Stop and wait: one message is out at a time, proved in spec/stop_and_wait/StopAndWait.tla.  The textbook example.

Chunks, barriers and watermarks are all messages.  A message leaves if none is out.  Once the application has consumed
it, the receiver answers, and the next message may leave.  docs/guides/adding-a-protocol.md explains this file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from permitflow.errors import UnexpectedFrameError
from permitflow.protocol import flow
from permitflow.protocol.flow import Entries, Flow, Haste, Inbound, Outbound
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.recording import ActionTable, Recorder

__all__ = ["STOP_AND_WAIT", "Answer", "StopAndWait", "StopAndWaitFlow", "StopAndWaitReceiver", "StopAndWaitSender"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StopAndWait(flow.Parameters):
    """Parameters of a stop-and-wait channel: there is nothing to choose."""


class Wishes(NamedTuple):
    """What an end may ask for: nothing."""


class Answer(NamedTuple):
    """The message that is out was consumed."""


class StopAndWaitSender(Outbound[T]):
    """Lets a message leave if none is out.

    Spec: StopAndWait, the variables waiting and free.
    """

    __slots__ = ("_answers", "_free", "_peak_rows", "_rows_out", "_sent_messages")

    def __init__(self, parameters: StopAndWait, *, record: Recorder | None = None) -> None:
        """Nothing is out."""
        super().__init__(parameters, record=record)
        self._free = 1
        self._sent_messages = self._answers = self._rows_out = self._peak_rows = 0

    @property
    def room_rows(self) -> int:
        """A message may have any number of rows; there is room for one of them or for none."""
        return self._free

    @property
    def rows_held(self) -> int:
        """Rows of the message that is out."""
        return self._rows_out

    @property
    def peak_rows_held(self) -> int:
        """Rows of the largest message so far."""
        return self._peak_rows

    @property
    def sent_mark(self) -> tuple[int]:
        """Messages that have left."""
        return (self._sent_messages,)

    @property
    def heard_mark(self) -> tuple[int]:
        """Messages that were answered."""
        return (self._answers,)

    def admits(self, rows: Sequence[int]) -> int:
        """One chunk, if nothing is out: the guard of Send."""
        return min(len(rows), self._free)

    def lack(self, kind: Kind, rows: Sequence[int] = ()) -> str:
        """A message is out."""
        return f"the {kind.value} has to wait until the message that is out is answered"

    def on_feedback(self, feedback: Answer) -> None:
        """Take in an answer.

        Raises:
            UnexpectedFrameError: nothing is out.

        Spec: Answer.
        """
        if self._free:
            raise UnexpectedFrameError(frame="an answer", expected="no answer: no message is out")
        self._free = 1
        self._rows_out = 0
        self._answers += 1
        if self._record is not None:
            self._record("Answer", (), (self._free,))

    def unsettled(self) -> tuple[str, int] | None:
        """The message that is out."""
        return None if self._free else ("unanswered messages", 1)

    def _may_leave(self, message: Message[T]) -> bool:
        return self._free > 0

    def _leave(self, message: Message[T]) -> None:
        if message.kind is Kind.WATERMARK:
            self._record_count("Offer")
        self._send(message.rows)

    def _leave_at_once(self, rows: Sequence[int], total: int, least: int) -> int:
        if not self._free:
            return 0
        self._record_count("Offer")
        self._send(rows[0])
        return 1

    def _send(self, rows: int) -> None:
        """The update.

        Spec: Send.
        """
        self._free = 0
        self._rows_out = rows
        self._peak_rows = max(self._peak_rows, rows)
        self._sent_messages += 1
        self._record_count("Send")

    def _tell(self, verb: str, message: Message[T]) -> None:
        """Offering and withdrawing change no count.

        Spec: Offer, Withdraw.
        """
        # A watermark may be replaced while it waits: report it when it leaves.
        if message.kind is not Kind.WATERMARK:
            self._record_count(verb)

    def _record_count(self, action: str) -> None:
        if self._record is not None:
            self._record(action, (), (self._free,))


class StopAndWaitReceiver(Inbound[T]):
    """Answers each consumed message.

    Spec: StopAndWait, the variable inbox.
    """

    __slots__ = ("_is_answer_due", "_is_unanswered")

    def __init__(self, parameters: StopAndWait, *, record: Recorder | None = None) -> None:
        """Nothing has arrived."""
        super().__init__(parameters, record=record)
        self._is_unanswered = self._is_answer_due = False

    @property
    def haste(self) -> int:
        """The answer to a consumed message leaves at once: the sender waits for it."""
        return Haste.NOW if self._is_answer_due else Haste.NONE

    def take_feedback(self, *, residue: bool = True) -> Answer | None:
        """The answer to a consumed message; from here on the next message may arrive."""
        if not self._is_answer_due:
            return None
        self._is_answer_due = self._is_unanswered = False
        return Answer()

    def _accept_chunks(self, rows: Sequence[int], total: int, least: int) -> None:
        self._accept(len(rows))

    def _accept_marker(self, message: Message[T]) -> None:
        self._accept(1)

    def _accept(self, messages: int) -> None:
        """The guard and the update.

        Spec: Deliver.
        """
        if messages > 1 or self._is_unanswered:
            raise UnexpectedFrameError(frame="a message", expected="none before the last one is answered")
        self._is_unanswered = True

    def _note_delivered(self, rows: Sequence[int]) -> None:
        self._record_count("Deliver")

    def _note_marker(self, message: Message[T]) -> None:
        self._record_count("Deliver")

    def _consume(self, rows: Sequence[int], total: int, markers: Sequence[Message[T]], taken: Entries[T]) -> None:
        """The update; there is never more than one message.

        Spec: Consume.
        """
        self._is_answer_due = True
        self._record_count("Consume")

    def _record_count(self, action: str) -> None:
        if self._record is not None:
            self._record(action, (), (self._here,))


class StopAndWaitFlow(Flow):
    """The flow of ``StopAndWait``."""

    wire: ClassVar[str] = "permitflow.wire.v1.stop_and_wait_pb2"
    wishes: ClassVar[type[tuple[Any, ...]]] = Wishes
    feedback: ClassVar[type[tuple[Any, ...]]] = Answer
    table: ClassVar[ActionTable] = ActionTable(
        "stop-and-wait",
        {
            "sender": dict.fromkeys(("Offer", "Withdraw", "Send", "Answer"), ()),
            "receiver": dict.fromkeys(("Deliver", "Consume"), ()),
        },
        {"sender": ("free",), "receiver": ("inbox_messages",)},
    )

    outbound: ClassVar[type[Outbound[Any]]] = StopAndWaitSender
    inbound: ClassVar[type[Inbound[Any]]] = StopAndWaitReceiver

    def complete(self, wishes: Wishes) -> StopAndWait:
        """There is nothing to choose."""
        return StopAndWait()


STOP_AND_WAIT = StopAndWaitFlow()
flow.register(STOP_AND_WAIT, StopAndWait)
