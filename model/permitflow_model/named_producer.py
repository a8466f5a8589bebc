"""``NamedProducer.tla``, action for action: a producer with a name puts rows into a channel that keeps them.

docs/protocols/kept-channel.md explains it.  Starts are numbered from 0; ``holder`` and ``writer`` count from 1, as in
the specification, where 0 is none.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple, cast

from permitflow_model.kernel.family import NamedFamily, family
from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

Phase = Literal["new", "asking", "open", "leaving", "over"]


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    starts: Positive
    """Of the producer, at most; each has a stream."""

    rows: Natural
    """Rows that it has."""

    window: Positive
    """Rows that may be on their way in a stream."""

    faults: Natural = 0
    """Writes that fail, and exchanges that change, at most."""


class Stream(NamedTuple):
    """The stream of a start."""

    phase: Phase
    is_lost: bool
    """... and the exchange does not know yet."""
    at: int
    """The row that is kept next from it."""
    sent: int
    """The row that it sends next; those from ``at`` on are on their way."""


class State(NamedTuple):
    """The variables of the specification."""

    log: int
    """Rows of this name that the store has."""
    noted: int
    """... as it has noted beside them."""
    counted: int
    """... as the exchange's books say."""
    misplaced: int
    """Rows that were kept where others belong."""
    holder: int
    """The stream that has the name."""
    writer: int
    """The stream whose rows are being written."""
    writing: int
    """How many these are."""
    is_written: bool
    """Has the store got them?"""
    faults: int
    streams: NamedFamily[Stream]


NEW = Stream("new", is_lost=False, at=0, sent=0)


def initial(parameters: Parameters) -> State:
    """The producer was not started."""
    streams = cast("NamedFamily[Stream]", family(NEW, parameters.starts))
    return State(0, 0, 0, 0, holder=0, writer=0, writing=0, is_written=False, faults=0, streams=streams)


def _with(state: State, name: int, one: Stream) -> State:
    return state._replace(streams=state.streams.put(name, one))


def _becomes(state: State, name: int, phase: Phase) -> State:
    return _with(state, name, state.streams.get(name)._replace(phase=phase))


def over(one: Stream) -> Stream:
    """It has ended, if it was begun."""
    return one if one.phase == "new" else NEW._replace(phase="over")


def is_served(one: Stream) -> bool:
    """Has it asked, and does the exchange go on with it?"""
    return one.phase == "asking" or one.phase == "open"


def _failing(state: State, parameters: Parameters) -> State:
    require(state.faults < parameters.faults)
    return state._replace(faults=state.faults + 1)


def _without_write(state: State) -> State:
    return state._replace(writer=0, writing=0, is_written=False)


# The producer.


def dial_as(state: State, _parameters: Parameters, name: int) -> State:
    """It is started, perhaps while an older start of its still runs."""
    require(state.streams.get(name).phase == "new")
    return _becomes(state, name, "asking")


def put_row(state: State, parameters: Parameters, name: int) -> State:
    """A row leaves."""
    one = state.streams.get(name)
    require(one.phase == "open")
    require(not one.is_lost)
    require(one.sent < parameters.rows)
    require(one.sent - one.at < parameters.window)
    return _with(state, name, one._replace(sent=one.sent + 1))


def lose_putting(state: State, _parameters: Parameters, name: int) -> State:
    """It is lost, and the exchange does not know yet: it may still get the name, and what is on its way may be kept."""
    one = state.streams.get(name)
    require(is_served(one))
    require(not one.is_lost)
    return _with(state, name, one._replace(is_lost=True))


# The exchange.


def notice_putting(state: State, _parameters: Parameters, name: int) -> State:
    """The exchange learns of it."""
    one = state.streams.get(name)
    require(is_served(one))
    require(one.is_lost)
    return _with(state, name, over(one) if one.phase == "asking" else one._replace(phase="leaving"))


