"""``PermitReceiver``, while its window adapts, refines ``AdaptiveWindow``; and its measure aims within the bounds.

A receiver that adapts records nothing: what it must hold is read from the model's steps.  Of the measure nothing is
assumed: times, rates and latencies are ``Unmeasured``.  Chunks have as many rows as they cost; what empty and large
ones cost is a claim about permits, and so are the totals.
"""

from collections.abc import Iterable, Mapping
from operator import add
from typing import Any

from permitflow.errors import InvalidParametersError
from permitflow.flows import adaptive_window as measure
from permitflow.flows.messages import Kind, Message
from permitflow.flows.permits import core
from permitflow.flows.permits.parameters import ChannelParameters, Oversize, Permits
from permitflow_model.adaptive_window import SYSTEM, Parameters, State, cost_of, is_aim
from permitflow_model.kernel.queue import Queue
from permitflow_proofs.adaptive_window import SUBJECT
from permitflow_proofs.code.batches import Batch, InvariantBroken, RunningSums
from permitflow_proofs.code.permit_channel.common import MODULES
from permitflow_proofs.code.refinement import attempt, field, fields_of, put
from permitflow_proofs.code.stand_ins import Inbox, standing_in
from permitflow_proofs.kernel.chapter import claim
from permitflow_proofs.kernel.frame import is_same_part
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import (
    all_of,
    any_of,
    assume,
    equal,
    integer,
    larger_of,
    natural,
    smaller_of,
    truth,
)
from permitflow_proofs.kernel.theorem import Theorem

_MODULES = (*MODULES, measure)
_TOTALS = ("_came_chunks", "_came_rows", "_came_barriers", "consumed_chunks", "consumed_rows", "peak_inbox_rows")


class Unmeasured:
    """Any number of seconds, or any rate: each question about it may have either answer."""

    __hash__ = None  # type: ignore[assignment]  # nothing is known of it

    def _another(self, _other: object) -> "Unmeasured":
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _another

    def _may_be(self, _other: object) -> bool:
        return truth("measured")

    __lt__ = __le__ = __gt__ = __ge__ = _may_be

    def __bool__(self) -> bool:
        return bool(truth("measured"))

    def __round__(self) -> int:
        return integer("rounded")


def any_measure(most_rows: int) -> Any:
    """A measure in any state."""
    has_seen, is_known = bool(truth("has_seen")), bool(truth("is_known"))
    values = {
        "_most_rows": most_rows,
        "_latency_seconds": Unmeasured(),
        "_seen": (Unmeasured(), integer("seen_rows"), truth("was_busy")) if has_seen else None,
        "_busy_seconds": Unmeasured(),
        "_busy_rows": integer("busy_rows"),
        "rows_per_second": Unmeasured() if is_known else None,
        "least_rows": natural("least_rows", 1),
        "target": natural("measured_target", 1),
    }
    return put(object.__new__(measure.AdaptiveWindow), values)


def _as_code(made: Parameters, max_chunk_cost: int) -> ChannelParameters:
    values = {
        "row_permits": made.row_permits,
        "permit_batch": made.permit_batch,
        "max_chunk_cost": max_chunk_cost,
        "barrier_permits": natural("barrier_permits", 1),
        "oversize": Oversize.SPLIT,
        "initial_permits": made.row_permits,
    }
    kept = object.__new__(ChannelParameters)
    for name, value in values.items():
        object.__setattr__(kept, name, value)
    return kept


def _with_room(made: Parameters, room: int) -> Parameters:
    """The same parameters, with another room; they are lawful as they were."""
    changed = object.__new__(Parameters)
    vars(changed).update({**vars(made), "room": room})
    return changed


def _shown(rows: int) -> Message[Any]:
    return Message(Kind.CHUNK, rows, rows)


def _told(chunk: Any) -> int:
    rows: int = chunk.rows
    return rows


def _held(queue: Queue[int]) -> int:
    return queue.sum_of(cost_of, add, 0)


