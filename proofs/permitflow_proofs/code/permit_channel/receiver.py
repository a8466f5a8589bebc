"""``PermitReceiver``: arriving, consuming, and permits to return."""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from permitflow.errors import LocalProtocolError
from permitflow.flows.messages import Kind
from permitflow.flows.messages import Message as CoreMessage
from permitflow.flows.permits import core
from permitflow_model.kernel.system import Disabled
from permitflow_model.permit_channel import (
    SYSTEM,
    Message,
    Parameters,
    Permits,
    State,
    carried_by,
    held_by,
    rows_in,
    total,
    withheld,
)
from permitflow_model.permit_channel_trace import PermitChannelReplay
from permitflow_proofs.code.permit_channel.common import (
    ANY,
    MODULES,
    are_split,
    as_code,
    followed_by,
    kind_of,
    shown,
    told,
)
from permitflow_proofs.code.refinement import EMPTY, Call, Case, Is, Outcome, begins, is_larger, is_possible, put
from permitflow_proofs.code.stand_ins import Inbox
from permitflow_proofs.kernel.symbols import all_of, any_of, assume, equal, integer, natural, negated
from permitflow_proofs.permit_channel.arbitrary import (
    any_message,
    any_permits,
)


class ReceiverCase(Case[State, Parameters]):
    """Any state of the receiver."""

    modules = MODULES
    off_by_one = "_rows.granted"

    def __init__(self) -> None:
        """Any state at all."""
        state, made = ANY.any_case()
        splits = are_split(made)
        self.splits = splits
        # Of the grants in flight, the sender has been sent these; the others are due, or withheld.
        self.sent_back = any_permits("sent_back")
        self.withheld = natural("withheld")
        back = carried_by(state.grants)
        assume(all_of([given >= 0 for given in self.sent_back]))
        assume(self.sent_back.rows + self.withheld <= back.rows)
        assume(self.sent_back.barriers <= back.barriers)
        assume(self.sent_back.watermarks <= back.watermarks)
        self.untaken = state.inbox.size()
        self.history = {
            "peak_inbox_rows": natural("peak_inbox_rows"),
            "consumed_chunks": natural("consumed_chunks"),
            "consumed_rows": natural("consumed_rows"),
            "_came_chunks": natural("came_chunks"),
            "_came_rows": natural("came_rows"),
            "_came_barriers": natural("came_barriers"),
        }
        assume(rows_in(state.inbox) <= self.history["peak_inbox_rows"])
        self.shapes: list[tuple[bool, bool]] = []
        super().__init__(state, made)

    def due(self, state: State, withheld: int) -> Permits:
        """What this end has to return now."""
        rows, barriers, watermarks = carried_by(state.grants)
        sent = self.sent_back
        return Permits(rows - sent.rows - withheld, barriers - sent.barriers, watermarks - sent.watermarks)

    def stands_for(self, state: State) -> Mapping[str, Any]:
        """The counts of this state."""
        return self.withholding(state, self.withheld)

    def withholding(self, state: State, withheld: int) -> Mapping[str, Any]:
        """What the fields hold while so much is withheld."""
        here, due, most = held_by(state.inbox), self.due(state, withheld), total(self.parameters)
        return {
            "_here": state.inbox.size(),
            "untaken": state.inbox.size(),
            "inbox_rows": rows_in(state.inbox),
            "_runs": state.inbox,
            "_rows.granted": most.rows - here.rows - state.unreturned - due.rows - withheld,
            "_rows.collected": state.unreturned,
            "_rows.due": due.rows,
            "_rows.withheld": withheld,
            "_barriers.granted": most.barriers - here.barriers - due.barriers,
            "_barriers.due": due.barriers,
            "_watermarks.granted": most.watermarks - here.watermarks - due.watermarks,
            "_watermarks.due": due.watermarks,
            "is_due": any_of([given > 0 for given in due]),
        }

    def make(self, record: Callable[..., None] | None) -> Any:
        """An end with these counts."""
        made: Any = core.PermitReceiver(as_code(self.parameters), record=record)
        state = self.state
        told = self.stands_for(state)
        runs = Inbox(state.inbox, shown, self.told, self.shapes)
        return put(made, {**self.history, **told, "_runs": runs, "_splits": self.splits})

    def told(self, message: CoreMessage[Any]) -> Message:
        """A message of the code, as one of the model's."""
        return told(message, self.parameters)

    def replay(self) -> PermitChannelReplay:
        """As recorded runs are explained."""
        return PermitChannelReplay(self.parameters)