def replace_holder(state: State, _parameters: Parameters, name: int, older: int) -> State:
    """A newer start asks for the name: nothing more of the older one is kept, but what is being written."""
    require(state.streams.get(name).phase == "asking")
    require(state.holder == older + 1)
    require(state.streams.get(older).phase == "open")
    return _becomes(state, older, "leaving")


def free_name(state: State, _parameters: Parameters, name: int) -> State:
    """The name is free once nothing of it is being written."""
    one = state.streams.get(name)
    require(state.holder == name + 1)
    require(one.phase == "leaving")
    require(state.writer != name + 1)
    return _with(state, name, over(one))._replace(holder=0)


def take_name(state: State, _parameters: Parameters, name: int) -> State:
    """It has the name, and is told how many rows are kept."""
    require(state.holder == 0)
    one = state.streams.get(name)
    require(one.phase == "asking")
    opened = one._replace(phase="open", at=state.counted, sent=state.counted)
    return _with(state, name, opened)._replace(holder=name + 1)


def begin_write(state: State, _parameters: Parameters, name: int, rows: int) -> State:
    """Rows that have come are written, all or none of them."""
    one = state.streams.get(name)
    require(state.writer == 0)
    require(state.holder == name + 1)
    require(one.phase == "open")
    require(rows <= one.sent - one.at)
    return state._replace(writer=name + 1, writing=rows)


def write_rows(state: State, _parameters: Parameters, name: int) -> State:
    """The store has them, and notes with them how many of the name these are."""
    require(state.writer == name + 1)
    require(not state.is_written)
    is_in_place = state.streams.get(name).at == state.log
    return state._replace(
        is_written=True,
        log=state.log + state.writing,
        noted=state.counted + state.writing,
        misplaced=state.misplaced if is_in_place else state.misplaced + state.writing,
    )


def note_rows(state: State, _parameters: Parameters, name: int) -> State:
    """The books learn of it, and the producer's permits return."""
    one = state.streams.get(name)
    require(state.writer == name + 1)
    require(state.is_written)
    after = _with(state, name, one._replace(at=one.at + state.writing))
    return _without_write(after._replace(counted=state.counted + state.writing))


def fail_write(state: State, parameters: Parameters, name: int) -> State:
    """The store refuses them, and the stream ends."""
    require(state.writer == name + 1)
    require(not state.is_written)
    return _failing(_without_write(_becomes(state, name, "leaving")), parameters)


def change_exchange(state: State, parameters: Parameters) -> State:
    """Another exchange takes the channel: it has what the store has, and no streams."""
    streams = cast("NamedFamily[Stream]", state.streams.map(over))
    return _failing(_without_write(state._replace(counted=state.noted, holder=0, streams=streams)), parameters)


def is_over(one: Stream) -> bool:
    """Has it ended?"""
    return one.phase == "over"


def done(state: State, parameters: Parameters) -> State:
    """All rows are kept, or the producer is not started any more."""
    all_over = state.streams.every(is_over)
    require(state.log == parameters.rows or all_over)
    return state


# Invariants.


def stream_ok(one: Stream, rows: int) -> bool:
    """Of one stream: are its numbers in their ranges?"""
    return 0 <= one.at <= one.sent <= rows


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    streams = state.streams.every(stream_ok, parameters.rows)
    counts = min(state.log, state.noted, state.counted, state.misplaced, state.writing, state.faults) >= 0
    return streams and counts and 0 <= state.holder <= parameters.starts and 0 <= state.writer <= parameters.starts


def kept_in_order(state: State, parameters: Parameters) -> bool:
    """The log has the name's rows, each once and in order."""
    return state.misplaced == 0 and state.log <= parameters.rows


def notes_agree(state: State, _parameters: Parameters) -> bool:
    """The store's note says how many these are, and the books say so, too, but for rows that were just written."""
    unheard = state.writing if state.is_written else 0
    return state.noted == state.log and state.counted == state.log - unheard