class _Adapting:
    """A receiver in any state, and the state of the model for which it stands.

    What a channel withholds at its start, of ``initial_permits``, is on its way back in the model: the receiver
    withholds so much more than the model.
    """

    def __init__(self) -> None:
        self.state, self.parameters = state, made = SUBJECT.any_case()
        self.most = natural("max_chunk_cost", 1)
        assume(made.flush_idle)
        assume(equal(made.room, 1))
        assume(made.permit_batch < made.row_permits)
        assume(self.most <= made.row_permits - made.permit_batch + 1)
        assume(max(made.row_costs) <= self.most)
        # Of what is on its way back the sender has been sent this; the rest is due, or withheld.
        self.sent_back, self.withheld = natural("sent_back"), natural("withheld_by_code")
        assume(self.withheld >= state.withheld)
        assume(self.sent_back + self.withheld <= state.returned + state.withheld)
        self.largest = natural("largest_cost")
        assume(self.largest <= self.most)
        self.markers_due = natural("barriers_due"), natural("watermarks_due")
        self.end: Any = core.PermitReceiver(_as_code(made, self.most))
        runs: Any = Inbox(state.inbox, _shown, _told, [(False, False)])
        markers = dict(zip(("_barriers.due", "_watermarks.due"), self.markers_due, strict=True))
        told = {**self.stands_for(state, self.withheld), **markers, "_adaptive": any_measure(made.row_permits)}
        put(self.end, {**told, "_runs": runs, "_largest_cost": self.largest})
        self.before = self.fields()

    def fields(self) -> Mapping[str, Any]:
        """All but the totals and the measure."""
        found = fields_of(self.end)
        return {name: value for name, value in found if name not in _TOTALS and not name.startswith("_adaptive.")}

    def due(self, state: State, withheld: int) -> int:
        """The row permits to return now."""
        return state.returned + state.withheld - self.sent_back - withheld

    def stands_for(self, state: State, withheld: int) -> Mapping[str, Any]:
        """What the fields hold while the code withholds so much."""
        due, here, most = self.due(state, withheld), _held(state.inbox), self.parameters.row_permits
        return {
            "_here": state.inbox.size(),
            "untaken": state.inbox.size(),
            "inbox_rows": here,
            "_runs": state.inbox,
            "_rows.granted": most - here - state.unreturned - withheld - due,
            "_rows.collected": state.unreturned,
            "_rows.due": due,
            "_rows.withheld": withheld,
            "_rows._surplus": most - state.target,
            "_rows.target": state.target,
            "_rows._batch": state.batch,
            "is_due": any_of([due > 0, *(marker > 0 for marker in self.markers_due)]),
        }

    def settled(self, after: State, more: int = 0) -> int:
        """What is withheld once a target or consumed chunks have changed what is due: up to the surplus."""
        supply = self.withheld + after.withheld - self.state.withheld + after.returned - self.state.returned + more
        return smaller_of(supply, self.parameters.row_permits - after.target)

    def call(self, make: Any) -> Any:
        """Call the end; returns the outcome."""
        with standing_in(_MODULES):
            return attempt(self.end, make)

    def holds(self, after: State, withheld: int, wrong: int, **changes: Any) -> bool:
        """Do all fields hold what they must?"""
        expected = {**self.before, **self.stands_for(after, withheld), **changes}
        expected["_rows.granted"] = expected["_rows.granted"] + wrong
        found = self.fields()
        return all_of([is_same_part(found[name], value) for name, value in expected.items()])

    def is_unchanged(self, wrong: int) -> bool:
        """Is everything as before?"""
        return self.holds(self.state, self.withheld, wrong)


def _is_resized(wrong: int) -> bool:
    """Resize, or a refusal exactly where the model cannot; the aim that is there already changes nothing."""
    case = _Adapting()
    aim = integer("new_target"), integer("new_batch")
    outcome = case.call(lambda end: end.resize(*aim))
    may = bool(aim[1] >= 1) and bool(is_aim(case.parameters, *aim))
    if outcome.refusal is not None:
        return isinstance(outcome.refusal, InvalidParametersError) and not may and case.is_unchanged(wrong)
    state = case.state
    is_new = bool(aim[0] != state.target) or bool(aim[1] != state.batch)
    after = SYSTEM.perform("Resize", state, case.parameters, *aim) if may and is_new else state
    withheld = case.settled(after)
    is_more = case.due(after, withheld) > case.due(state, case.withheld)
    return may and bool(outcome.result) == bool(is_more) and case.holds(after, withheld, wrong)


def _arrives(wrong: int) -> bool:
    """Deliver; and the largest chunk that has come is known."""
    case = _Adapting()
    assume(case.state.wire.size() > 0)
    rows = case.state.wire.head()
    assume(rows >= 1)
    outcome = case.call(lambda end: end.deliver(_shown(rows)))
    after = SYSTEM.perform("Deliver", case.state, case.parameters)
    most = larger_of(rows, case.largest)
    return outcome.refusal is None and case.holds(after, case.withheld, wrong, _largest_cost=most)


def _is_consumed(wrong: int) -> bool:
    """Consume."""
    case = _Adapting()
    assume(case.state.inbox.size() > 0)
    rows = case.state.inbox.head()
    assume(rows >= 1)
    outcome = case.call(lambda end: end.try_receive())
    after = SYSTEM.perform("Consume", case.state, case.parameters)
    return outcome.result.payload is rows and case.holds(after, case.settled(after), wrong)