class Arriving(ReceiverCase):
    """A message is on its way."""

    def __init__(self) -> None:
        super().__init__()
        assume(self.state.wire.size() > 0)
        self.message = shown(self.state.wire.head())


class TwoArriving(Arriving):
    """Two chunks arrive together."""

    def __init__(self) -> None:
        super().__init__()
        rest = followed_by(self.state.wire, self.parameters)
        assume(rest.size() > 0)
        self.messages = self.message, shown(rest.head())
        if not all(message.kind is Kind.CHUNK for message in self.messages):
            raise Disabled


class TwoHere(ReceiverCase):
    """More than one message is here, and nothing is withheld."""

    kinds: Collection[tuple[Kind, Kind]] = ((Kind.CHUNK, Kind.CHUNK),)
    runs: Sequence[tuple[bool, bool]] = ((True, False),)

    def __init__(self) -> None:
        super().__init__()
        assume(equal(self.withheld, 0))
        assume(self.state.inbox.size() > 1)
        rest = followed_by(self.state.inbox, self.parameters)
        self.shapes.extend(self.runs)
        kinds = kind_of(self.state.inbox.head()), kind_of(rest.head())
        if kinds not in self.kinds:
            raise Disabled


class RunAndMarker(TwoHere):
    """A run of one chunk behind a barrier, or before it."""

    kinds = ((Kind.CHUNK, Kind.BARRIER), (Kind.BARRIER, Kind.CHUNK))
    runs = ((False, False),)


class OnlyTwoHere(TwoHere):
    """There are no others."""

    def __init__(self) -> None:
        super().__init__()
        assume(equal(self.state.inbox.size(), 2))

    def make(self, record: Callable[..., None] | None) -> Any:
        """A list is cut by a plain number."""
        return put(super().make(record), {"_here": 2, "untaken": 2})


class AnythingArriving(ReceiverCase):
    """What a sender may send, or may not."""

    def __init__(self) -> None:
        super().__init__()
        self.kind = kind_of(any_message("anything"))
        self.rows = integer("anything_rows") if self.kind is Kind.CHUNK else 0

    def arrived(self) -> State:
        """Once it is here."""
        message = self.told(CoreMessage(self.kind, None, self.rows))
        return self.state._replace(inbox=self.state.inbox.push(message))

    def may_arrive(self) -> bool:
        """Can the sender have had the permits for it, and is it no chunk that must be split?"""
        is_too_large = self.kind is Kind.CHUNK and self.splits and self.rows > self.parameters.max_chunk_cost
        if is_too_large or self.rows < 0:
            return False
        granted = self.stands_for(self.state)
        names = {Kind.CHUNK: "_rows.granted", Kind.BARRIER: "_barriers.granted"}
        here = granted[names.get(self.kind, "_watermarks.granted")]
        return bool(self.told(CoreMessage(self.kind, None, self.rows)).cost <= here)


def _came(case: Any, messages: Sequence[CoreMessage[Any]], after: State) -> Mapping[str, Any]:
    history = case.history
    chunks = [message for message in messages if message.kind is Kind.CHUNK]
    barriers = sum(message.kind is Kind.BARRIER for message in messages)
    most, here = history["peak_inbox_rows"], rows_in(after.inbox)
    return {
        "_came_chunks": history["_came_chunks"] + len(chunks),
        "_came_rows": history["_came_rows"] + sum(message.rows for message in chunks),
        "_came_barriers": history["_came_barriers"] + barriers,
        "peak_inbox_rows": is_larger(most, here),
    }


