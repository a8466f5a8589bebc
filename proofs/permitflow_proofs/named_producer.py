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
    is_over,
    kept_in_order,
    notes_agree,
    stream_ok,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import Change, Frame
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


# Frames: in focus is the stream that acts; of ReplaceHolder, the one that is replaced.


def _any_streams(parameters: Parameters) -> State:
    for name in (_ACTING, _OLDER):
        assume(all_of((name >= 0, name < parameters.starts)))
    assume(_ROWS >= 1)
    stream = member_by_name(Stream, "stream.")
    streams = Indexed.any_family(stream, parameters.starts, _OLDER, focus={"0": _ACTING})
    return arbitrary(State, special={"streams": streams})


_CALLS = {**_ARGUMENTS, "ReplaceHolder": lambda _: (_OLDER, _ACTING)}

ANY = Subject(SYSTEM, partial(any_parameters_of, Parameters), _any_streams, _CALLS)
"""Any number of starts in any state at all."""


def _one(state: State) -> Stream:
    return state.streams.get(_ACTING)


def _is_in(phase: str) -> Callable[[State, Parameters, int], bool]:
    return lambda state, _parameters, _name: _one(state).phase == phase


def _may_lose(state: State, _parameters: Parameters, _name: int) -> bool:
    one = _one(state)
    return (one.phase == "asking" or one.phase == "open") and not one.is_lost


def _may_notice(state: State, _parameters: Parameters, _name: int) -> bool:
    one = _one(state)
    return (one.phase == "asking" or one.phase == "open") and one.is_lost


def _may_put(state: State, parameters: Parameters, _name: int) -> bool:
    one = _one(state)
    has_more = one.sent < parameters.rows and one.sent - one.at < parameters.window
    return one.phase == "open" and not one.is_lost and has_more


def _may_replace(state: State, _parameters: Parameters, newer: int, _older: int) -> bool:
    is_asked = state.streams.get(newer).phase == "asking"
    return is_asked and state.holder == _ACTING + 1 and _one(state).phase == "open"


def _may_free(state: State, _parameters: Parameters, _name: int) -> bool:
    return state.holder == _ACTING + 1 and _one(state).phase == "leaving" and state.writer != _ACTING + 1


def _may_begin(state: State, _parameters: Parameters, _name: int, rows: int) -> bool:
    one = _one(state)
    is_free = state.writer == 0 and state.holder == _ACTING + 1
    return is_free and one.phase == "open" and rows <= one.sent - one.at


def _may_fail(state: State, parameters: Parameters, _name: int) -> bool:
    return state.writer == _ACTING + 1 and not state.is_written and state.faults < parameters.faults


def _is_ended(one: Stream) -> bool:
    return one.phase == "over" and not one.is_lost and one.at == 0 and one.sent == 0


def _ends(_before: State, after: State, _parameters: Parameters) -> bool:
    return _is_ended(_one(after))


def _frees(before: State, after: State, parameters: Parameters) -> bool:
    return _ends(before, after, parameters) and after.holder == 0


def _notices(before: State, after: State, _parameters: Parameters) -> bool:
    one, old = _one(after), _one(before)
    if old.phase == "asking":
        return _is_ended(one)
    return one.phase == "leaving" and one.is_lost and one.at == old.at and one.sent == old.sent


def _takes(before: State, after: State, _parameters: Parameters) -> bool:
    one = _one(after)
    return after.holder == _ACTING + 1 and one.at == before.counted and one.sent == before.counted


def _begins(_before: State, after: State, _parameters: Parameters) -> bool:
    return after.writer == _ACTING + 1 and after.writing == _ROWS


def _writes_all(before: State, after: State, _parameters: Parameters) -> bool:
    misplaced = 0 if _one(before).at == before.log else before.writing
    is_there = after.log - before.log == before.writing and after.noted == before.counted + before.writing
    return is_there and after.misplaced - before.misplaced == misplaced


def _is_quiet(state: State) -> bool:
    return state.writer == 0 and state.writing == 0


def _counts(before: State, after: State, _parameters: Parameters) -> bool:
    is_counted = after.counted - before.counted == before.writing
    return is_counted and _one(after).at - _one(before).at == before.writing and _is_quiet(after)