def _chunks(batch_permits: int, most: int) -> Batch:
    batch = Batch("batch", lambda rows: rows, most, whole=batch_permits)
    assume(batch.least >= 1)
    assume(batch.most <= most)
    return batch


def _are_consumed(wrong: int) -> bool:
    """As many steps of Consume: what is complete together is withheld up to the surplus, and the rest is due."""
    case = _Adapting()
    state, batch = case.state, _chunks(case.state.batch, case.most)
    sums = RunningSums(batch, state.unreturned)
    rows = batch.sums(batch.count)
    try:
        outcome = case.call(lambda end: field(end, "_consume")(batch, rows, (), ()))
    except InvariantBroken:
        return False
    sums.know()
    flushed = sums.flushed(batch.count)
    withheld = case.settled(state, flushed)
    due = case.due(state, withheld) + flushed
    changes = {
        "_rows.granted": case.before["_rows.granted"],
        "_rows.collected": sums.after(batch.count) - flushed,
        "_rows.due": due,
        "is_due": any_of([due > 0, *(marker > 0 for marker in case.markers_due)]),
    }
    return outcome.refusal is None and case.holds(state, withheld, wrong, **changes)


def _follows_the_model(wrong: int) -> bool:
    """One chunk more: what is said of any number is said of one more."""
    state, made = SUBJECT.any_case()
    assume(state.inbox.size() > 0)
    batch, number = _chunks(state.batch, max(made.row_costs)), natural("number")
    sums, surplus = RunningSums(batch, natural("collected")), made.row_permits - state.target
    withheld, returned = natural("withheld_first"), natural("returned_first")

    def is_so(state: State, number: int, wrong: int = 0) -> bool:
        supply = withheld + sums.flushed(number)
        kept = smaller_of(supply, surplus)
        return all_of(
            [
                equal(state.unreturned, sums.after(number) - sums.flushed(number)),
                equal(state.withheld, kept),
                equal(state.returned + wrong, returned + supply - kept),
            ]
        )

    assume(is_so(state, number))
    assume(equal(batch.at(number), state.inbox.head()))
    assume(sums.follows(number))
    return is_so(SYSTEM.perform("Consume", state, made), number + 1, wrong)


def _returns(wrong: int) -> bool:
    """What is due returns; where nothing is here and the residue is asked for, all that is kept (Flush)."""
    case = _Adapting()
    state, surplus = case.state, case.parameters.row_permits - case.state.target
    is_asked = bool(truth("residue"))
    outcome = case.call(lambda end: end.take_feedback(residue=is_asked))
    is_idle = is_asked and bool(state.inbox.size() <= 0)
    can_flush = is_idle and SYSTEM.is_enabled("Flush", state, case.parameters)
    after = SYSTEM.perform("Flush", state, case.parameters) if can_flush else state
    withheld = 0 if is_idle and surplus > 0 else case.withheld
    told = Permits(case.due(after, withheld), *case.markers_due)
    if outcome.result is None:
        return bool(all_of([equal(each, 0) for each in told])) and case.is_unchanged(wrong)
    granted = case.stands_for(after, withheld)["_rows.granted"] + told.rows
    changes = {
        "_rows.granted": granted,
        **{f"_{name}.granted": case.before[f"_{name}.granted"] + getattr(told, name) for name in _MARKERS},
        **dict.fromkeys(("_rows.due", "_barriers.due", "_watermarks.due"), 0),
        "is_due": False,
    }
    is_all = all_of([equal(one, other) for one, other in zip(outcome.result, told, strict=True)])
    return bool(any_of([each > 0 for each in told])) and bool(is_all) and case.holds(after, withheld, wrong, **changes)


_MARKERS = ("barriers", "watermarks")


def _asks(wrong: int) -> bool:
    """What is withheld beyond the surplus is due once the application asks."""
    case = _Adapting()
    outcome = case.call(lambda end: end.ask())
    withheld = case.settled(case.state)
    return bool(outcome.result) == bool(withheld < case.withheld) and case.holds(case.state, withheld, wrong)


def _says(wrong: int) -> bool:
    """What it says of itself, and how soon permits return: whether any would."""
    case = _Adapting()
    state, withheld, end = case.state, case.withheld, case.end
    with standing_in(_MODULES):
        told = (end.aimed_rows, *end.gauges().values(), end.withheld, end.unreturned)
        urgency, is_unsettled = end.urgency, end.unsettled()
    is_kept = any_of([state.unreturned > 0, all_of([state.target < case.parameters.row_permits, withheld > 0])])
    is_due = any_of([case.due(state, withheld) > 0, *(marker > 0 for marker in case.markers_due)])
    would = any_of([is_due, all_of([state.inbox.size() <= 0, is_kept])])
    expected = (
        state.target,
        state.unreturned,
        withheld,
        state.target,
        withheld,
        state.unreturned + wrong,
    )
    return (
        bool(urgency > 0) == bool(would)
        and bool(is_unsettled) == bool(any_of([is_due, is_kept]))
        and _are_equal(told, expected)
    )


