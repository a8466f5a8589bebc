"""The two ends of a flow that counts messages, whatever their rows: what all such flows have in common."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any, ClassVar

from permitflow.errors import UnexpectedFrameError
from permitflow.flows import credit, seam
from permitflow.flows.messages import Kind, Message, Offered
from permitflow_model.kernel.replay import StepByStep, World
from permitflow_proofs.code.refinement import EMPTY, Call, Case, Outcome, begins, is_larger, put
from permitflow_proofs.code.stand_ins import Counted, Inbox, Line
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import assume, natural, truth

MODULES = (seam, credit)
ITEM = "item"


class _Steps(StepByStep[Any, Any]):
    def allowed(self, world: World[Any]) -> list[str]:
        """Not told: nobody reads it on a path of a proof, and arguments in a symbolic range cannot be listed."""
        return []


class MessageCase(Case[Any, Any]):
    """Any state of an end."""

    subject: Subject[Any, Any]
    end: type[Any]
    own_modules: Sequence[ModuleType]

    def __init__(self) -> None:
        """Any state at all."""
        state, made = self.any_case()
        self._messages: dict[object, Message[Any]] = {}
        self.history = {name: natural(name.strip("_")) for name in self.told_of_no_state}
        super().__init__(state, made)

    told_of_no_state: ClassVar[Sequence[str]] = ()
    """Fields that count, and that the model does not know."""

    @property
    def modules(self) -> Sequence[ModuleType]:  # type: ignore[override]  # read only, here
        """The flow's own, and what it is made of."""
        return (*MODULES, *self.own_modules)

    def any_case(self) -> tuple[Any, Any]:
        """The state and the parameters."""
        return self.subject.any_case()

    @abstractmethod
    def numbers(self) -> Any:
        """The parameters as the code keeps them."""

    @abstractmethod
    def counts(self, state: Any) -> Mapping[str, Any]:
        """What the flow's own fields hold."""

    def replay(self) -> StepByStep[Any, Any]:
        """Each event is the step of its name."""
        return _Steps(self.subject.system, self.parameters)

    def message(self, item: object) -> Message[Any]:
        """A chunk of any rows, or a barrier; the same one for the same item."""
        if item not in self._messages:
            is_chunk = bool(truth("is_chunk"))
            rows = natural("rows") if is_chunk else 0
            self._messages[item] = Message(Kind.CHUNK if is_chunk else Kind.BARRIER, item, rows)
        return self._messages[item]


class SenderOfMessages(MessageCase):
    """Any state of a sender."""

    has_watermark: ClassVar[bool] = False
    """Is one pending?"""
    is_idle: ClassVar[bool] = False
    """Does nothing wait?"""
    newest: ClassVar[Sequence[Offered[Any]]] = ()
    """The messages that wait last, as far as they are known."""

    told_of_no_state = ("_sent_chunks", "_sent_rows", "_sent_barriers", "_watermark_after")

    def __init__(self) -> None:
        """The model knows nothing of a watermark until it leaves."""
        self.watermark = Message(Kind.WATERMARK, "watermark") if self.has_watermark else None
        super().__init__()
        self.batch = [natural("first_rows"), natural("second_rows")]
        if self.is_idle:
            assume(self.waiting(self.state) <= 0)
        assume(self.waiting(self.state) >= len(self.newest))

    @abstractmethod
    def waiting(self, state: Any) -> int:
        """How many wait."""

    def any_case(self) -> tuple[Any, Any]:
        """There is room for one more that waits."""
        state, made = super().any_case()
        assume(self.waiting(state) < made.waiters)
        return state, made

    def stands_for(self, state: Any) -> Mapping[str, Any]:
        """The line, and the flow's own counts."""
        return {"_waiting": Counted(self.waiting(state)), **self.counts(state)}

    def make(self, record: Callable[..., None] | None) -> Any:
        """A sender with these counts."""
        line = Line(Counted(self.waiting(self.state)), self._shown, lambda _: ITEM, self.newest)
        told = {**self.history, **self.counts(self.state), "_waiting": line, "_watermark": self.watermark}
        return put(self.end(self.numbers(), record=record), told)

    def _shown(self, item: object) -> Offered[Any]:
        return Offered(self.message(item))

    def can_leave(self) -> bool:
        """May a message leave, if there is one?"""
        after = self.subject.system.perform("Offer", self.state, self.parameters)
        return self.subject.system.is_enabled("Send", after, self.parameters)