def _changes(before: State, after: State, _parameters: Parameters) -> bool:
    def is_cut(name: int) -> bool:
        one, old = after.streams.get(name), before.streams.get(name)
        if old.phase == "new":
            return one.phase == "new" and one.is_lost == old.is_lost and one.at == old.at and one.sent == old.sent
        return _is_ended(one)

    others = after.streams.focus["others"]  # type: ignore[attr-defined]
    has_none = after.counted == before.noted and after.holder == 0 and _is_quiet(after)
    return has_none and is_cut(_ACTING) and is_cut(others)


def _of(which: str, *fields: str) -> dict[str, Change]:
    return dict.fromkeys(f"streams.{which}.{field}" for field in fields)


_STREAM = ("phase", "is_lost", "at", "sent")
_NO_WRITE: dict[str, Change] = {"writer": None, "writing": None}

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Done",
        when=lambda state, parameters: state.log == parameters.rows or state.streams.every(is_over),
        possible="where all rows are kept, or all starts are over",
    ),
    Frame("DialAs", {"streams.0.phase": "asking"}, when=_is_in("new"), possible="once"),
    Frame(
        "LosePutting",
        {"streams.0.is_lost": True},
        when=_may_lose,
        possible="while it asks or puts, once",
    ),
    Frame(
        "FailWrite",
        {"faults": +1, "streams.0.phase": "leaving", **_NO_WRITE},
        lambda _before, after, _: _is_quiet(after),
        "nothing is being written",
        when=_may_fail,
        possible="while its rows are being written, and are not there, up to Faults",
    ),
    Frame(
        "ChangeExchange",
        {
            **{"faults": +1, "counted": None, "holder": None, "is_written": False},
            **_NO_WRITE,
            **_of("0", *_STREAM),
            **_of("others", *_STREAM),
        },
        _changes,
        "the books say what is noted; nobody has the name, nothing is being written, and each stream that was begun is "
        "over",
        when=lambda state, parameters: state.faults < parameters.faults,
        possible="up to Faults",
    ),
    Frame(
        "PutRow",
        {"streams.0.sent": +1},
        when=_may_put,
        possible="while it has the name and is not lost, up to Rows and its permits",
    ),
    Frame(
        "NoticePutting",
        _of("0", *_STREAM),
        _notices,
        "one that asks is over, one that puts leaves",
        when=_may_notice,
        possible="for one that is lost and asks or puts",
    ),
    Frame(
        "ReplaceHolder",
        {"streams.0.phase": "leaving"},
        words="0 is the older one",
        when=_may_replace,
        possible="while 0 has the name and puts, and another one asks",
    ),
    Frame(
        "FreeName",
        {"holder": None, "streams.0.phase": "over", "streams.0.is_lost": False, **_of("0", "at", "sent")},
        _frees,
        "nobody has the name, and the stream is over",
        when=_may_free,
        possible="while it has the name and leaves, and nothing of it is being written",
    ),
    Frame(
        "TakeName",
        {"holder": None, "streams.0.phase": "open", **_of("0", "at", "sent")},
        _takes,
        "it has the name, and goes on behind what the books say",
        when=lambda state, _parameters, _name: state.holder == 0 and _one(state).phase == "asking",
        possible="while it asks, and nobody has the name",
    ),
    Frame(
        "BeginWrite",
        dict(_NO_WRITE),
        _begins,
        "this many of its rows are being written",
        when=_may_begin,
        possible="while it has the name and puts, nothing is being written, and that many have come",
    ),
    Frame(
        "WriteRows",
        {"log": None, "noted": None, "misplaced": None, "is_written": True},
        _writes_all,
        "the log has them; the note says what the books say, and them; misplaced if it goes on elsewhere",
        when=lambda state, _parameters, _name: state.writer == _ACTING + 1 and not state.is_written,
        possible="while its rows are being written, and are not there",
    ),
    Frame(
        "NoteRows",
        {"counted": None, "is_written": False, **_NO_WRITE, **_of("0", "at")},
        _counts,
        "the books and the stream count them, and nothing is being written",
        when=lambda state, _parameters, _name: state.writer == _ACTING + 1 and state.is_written,
        possible="once its rows are there",
    ),
)
"""What each action changes."""


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
        _CHAPTER.framed(FRAMES, ANY),
    )