def _are_equal(ones: Iterable[int], others: Iterable[int]) -> bool:
    return all_of([equal(one, other) for one, other in zip(ones, others, strict=True)])


def _observes(wrong: int) -> bool:
    """Whatever was measured: nothing changes, or it is Resize, with room for the largest chunk that has come."""
    case = _Adapting()
    state, made = case.state, case.parameters
    outcome = case.call(lambda end: end.observe(Unmeasured()))
    aim = field(case.end, "_rows.target"), field(case.end, "_rows._batch")
    if outcome.refusal is not None:
        return False
    if not (aim[0] != state.target or aim[1] != state.batch):
        return case.is_unchanged(0) or case.holds(state, case.settled(state), 0)
    room = larger_of(1, case.largest)
    with_room = _with_room(made, room + wrong * case.largest)
    if not SYSTEM.is_enabled("Resize", state, with_room, *aim):
        return False
    after = SYSTEM.perform("Resize", state, with_room, *aim)
    return case.holds(after, case.settled(after), 0)


def _measures(wrong: int) -> bool:
    """Whatever was measured: the target stays, or another one is within the window and has the room that is needed."""
    most, least = natural("most_rows", 1), integer("needed_rows")
    window = any_measure(most)
    before = window.target
    with standing_in([measure]):
        result = window.observe(Unmeasured(), integer("consumed_rows"), is_busy=truth("is_busy"), least_rows=least)
    if result is None:
        return equal(window.target, before + wrong)
    needed = smaller_of(larger_of(1, least), most)
    return result is window.target and all_of(
        [needed + wrong <= result, result <= most, any_of([result < before, result > before])]
    )


def _starts(wrong: int) -> bool:
    """It aims at the whole window, from when it is told to adapt; not if it is recorded, or the latency cannot be."""
    case = _Adapting()
    is_recorded, is_latency = bool(truth("is_recorded")), bool(truth("is_latency"))
    put(case.end, {"_adaptive": None, "_record": _nobody if is_recorded else None})
    outcome = case.call(lambda end: end.aim_at(0.5 if is_latency else 0))
    adaptive = field(case.end, "_adaptive")
    put(case.end, {"_adaptive": None})
    is_right = (outcome.refusal is None) == (is_latency and not is_recorded) == (adaptive is not None)
    if adaptive is not None:
        is_right = is_right and equal(adaptive.target, case.parameters.row_permits + wrong)
    return is_right and case.is_unchanged(wrong)


def _nobody(*_event: object) -> None:
    """Gets what is recorded."""


_MORE = "it has granted one more"

RECEIVER: tuple[SymbolicObligation, ...] = (
    claim("the target changes, or must not", _is_resized, _MORE),
    claim("the next chunk arrives", _arrives, _MORE),
    claim("a chunk is consumed", _is_consumed, _MORE),
    claim("any number are consumed at once", _are_consumed, _MORE),
    claim("one more is consumed as the model does", _follows_the_model, "it returns one less"),
    claim("what is due returns, and all that is kept", _returns, _MORE),
    claim("the application asks", _asks, _MORE),
    claim("what it says of itself, and how soon permits return", _says, "one more is collected"),
)

MEASURE: tuple[SymbolicObligation, ...] = (
    claim("it adapts from now on, or must not", _starts, "one more"),
    claim("any measure", _measures, "one row more is needed, or the target"),
    claim("the receiver aims at what was measured", _observes, "with room for twice the largest chunk"),
)


def theorems() -> tuple[Theorem, ...]:
    """Of the receiver, and of its measure."""
    return (
        Theorem(
            id="code-adaptive-window-receiver",
            statement=(
                "The running PermitReceiver withholds and returns what its model does, whatever the target: no permit "
                "is made or lost when it changes, and an idle receiver returns all that it keeps. Targets and batches "
                "out of their ranges are refused, and change nothing."
            ),
            module="AdaptiveWindow",
            operator="Next",
            obligations=RECEIVER,
        ),
        Theorem(
            id="code-adaptive-window-measure",
            statement=(
                "Whatever times and rates AdaptiveWindow measures, its targets are within the window and leave the "
                "room that is needed; so the receiver only ever aims where Resize may, with room for the largest chunk "
                "that has come."
            ),
            module="AdaptiveWindow",
            operator="Resize",
            obligations=MEASURE,
        ),
    )