def _sent(case: SenderOfMessages, _after: Any, outcome: Outcome) -> Mapping[str, Any]:
    message, before = outcome.result, case.history
    if message is None:
        return {}
    if message.kind is Kind.WATERMARK:
        return {"_watermark": None}
    after = before["_watermark_after"]
    passed = {"_watermark_after": after - (after > 0) * 1}
    if message.kind is Kind.CHUNK:
        counted = {"_sent_chunks": before["_sent_chunks"] + 1, "_sent_rows": before["_sent_rows"] + message.rows}
        return {**passed, **counted}
    return {**passed, "_sent_barriers": before["_sent_barriers"] + 1}


def _is_oldest(_case: SenderOfMessages, _after: Any, outcome: Outcome) -> bool:
    return outcome.result is None or outcome.result.payload in (("oldest", 0), "watermark")


def _may_send(case: SenderOfMessages) -> bool:
    return case.subject.system.is_enabled("Send", case.state, case.parameters)


def _batch_sent(case: SenderOfMessages, _after: Any, outcome: Outcome) -> Mapping[str, Any]:
    count, before = outcome.result, case.history
    return {
        "_sent_chunks": before["_sent_chunks"] + count,
        "_sent_rows": before["_sent_rows"] + sum(case.batch[:count]),
    }


def _as_many_as_may(case: SenderOfMessages, after: Any, outcome: Outcome) -> bool:
    system, count = case.subject.system, outcome.result
    if len(case.events) != 2 * count:
        return False
    if count == len(case.batch):
        return True
    return not system.is_enabled("Send", system.perform("Offer", after, case.parameters), case.parameters)


def begins_empty(make: type[MessageCase]) -> SymbolicObligation:
    """As the model does, with nothing at hand and nothing counted."""
    return begins(
        make,
        lambda case: case.end(case.numbers()),
        make.subject.system.initial,
        lambda case: {**dict.fromkeys(case.history, 0), "_waiting" if "_sent_rows" in case.history else "_runs": EMPTY},
    )


NEWEST = (Offered(Message(Kind.CHUNK, "newest", 1)),)


def _withdrawn(case: SenderOfMessages, _after: Any, _outcome: Outcome) -> Mapping[str, Any]:
    before = case.history["_watermark_after"]
    return {"_watermark_after": before - (before >= case.waiting(case.state)) * 1}


def sender_calls(
    anything: type[SenderOfMessages],
    with_watermark: type[SenderOfMessages],
    nothing_waits: type[SenderOfMessages],
    newest_known: type[SenderOfMessages],
) -> tuple[Call[Any], ...]:
    """What any sender of messages does."""
    return (
        Call(
            "a message is offered",
            anything,
            lambda core, _: core.offer(Kind.CHUNK, "new", 1),
            lambda _: True,
        ),
        Call(
            "the newest is withdrawn",
            newest_known,
            lambda core, case: core.withdraw(case.newest[0]),
            lambda _: True,
            _withdrawn,
            lambda _case, _after, outcome: outcome.result is True,
        ),
        Call(
            "how many may leave",
            anything,
            lambda core, _: core.sendable(),
            lambda _: False,
            returns=lambda case, _after, outcome: (
                bool(outcome.result > 0) == _may_send(case) and bool(outcome.result <= case.waiting(case.state))
            ),
        ),
        Call("the oldest leaves", anything, lambda core, _: core.try_send(), _may_send, _sent, _is_oldest),
        Call(
            "the watermark leaves",
            with_watermark,
            lambda core, _: core.send_watermark(),
            lambda case: case.history["_watermark_after"] <= 0 and case.can_leave(),
            _sent,
            _is_oldest,
        ),
        Call(
            "two leave at once",
            nothing_waits,
            lambda core, case: core.send_now(case.batch),
            SenderOfMessages.can_leave,
            _batch_sent,
            _as_many_as_may,
        ),
    )