def _consumed(case: ReceiverCase, after: State, outcome: Outcome) -> Mapping[str, Any]:
    result = outcome.result
    messages = () if result is None else result if isinstance(result, list) else (result,)
    if not messages:
        return {}
    chunks = [message.rows for message in messages if message.kind is Kind.CHUNK]
    return {
        **case.withholding(after, 0),  # what was withheld is granted before any message's permits return
        "consumed_chunks": case.history["consumed_chunks"] + len(chunks),
        "consumed_rows": case.history["consumed_rows"] + sum(chunks),
    }


def _are_oldest(case: ReceiverCase, _after: State, outcome: Outcome) -> bool:
    result = outcome.result
    queue = case.state.inbox
    for message in () if result is None else result if isinstance(result, list) else (result,):
        if message.payload is not queue.head():
            return False
        queue = queue.without_head()
    return True


def _fed_back(case: ReceiverCase, after: State, outcome: Outcome) -> Mapping[str, Any]:
    if outcome.result is None:
        return {}
    told = case.withholding(after, case.withheld)
    return {
        **dict.fromkeys(("_rows.due", "_barriers.due", "_watermarks.due"), 0),
        **{
            name: told[name] + due
            for name, due in zip(
                ("_rows.granted", "_barriers.granted", "_watermarks.granted"),
                case.due(after, case.withheld),
                strict=True,
            )
        },
        "is_due": False,
    }


def _is_all_due(case: ReceiverCase, after: State, outcome: Outcome) -> bool:
    """All that is due, and nothing else; nothing if nothing is."""
    due = case.due(after, case.withheld)
    is_any = any_of([given > 0 for given in due])
    if outcome.result is None:
        return negated(is_any)
    return is_any and all_of([equal(told, given) for told, given in zip(outcome.result, due, strict=True)])


def _asked(case: ReceiverCase, _after: State, outcome: Outcome) -> Mapping[str, Any]:
    return case.withholding(case.state, 0)


class _Taken(ReceiverCase):
    """The application has taken the oldest message, and not consumed it."""

    def __init__(self) -> None:
        self.message: CoreMessage[Any] | None = None
        super().__init__()

    def stands_for(self, state: State) -> Mapping[str, Any]:
        """The first message of the inbox is not among those that are untaken."""
        rest = self.rest
        held = Is(lambda found: len(found) == int(state is self.state))
        return {**super().stands_for(state), "_runs": rest, "untaken": rest.size(), "_held": held}

    def make(self, record: Callable[..., None] | None) -> Any:
        """A receiver with these counts."""
        assume(self.state.inbox.size() > 0)
        self.rest = self.state.inbox.without_head()
        self.message = shown(self.state.inbox.head())
        made = super().make(record)
        runs = Inbox(self.rest, shown, self.told, self.shapes)
        return put(made, {"_runs": runs, "untaken": self.rest.size(), "_held": deque([self.message])})


def _consumed_taken(case: _Taken, after: State, outcome: Outcome) -> Mapping[str, Any]:
    if outcome.refusal is not None:
        return {}
    changes = {**_consumed(case, after, outcome._replace(result=case.message))}
    for name in ("_runs", "untaken"):
        changes.pop(name)
    return changes


def _is_taken(case: ReceiverCase, _after: State, outcome: Outcome) -> Mapping[str, Any]:
    if outcome.refusal is not None:
        return {}
    rest = case.state.inbox.without_head()
    return {
        "_runs": rest,
        "untaken": rest.size(),
        "_held": Is(lambda found: len(found) == 1 and found[0] is outcome.result),
    }


def _is_needed(case: ReceiverCase, _after: State, outcome: Outcome) -> bool:
    """It is urgent if, and only if, something would be told."""
    due = any_of([given > 0 for given in case.due(case.state, case.withheld)])
    residue = bool(case.state.unreturned > 0) and bool(case.state.inbox.size() <= 0)
    is_any = bool(due) or residue
    urgency, is_unsettled = outcome.result
    owes = bool(due) or bool(case.state.unreturned > 0)
    return bool(urgency > 0) == is_any and bool(is_unsettled) == owes


def _received(most: int, core: Any, _case: ReceiverCase) -> Any:
    return core.receive_many(most)


def _taken_and_consumed(core: Any, _case: ReceiverCase) -> Any:
    messages = core.take_many(2)
    core.consume_many(2)
    return messages


