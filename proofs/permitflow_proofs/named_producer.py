"""A producer with a name: any number of starts, rows and faults, any window; each row is kept once and in order.

Streams are looked at by symbolic names: one that acts, one that it replaces, and any one, or the same.
"""

from collections.abc import Callable
from functools import partial

from permitflow_model.named_producer import (
    SYSTEM,
    Parameters,
    State,
    Stream,
    has_come,
    is_behind,
    is_bounded,
    is_holder,
    kept_in_order,
    notes_agree,
    stream_ok,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.indexed import Indexed, member_by_name
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.symbols import all_of, assume, function, merged
from permitflow_proofs.kernel.theorem import Theorem

_NAMES = tuple(function("name")(number) for number in range(3))
_ACTING, _OLDER, _ANY = _NAMES
"""The stream that acts, the one that it replaces, and any one, of which a clause is shown."""

_ROWS = function("written")(0)
"""Rows that are written together."""


def _ranges(state: State, parameters: Parameters) -> bool:
    return (
        state.log >= 0
        and state.noted >= 0
        and state.counted >= 0
        and state.writing >= 0
        and state.faults >= 0
        and 0 <= state.holder <= parameters.starts
        and 0 <= state.writer <= parameters.starts
    )


def _type_ok(state: State, parameters: Parameters, name: int) -> bool:
    return _ranges(state, parameters) and stream_ok(state.streams.get(name), parameters.rows)


def _in_order(state: State, parameters: Parameters, _name: int) -> bool:
    return kept_in_order(state, parameters)


def _agree(state: State, parameters: Parameters, _name: int) -> bool:
    return notes_agree(state, parameters)


def _one_holder(state: State, _parameters: Parameters, name: int) -> bool:
    return name < 0 or is_holder(name, state.streams.get(name), state.holder)


def _behind(state: State, _parameters: Parameters, name: int) -> bool:
    return is_behind(name, state.streams.get(name), state.holder, state.counted)


def _writes(state: State, _parameters: Parameters, name: int) -> bool:
    if (state.writer == 0) != (state.writing == 0) or (state.is_written and state.writer == 0):
        return False
    return has_come(name, state.streams.get(name), state.holder, state.writer, state.writing)


def _bounded(state: State, parameters: Parameters, name: int) -> bool:
    return is_bounded(state.streams.get(name), parameters.window)


_CLAUSES: dict[str, Callable[[State, Parameters, int], bool]] = {
    "TypeOK": _type_ok,
    "KeptInOrder": _in_order,
    "NotesAgree": _agree,
    "OneHolder": _one_holder,
    "GoesOnBehind": _behind,
    "WritesWhatCame": _writes,
    "OnTheWayBounded": _bounded,
}
"""What every reachable state satisfies, of each stream; proved by induction."""


def _of_any(clause: Callable[[State, Parameters, int], bool]) -> Clause[State, Parameters]:
    return lambda state, parameters: merged(partial(clause, state, parameters, _ANY))


INVARIANT: dict[str, Clause[State, Parameters]] = {name: _of_any(clause) for name, clause in _CLAUSES.items()}


def _any_state(parameters: Parameters) -> State:
    """Any state of any number of starts that satisfies the invariant."""
    for name in _NAMES:
        assume(all_of((name >= 0, name < parameters.starts)))
    assume(_ROWS >= 1)
    streams = Indexed.any_family(member_by_name(Stream, "stream."), parameters.starts, *_NAMES)
    state = arbitrary(State, special={"streams": streams})
    assume(merged(partial(_ranges, state, parameters)))
    for clause in _CLAUSES.values():
        streams.assume_every(partial(clause, state, parameters))
    return state


_BY_NAME = ("DialAs", "LosePutting", "FailWrite", "PutRow", "NoticePutting", "FreeName", "TakeName")
_ARGUMENTS: dict[str, Callable[[Parameters], tuple[int, ...]]] = {
    **dict.fromkeys((*_BY_NAME, "WriteRows", "NoteRows"), lambda _: (_ACTING,)),
    "ReplaceHolder": lambda _: (_ACTING, _OLDER),
    "BeginWrite": lambda _: (_ACTING, _ROWS),
}

SUBJECT = Subject(SYSTEM, partial(any_parameters_of, Parameters), _any_state, _ARGUMENTS)
"""Any number of starts, rows and faults."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "named-", promises=frozenset({"in-order", "one-holder"}))


def _with(state: State, **changed: object) -> State:
    """Any stream is another one."""
    one = state.streams.get(_ANY)._replace(**changed)  # type: ignore[arg-type]
    return state._replace(streams=state.streams.put(_ANY, one))


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No stream is ahead of the producer's rows, and none of its numbers is negative.",
            lambda state, parameters: _with(state, sent=parameters.rows + 1),
            "after the step one has sent a row that the producer has not",
        ),
        _CHAPTER.kept(
            "in-order",
            "KeptInOrder",
            "The log has each of the name's rows once and in order, however often the producer is started, whatever is "
            "lost, and whichever writes fail.",
            lambda state, _: state._replace(misplaced=1),
            "after the step one is misplaced",
        ),
        _CHAPTER.kept(
            "notes-agree",
            "NotesAgree",
            "The store's note says how many rows of the name it has, and the books say so, too, but for rows that were "
            "just written.",
            lambda state, _: state._replace(noted=state.log - 1),
            "after the step the note lacks a row",
        ),
        _CHAPTER.kept(
            "one-holder",
            "OneHolder",
            "One stream at most has the name, also while an older start of the producer still runs.",
            lambda state, _: _with(state, phase="open")._replace(holder=0),
            "after the step one puts that has not got it",
        ),
        _CHAPTER.kept(
            "goes-on-behind",
            "GoesOnBehind",
            "The stream that has the name goes on where the log ends.",
            lambda state, _: _with(state, at=state.counted + 1)._replace(holder=_ANY + 1),
            "after the step it leaves out a row",
        ),
        _CHAPTER.kept(
            "writes-what-came",
            "WritesWhatCame",
            "What is being written has come from the stream that has the name, which keeps it until this is over.",
            lambda state, _: state._replace(writer=_ANY + 1, writing=1, holder=0),
            "after the step nobody has the name",
        ),
        _CHAPTER.kept(
            "bounded",
            "OnTheWayBounded",
            "No more rows are on their way in a stream than its permits are for.",
            lambda state, parameters: _with(state, sent=state.streams.get(_ANY).at + parameters.window + 1),
            "after the step one more is",
        ),
    )
