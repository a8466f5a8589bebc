"""Stop and wait: one message is out at a time, proved in spec/stop_and_wait/StopAndWait.tla.  The textbook example.

Chunks, barriers and watermarks are all messages.  A message leaves if none is out.  Once the application has consumed
it, the receiver answers, and the next message may leave.  docs/guides/adding-a-protocol.md explains this file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from permitflow.errors import UnexpectedFrameError
from permitflow.flows import seam
from permitflow.flows.messages import Kind, Message
from permitflow.flows.recording import ActionTable, Recorder
from permitflow.flows.seam import Entries, Flow, Haste, Inbound, MessageReceiver, MessageSender, Outbound

__all__ = ["STOP_AND_WAIT", "Answer", "StopAndWait", "StopAndWaitFlow", "StopAndWaitReceiver", "StopAndWaitSender"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StopAndWait(seam.Parameters):
    """Parameters of a stop-and-wait channel: there is nothing to choose."""


class Wishes(NamedTuple):
    """What an end may ask for: nothing."""


class Answer(NamedTuple):
    """The message that is out was consumed."""


class StopAndWaitSender(MessageSender[T]):
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
    def room_messages(self) -> int:
        """One message, or none."""
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
        self._record_count("Answer")

    def unsettled(self) -> tuple[str, int] | None:
        """The message that is out."""
        return None if self._free else ("unanswered messages", 1)

    def _send(self, rows: Sequence[int]) -> None:
        """The update: a message is out.

        Spec: Offer, Withdraw, Send.
        """
        self._free = 0
        (self._rows_out,) = rows
        self._peak_rows = max(self._peak_rows, self._rows_out)
        self._sent_messages += 1


class StopAndWaitReceiver(MessageReceiver[T]):
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

    def _accept(self, messages: int) -> None:
        """No message may come before the last one is answered.

        Spec: Deliver.
        """
        if messages > 1 or self._is_unanswered:
            raise UnexpectedFrameError(frame="a message", expected="none before the last one is answered")
        self._is_unanswered = True

    def _consume(self, rows: Sequence[int], total: int, markers: Sequence[Message[T]], taken: Entries[T]) -> None:
        """The update; there is never more than one message.

        Spec: Consume.
        """
        self._is_answer_due = True
        self._record_consumed(1)

    def _counters(self, here: int, *, came: int = 0, gone: int = 0) -> tuple[int, ...]:
        return (here,)


class StopAndWaitFlow(Flow):
    """The flow of ``StopAndWait``."""

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

    @property
    def wire(self) -> Any:
        """Its messages in protobuf."""
        from permitflow.wire.v1 import stop_and_wait_pb2

        return stop_and_wait_pb2


STOP_AND_WAIT = StopAndWaitFlow()
seam.register(STOP_AND_WAIT, StopAndWait)