def has_name(one: Stream) -> bool:
    """Has it the name?"""
    return one.phase == "open" or one.phase == "leaving"


def is_holder(name: int, one: Stream, holder: int) -> bool:
    """Of one stream: has it the name if it is the holder, and else not?"""
    return has_name(one) == (holder == name + 1)


def one_holder(state: State, _parameters: Parameters) -> bool:
    """One stream at most has the name."""
    return state.streams.every_by_name(is_holder, state.holder)


def is_behind(name: int, one: Stream, holder: int, counted: int) -> bool:
    """Of one stream: does it go on where the log ends, if it has the name?"""
    return holder != name + 1 or one.at == counted


def goes_on_behind(state: State, _parameters: Parameters) -> bool:
    """The one that has the name goes on where the log ends."""
    return state.streams.every_by_name(is_behind, state.holder, state.counted)


def has_come(name: int, one: Stream, holder: int, writer: int, writing: int) -> bool:
    """Of one stream: has what is being written for it come, and has it the name?"""
    return writer != name + 1 or (holder == name + 1 and writing <= one.sent - one.at)


def writes_what_came(state: State, _parameters: Parameters) -> bool:
    """What is being written has come, from the stream that has the name."""
    if (state.writer == 0) != (state.writing == 0) or (state.is_written and state.writer == 0):
        return False
    return state.streams.every_by_name(has_come, state.holder, state.writer, state.writing)


def is_bounded(one: Stream, window: int) -> bool:
    """Of one stream: are no more rows on their way than its permits are for?"""
    return one.sent - one.at <= window


def on_the_way_bounded(state: State, parameters: Parameters) -> bool:
    """No more rows are on their way than its permits are for."""
    return state.streams.every(is_bounded, parameters.window)


# Probes.


def is_not_late(name: int, one: Stream, writer: int, is_written: bool) -> bool:
    """Of one stream: is nothing written for it, if it is leaving?"""
    return not (writer == name + 1 and is_written and one.phase == "leaving")


def late_write(state: State, _parameters: Parameters) -> bool:
    """Nothing of a stream is written any more that another one replaces."""
    return state.streams.every_by_name(is_not_late, state.writer, state.is_written)


def _names(parameters: Parameters) -> Iterable[tuple[int]]:
    return ((name,) for name in range(parameters.starts))


def _pairs(parameters: Parameters) -> Iterable[tuple[int, int]]:
    return product(range(parameters.starts), range(parameters.starts))


def _names_and_rows(parameters: Parameters) -> Iterable[tuple[int, int]]:
    return product(range(parameters.starts), range(1, parameters.window + 1))


SYSTEM: System[State, Parameters] = System(
    module="NamedProducer",
    initial=initial,
    actions=(
        Action("Done", done, is_environment=True),
        Action("DialAs", dial_as, _names, is_environment=True),
        Action("LosePutting", lose_putting, _names, is_environment=True),
        Action("FailWrite", fail_write, _names, is_environment=True),
        Action("ChangeExchange", change_exchange, is_environment=True),
        Action("PutRow", put_row, _names),
        Action("NoticePutting", notice_putting, _names),
        Action("ReplaceHolder", replace_holder, _pairs),
        Action("FreeName", free_name, _names),
        Action("TakeName", take_name, _names),
        Action("BeginWrite", begin_write, _names_and_rows),
        Action("WriteRows", write_rows, _names),
        Action("NoteRows", note_rows, _names),
    ),
    invariants={
        "TypeOK": type_ok,
        "KeptInOrder": kept_in_order,
        "NotesAgree": notes_agree,
        "OneHolder": one_holder,
        "GoesOnBehind": goes_on_behind,
        "WritesWhatCame": writes_what_came,
        "OnTheWayBounded": on_the_way_bounded,
    },
    probes={"LateWriteProbe": late_write},
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.named_producer:theorems")