class ReceiverOfMessages(MessageCase):
    """Any state of a receiver."""

    told_of_no_state = (
        *("_came_chunks", "_came_rows", "_came_barriers", "consumed_chunks", "consumed_rows"),
        *("inbox_rows", "peak_inbox_rows"),
    )

    def __init__(self) -> None:
        """All that is here is untaken."""
        self.shapes: list[tuple[bool, bool]] = []
        super().__init__()
        rows = natural("first_rows")
        self.arriving = [
            Message(Kind.CHUNK, "first", rows),
            Message(Kind.BARRIER, "second"),
            Message(Kind.CHUNK, "third", 0),
        ]
        if self.has_arriving:
            assume(self.on_the_way(self.state) > 0)

    has_arriving: ClassVar[bool] = False
    """Is a message on its way?"""

    @abstractmethod
    def on_the_way(self, state: Any) -> int:
        """How many messages are on their way here."""

    @abstractmethod
    def arrived(self, number: int) -> Any:
        """The state once this many have arrived, wherever they come from."""

    @abstractmethod
    def may_arrive(self, number: int) -> bool:
        """May this many arrive together, whatever the sender does?"""

    @abstractmethod
    def here(self, state: Any) -> int:
        """How many messages are here."""

    def stands_for(self, state: Any) -> Mapping[str, Any]:
        """The inbox, and the flow's own counts."""
        here = self.here(state)
        return {"_here": here, "untaken": here, "_runs": Counted(here), **self.counts(state)}

    def make(self, record: Callable[..., None] | None) -> Any:
        """A receiver with these counts."""
        here = self.here(self.state)
        runs = Inbox(Counted(here), self.message, lambda _: ITEM, self.shapes)
        told = {**self.history, **self.counts(self.state), "_here": here, "untaken": here, "_runs": runs}
        return put(self.end(self.numbers(), record=record), told)


def came(case: ReceiverOfMessages, _after: Any, outcome: Outcome, *messages: int) -> Mapping[str, Any]:
    """What the totals are once these have arrived."""
    if outcome.refusal is not None:
        return {}
    before = case.history
    arrived = [case.arriving[number] for number in messages]
    rows = sum(message.rows for message in arrived)
    chunks = sum(message.kind is Kind.CHUNK for message in arrived)
    here = before["inbox_rows"] + rows
    return {
        "_came_chunks": before["_came_chunks"] + chunks,
        "_came_rows": before["_came_rows"] + rows,
        "_came_barriers": before["_came_barriers"] + len(arrived) - chunks,
        "inbox_rows": here,
        **({"peak_inbox_rows": is_larger(before["peak_inbox_rows"], here)} if chunks else {}),
    }


def consumed(case: ReceiverOfMessages, _after: Any, outcome: Outcome) -> Mapping[str, Any]:
    """What the totals are once these are consumed."""
    result, before = outcome.result, case.history
    messages = () if result is None else result if isinstance(result, list) else (result,)
    rows = [message.rows for message in messages if message.kind is Kind.CHUNK]
    return {
        "consumed_chunks": before["consumed_chunks"] + len(rows),
        "consumed_rows": before["consumed_rows"] + sum(rows),
        "inbox_rows": before["inbox_rows"] - sum(rows),
    }


def _are_oldest(_case: ReceiverOfMessages, _after: Any, outcome: Outcome) -> bool:
    result = outcome.result
    messages = () if result is None else result if isinstance(result, list) else (result,)
    return all(message.payload == ("oldest", number) for number, message in enumerate(messages))


def _arrives(number: int, core: Any, case: ReceiverOfMessages) -> None:
    core.deliver(case.arriving[number])


def receiver_calls(anything: type[ReceiverOfMessages], arriving: type[ReceiverOfMessages]) -> tuple[Call[Any], ...]:
    """What any receiver of messages does; one is ``arriving``."""
    return (
        *(
            Call(
                f"the next message arrives, a {kind}",
                arriving,
                partial(_arrives, number),
                lambda _: True,
                partial(_came, (number,)),
            )
            for number, kind in enumerate(("chunk", "barrier"))
        ),
        Call(
            "a message arrives, or one too many",
            anything,
            partial(_arrives, 0),
            lambda case: case.may_arrive(1),
            partial(_came, (0,)),
            leads_to=lambda case: case.arrived(1),
        ),
        Call(
            "two chunks arrive at once, or too many",
            anything,
            lambda core, case: core.deliver_many(("a", "b"), (case.arriving[0].rows, 0)),
            lambda case: case.may_arrive(2),
            partial(_came, (0, 2)),
            leads_to=lambda case: case.arrived(2),
        ),
        Call(
            "an announcement comes, which must not",
            anything,
            lambda core, _: core.on_announcement("any"),
            lambda _: False,
            returns=lambda _case, _after, outcome: isinstance(outcome.refusal, UnexpectedFrameError),
        ),
        Call(
            "a message is received",
            anything,
            lambda core, _: core.try_receive(),
            lambda case: case.subject.system.is_enabled("Consume", case.state, case.parameters),
            consumed,
            _are_oldest,
        ),
        Call(
            "two are received",
            anything,
            lambda core, _: core.receive_many(2),
            lambda case: case.subject.system.is_enabled("Consume", case.state, case.parameters),
            consumed,
            _are_oldest,
        ),
    )


def _came(numbers: tuple[int, ...], case: ReceiverOfMessages, after: Any, outcome: Outcome) -> Mapping[str, Any]:
    return came(case, after, outcome, *numbers)