def _discarded(core: Any, case: ReceiverCase) -> Any:
    """One was taken before, and the other was not."""
    core.take()
    core.discard()
    return [shown(message) for message in (case.state.inbox.head(), case.state.inbox.without_head().head())]


class _Begun(ReceiverCase):
    """What is withheld is all that the sender has not got."""

    def __init__(self) -> None:
        super().__init__()
        self.sent_back, self.withheld = Permits(0, 0, 0), withheld(self.parameters)


RECEIVER_BEGINS = begins(
    _Begun,
    lambda case: core.PermitReceiver(as_code(case.parameters, bool(case.splits))),
    SYSTEM.initial,
    lambda case: {**dict.fromkeys(case.history, 0), "_runs": EMPTY},
)

RECEIVER: tuple[Call[Any], ...] = (
    Call(
        "the next message arrives",
        Arriving,
        lambda core, case: core.deliver(case.message),
        lambda _: True,
        lambda case, after, _: _came(case, [case.message], after),
    ),
    Call(
        "two chunks arrive at once",
        TwoArriving,
        lambda core, case: core.deliver_many(*zip(*((m.payload, m.rows) for m in case.messages), strict=True)),
        lambda _: True,
        lambda case, after, _: _came(case, case.messages, after),
    ),
    Call(
        "anything arrives",
        AnythingArriving,
        lambda core, case: core.deliver(CoreMessage(case.kind, None, case.rows)),
        AnythingArriving.may_arrive,
        lambda case, after, outcome: (
            {} if outcome.refusal else _came(case, [CoreMessage(case.kind, None, case.rows)], after)
        ),
        leads_to=AnythingArriving.arrived,
    ),
    Call(
        "a message is received",
        ReceiverCase,
        lambda core, _: core.try_receive(),
        lambda case: is_possible(case, "Consume"),
        _consumed,
        _are_oldest,
    ),
    *(
        Call(
            name,
            make,
            call,
            lambda case: is_possible(case, "Consume"),
            _consumed,
            _are_oldest,
        )
        for name, make, call in (
            ("the first of a run is received", TwoHere, partial(_received, 1)),
            ("a run of two is received", TwoHere, partial(_received, 2)),
            ("a chunk and a barrier are received", RunAndMarker, partial(_received, 2)),
            ("a run of two is taken, and consumed then", TwoHere, _taken_and_consumed),
            ("all that is here is discarded, of a run of two", OnlyTwoHere, _discarded),
        )
    ),
    Call(
        "what is due returns",
        ReceiverCase,
        lambda core, _: core.take_feedback(residue=False),
        lambda _: False,
        _fed_back,
        _is_all_due,
    ),
    Call(
        "what is due returns, and the residue",
        ReceiverCase,
        lambda core, _: core.take_feedback(),
        lambda case: is_possible(case, "Flush"),
        _fed_back,
        _is_all_due,
    ),
    Call(
        "the application asks",
        ReceiverCase,
        lambda core, _: core.ask(),
        lambda _: False,
        _asked,
        lambda case, _after, outcome: outcome.result == (case.withheld > 0),
    ),
    Call(
        "a message is taken",
        ReceiverCase,
        lambda core, _: core.take(),
        lambda _: False,
        _is_taken,
        lambda case, _after, outcome: (outcome.refusal is None) == bool(case.state.inbox.size() > 0),
    ),
    Call(
        "the taken message is consumed",
        _Taken,
        lambda core, _: core.consume_many(1),
        lambda _: True,
        _consumed_taken,
    ),
    Call(
        "more are consumed than were taken",
        _Taken,
        lambda core, _: core.consume_many(2),
        lambda _: False,
        returns=lambda _case, _after, outcome: isinstance(outcome.refusal, LocalProtocolError),
    ),
    Call(
        "a message is received while another one is held",
        _Taken,
        lambda core, _: core.try_receive(),
        lambda _: False,
        returns=lambda _case, _after, outcome: isinstance(outcome.refusal, LocalProtocolError),
    ),
    Call(
        "how soon permits return",
        ReceiverCase,
        lambda core, _: (core.urgency, core.unsettled()),
        lambda _: False,
        returns=_is_needed,
    ),
)
