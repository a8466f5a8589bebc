"""A channel that keeps its rows: any number of consumers and rows, any permits, any faults, expiry at any row.

Consumers are looked at by symbolic names: one that acts, and any one, or the same.  What the slowest one needs is the
largest lag of all: at least each one's, and that of one of them.
"""

from collections.abc import Callable
from functools import partial

from permitflow_model.kept_channel import (
    SYSTEM,
    Consumer,
    Parameters,
    State,
    consumer_ok,
    first_of,
    has_all_at_end,
    has_each_once,
    has_handled,
    has_lost_nothing,
    is_ahead,
    is_in_place,
    is_needed_kept,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import Change, Frame
from permitflow_proofs.kernel.indexed import Indexed, member_by_name
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.symbols import all_of, assume, function, merged, negated
from permitflow_proofs.kernel.theorem import Theorem

_NAMES = tuple(function("name")(number) for number in range(2))
_ACTING, _ANY = _NAMES
"""The consumer that acts, and any one, of which a clause is shown."""

_ROW = function("row")(0)
"""A row that is acknowledged, or before which rows expire."""


def _ranges(state: State, parameters: Parameters) -> bool:
    is_ordered = 0 <= state.expired <= state.first <= state.next <= parameters.horizon
    return is_ordered and state.faults >= 0


def _type_ok(state: State, parameters: Parameters, name: int) -> bool:
    return _ranges(state, parameters) and consumer_ok(state.consumers.get(name), state.next)


def _bounded(state: State, parameters: Parameters, _name: int) -> bool:
    return state.next - state.first <= parameters.row_permits + parameters.staging_rows


def _needed(state: State, _parameters: Parameters, name: int) -> bool:
    return is_needed_kept(state.consumers.get(name), state.first, state.expired)


def _in_place(state: State, _parameters: Parameters, name: int) -> bool:
    return state.misplaced == 0 and is_in_place(state.consumers.get(name))


def _each_once(state: State, _parameters: Parameters, name: int) -> bool:
    return has_each_once(state.consumers.get(name))


def _told(state: State, _parameters: Parameters, name: int) -> bool:
    """A consumer that was told needs a row that is gone."""
    one = state.consumers.get(name)
    return one.phase != "told" or one.handled < first_of(one, state.expired)


def _acknowledged(state: State, _parameters: Parameters, name: int) -> bool:
    return has_handled(state.consumers.get(name))


def _nothing_lost(state: State, parameters: Parameters, name: int) -> bool:
    if parameters.expires:
        return True
    return state.expired == 0 and has_lost_nothing(state.consumers.get(name))


def _end_is_whole(state: State, _parameters: Parameters, name: int) -> bool:
    return has_all_at_end(state.consumers.get(name), state.ended, state.next)


_CLAUSES: dict[str, Callable[[State, Parameters, int], bool]] = {
    "TypeOK": _type_ok,
    "KeptBounded": _bounded,
    "NeededIsKept": _needed,
    "InPlace": _in_place,
    "EachRowOnce": _each_once,
    "Told": _told,
    "AcknowledgedIsHandled": _acknowledged,
    "NothingLost": _nothing_lost,
    "EndIsWholeLog": _end_is_whole,
}
"""What every reachable state satisfies, of each consumer; with RoomOfSlowest, proved by induction."""


def _slowest(state: State, _parameters: Parameters) -> bool:
    """Some consumer needs the first row, or one before it."""
    return negated(state.consumers.every(is_ahead, state.first))


def _of_any(clause: Callable[[State, Parameters, int], bool]) -> Clause[State, Parameters]:
    return lambda state, parameters: merged(partial(clause, state, parameters, _ANY))


INVARIANT: dict[str, Clause[State, Parameters]] = {
    **{name: _of_any(clause) for name, clause in _CLAUSES.items()},
    "RoomOfSlowest": _slowest,
}


def _is_one(parameters: Parameters, name: int) -> None:
    assume(all_of((name >= 0, name < parameters.consumers)))


def _any_state(parameters: Parameters) -> State:
    """Any state of any number of consumers that satisfies the invariant."""
    for name in _NAMES:
        _is_one(parameters, name)
    consumers = Indexed.any_family(member_by_name(Consumer, "consumer."), parameters.consumers, *_NAMES)
    state = arbitrary(State, special={"consumers": consumers})
    assume(merged(partial(_ranges, state, parameters)))
    for clause in _CLAUSES.values():
        consumers.assume_every(partial(clause, state, parameters))
    assume(_slowest(state, parameters))
    return state


_BY_NAME = (*("LoseReading", "PurgeConsumer", "BeginReading", "SendRow", "TakeRow", "SkipRows", "ReadLogEnd"),)
_ARGUMENTS: dict[str, Callable[[Parameters], tuple[int, ...]]] = {
    **dict.fromkeys(_BY_NAME, lambda _: (_ACTING,)),
    "Acknowledge": lambda _: (_ACTING, _ROW),
    "Expire": lambda _: (_ROW,),
}

SUBJECT = Subject(SYSTEM, partial(any_parameters_of, Parameters), _any_state, _ARGUMENTS)
"""Any number of consumers, rows, permits and faults."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "kept-",
    promises=frozenset({"needed", "in-place", "each-row-once", "acknowledged", "nothing-lost", "end-whole"}),
)


def _any_consumers(parameters: Parameters) -> State:
    _is_one(parameters, _ACTING)
    consumers = Indexed.any_family(member_by_name(Consumer, "consumer."), parameters.consumers, focus={"0": _ACTING})
    return arbitrary(State, special={"consumers": consumers})


ANY = Subject(SYSTEM, partial(any_parameters_of, Parameters), _any_consumers, _ARGUMENTS, names=(_ACTING,))
"""Any number of consumers in any state at all."""


# Frames.


def _one(state: State) -> Consumer:
    return state.consumers.get(_ACTING)


def _lag(_name: int, one: Consumer, rows: int) -> int:
    return rows - one.acknowledged


def _forgets(after: State) -> bool:
    """The first row is the one that the slowest consumer needs, or the first that has not expired."""
    slowest = after.next - after.consumers.largest_by_name(_lag, after.next)
    return after.first == (slowest if slowest >= after.expired else after.expired)


def _in_phase(phase: str) -> Callable[[State, Parameters, int], bool]:
    return lambda state, _parameters, _name: _one(state).phase == phase


def _has_room(state: State, parameters: Parameters, more: int) -> bool:
    has_room = state.next - state.first < parameters.row_permits + more
    return not state.ended and state.next < parameters.horizon and has_room


def _begins(before: State, after: State, _parameters: Parameters) -> bool:
    one, old = _one(after), _one(before)
    if old.handled < old.acknowledged or old.handled < before.expired:
        return one.phase == "told" and one.at == old.at and one.sent == old.sent
    return one.phase == "reading" and one.at == old.handled and one.sent == old.handled


def _sends(before: State, after: State, _parameters: Parameters) -> bool:
    one, old = _one(after), _one(before)
    if old.sent < old.acknowledged or old.sent < before.expired:
        return one.phase == "away" and one.at == 0 and one.sent == 0 and after.misplaced == before.misplaced
    is_same = one.phase == "reading" and one.at == old.at and one.sent == old.sent + 1
    return is_same and after.misplaced == before.misplaced + (1 if old.sent < before.first else 0)


def _takes(before: State, after: State, _parameters: Parameters) -> bool:
    old = _one(before)
    return after.misplaced == before.misplaced + (0 if old.at == old.handled else 1)


def _may_acknowledge(state: State, _parameters: Parameters, _name: int, row: int) -> bool:
    return row <= _one(state).handled


def _acknowledges(before: State, after: State, _parameters: Parameters) -> bool:
    one, old = _one(after), _one(before)
    return one.acknowledged == (old.acknowledged if old.acknowledged > _ROW else _ROW) and _forgets(after)


def _is_largest(one: Consumer, expired: int) -> int:
    return one.acknowledged if one.acknowledged >= expired else expired


def _skips(before: State, after: State, _parameters: Parameters) -> bool:
    one, old = _one(after), _one(before)
    row = _is_largest(old, before.expired)
    is_there = one.acknowledged == row and one.handled == row and one.skipped - old.skipped == row - old.handled
    return is_there and not one.is_purged and _forgets(after)


def _may_end(state: State, _parameters: Parameters, _name: int) -> bool:
    one = _one(state)
    return one.phase == "reading" and state.ended and one.at == one.sent and one.sent == state.next


def _without_streams(before: State, after: State, _parameters: Parameters) -> bool:
    def has_none(one: Consumer, old: Consumer) -> bool:
        phase = one.phase == "away" if old.phase == "reading" else one.phase == old.phase
        return phase and one.at == 0 and one.sent == 0

    others = after.consumers.focus["others"]  # type: ignore[attr-defined]
    return all(has_none(after.consumers.get(name), before.consumers.get(name)) for name in (_ACTING, others))


def _of_acting(*fields: str) -> dict[str, Change]:
    return dict.fromkeys(f"consumers.0.{field}" for field in fields)


_STREAM = ("phase", "at", "sent")

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Done",
        when=lambda state, _: state.consumers.every(lambda one: one.phase == "done"),
        possible="where all have read the end",
    ),
    Frame(
        "ProduceBatch",
        {"next": +1},
        when=lambda state, parameters: _has_room(state, parameters, parameters.staging_rows),
        possible="before the end, up to Horizon, where permits and staging area have room",
    ),
    Frame("EndLog", {"ended": True}, when=lambda state, _: not state.ended, possible="once"),
    Frame(
        "LoseReading",
        {"faults": +1, "consumers.0.phase": "away", **_of_acting("at", "sent")},
        lambda _before, after, _: _one(after).at == 0 and _one(after).sent == 0,
        "it has no stream",
        when=lambda state, parameters, _: _one(state).phase == "reading" and state.faults < parameters.faults,
        possible="while it reads, up to Faults",
    ),
    Frame(
        "ChangeExchange",
        {
            "faults": +1,
            **_of_acting(*_STREAM),
            **dict.fromkeys(f"consumers.others.{field}" for field in _STREAM),
        },
        _without_streams,
        "nobody has a stream",
        when=lambda state, parameters: state.faults < parameters.faults,
        possible="up to Faults",
    ),
    Frame(
        "Expire",
        {"expired": None, "first": None},
        lambda _before, after, _: after.expired == _ROW and _forgets(after),
        "rows below this one have expired; what nobody needs is forgotten",
        when=lambda state, parameters, row: parameters.expires and state.first < row <= state.next,
        possible="for a row behind the first, where rows may expire",
    ),
    Frame(
        "PurgeConsumer",
        {"consumers.0.acknowledged": None, "consumers.0.is_purged": True, "first": None},
        lambda before, after, _: _one(after).acknowledged == before.next and _forgets(after),
        "it has acknowledged all; what nobody needs is forgotten",
        when=lambda state, parameters, _: parameters.expires and _one(state).acknowledged < state.next,
        possible="where rows may expire, and it has not acknowledged all",
    ),
    Frame(
        "Produce",
        {"next": +1},
        when=lambda state, parameters: _has_room(state, parameters, 0),
        possible="before the end, up to Horizon, where permits have room",
    ),
    Frame(
        "BeginReading",
        _of_acting(*_STREAM),
        _begins,
        "it reads from its own position; if rows from there on are gone, it is told",
        when=_in_phase("away"),
        possible="without a stream",
    ),
    Frame(
        "SendRow",
        {"misplaced": None, **_of_acting(*_STREAM)},
        _sends,
        "one row more is on its way; if it is gone, there is no stream any more",
        when=lambda state, _parameters, _name: _one(state).phase == "reading" and _one(state).sent < state.next,
        possible="in a stream, for a row that has come",
    ),
    Frame(
        "TakeRow",
        {"misplaced": None, "consumers.0.at": +1, "consumers.0.handled": +1, "consumers.0.taken": +1},
        _takes,
        "misplaced if it belongs elsewhere",
        when=lambda state, _parameters, _name: _one(state).phase == "reading" and _one(state).at < _one(state).sent,
        possible="for a row that is on its way",
    ),
    Frame(
        "Acknowledge",
        {"consumers.0.acknowledged": None, "first": None},
        _acknowledges,
        "its position is this row, if it was before it; what nobody needs is forgotten",
        when=_may_acknowledge,
        possible="for rows that it has handled",
    ),
    Frame(
        "SkipRows",
        {"consumers.0.phase": "away", "first": None, **_of_acting("acknowledged", "handled", "skipped", "is_purged")},
        _skips,
        "both positions are at the first row that it can be sent, and it is not purged; what nobody needs is forgotten",
        when=_in_phase("told"),
        possible="when it was told",
    ),
    Frame(
        "ReadLogEnd",
        {"consumers.0.phase": "done", **_of_acting("at", "sent")},
        lambda _before, after, _: _one(after).at == 0 and _one(after).sent == 0,
        "it has no stream",
        when=_may_end,
        possible="behind the end, when all was sent and taken",
    ),
)
"""What each action changes: in focus is a consumer that acts."""


def _with(state: State, **changed: object) -> State:
    """Any consumer is another one."""
    one = state.consumers.get(_ANY)._replace(**changed)  # type: ignore[arg-type]
    return state._replace(consumers=state.consumers.put(_ANY, one))


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No consumer is ahead of the rows that have come, and none of its numbers is negative.",
            lambda state, _: _with(state, handled=state.next + 1),
            "after the step one has handled a row that has not come",
        ),
        _CHAPTER.kept(
            "bounded",
            "KeptBounded",
            "The channel has at most its permits' rows, and those of the staging area.",
            lambda state, parameters: state._replace(
                next=state.first + parameters.row_permits + parameters.staging_rows + 1
            ),
            "after the step it has one more",
        ),
        _CHAPTER.kept(
            "needed",
            "NeededIsKept",
            "What a consumer has not acknowledged is there, unless it has expired, however far the others are.",
            lambda state, _: _with(state, acknowledged=state.first - 1)._replace(expired=state.first - 1),
            "after the step the row before it is needed",
        ),
        _CHAPTER.kept(
            "slowest",
            "RoomOfSlowest",
            "What nobody needs is not kept: some consumer has not acknowledged the first row that is there.",
            lambda state, _: state._replace(first=-1),
            "after the step a row is there that all have acknowledged",
        ),
        _CHAPTER.kept(
            "in-place",
            "InPlace",
            "No row is sent that is not there, and each is taken where it belongs: no hole but what the consumer was "
            "told, and no repetition.",
            lambda state, _: state._replace(misplaced=1),
            "after the step one is misplaced",
        ),
        _CHAPTER.kept(
            "each-row-once",
            "EachRowOnce",
            "Each consumer has taken each row below its own position once, or was told that it is gone.",
            lambda state, _: _with(state, taken=state.consumers.get(_ANY).taken + 1),
            "after the step one is taken twice",
        ),
        _CHAPTER.kept(
            "told",
            "Told",
            "A consumer is told so only if the row that it wants is gone.",
            lambda state, _: _with(state, phase="told", handled=state.next + 1),
            "after the step one is told that wants a row that has not come",
            about="BeginReading",
        ),
        _CHAPTER.kept(
            "acknowledged",
            "AcknowledgedIsHandled",
            "What is acknowledged in a consumer's name it has handled, unless an administrator has acknowledged it in "
            "its place since it was last told of a loss: expiry moves no position.",
            lambda state, _: _with(state, acknowledged=state.consumers.get(_ANY).handled + 1, is_purged=False),
            "after the step one has acknowledged one row more",
        ),
        _CHAPTER.kept(
            "nothing-lost",
            "NothingLost",
            "Where rows neither expire nor are purged, no consumer is told of a loss.",
            lambda state, _: _with(state, phase="told"),
            "after the step one is told",
            breaks=lambda state, _: has_lost_nothing(state.consumers.get(_ANY)),
        ),
        _CHAPTER.kept(
            "end-whole",
            "EndIsWholeLog",
            "A consumer that has read the end, or the error of a broken channel, has all rows but those of which it "
            "was told that they are gone, and no more come.",
            lambda state, _: _with(state, phase="done", handled=state.next - 1),
            "after the step one has read the end, and lacks a row",
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
