"""``KeptChannel.tla``, action for action: a channel that keeps its rows for several consumers, each by its name.

docs/protocols/kept-channel.md explains it.  Consumers are numbered from 0.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple, cast

from permitflow_model.kernel.family import NamedFamily, family
from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

Phase = Literal["away", "reading", "told", "done"]


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    consumers: Positive
    """How many consumers rows are kept for."""

    row_permits: Positive
    """Rows that producers may have in the channel."""

    staging_rows: Natural = 0
    """Rows that jobs may publish beyond these."""

    horizon: Natural
    """Rows that come at most."""

    expires: bool = False
    """May rows expire before they are acknowledged, or be purged?"""

    faults: Natural = 0
    """Streams that are lost, and exchanges that change, at most."""


class Consumer(NamedTuple):
    """A consumer, and its stream."""

    acknowledged: int
    """Its position: it needs no row below this."""
    handled: int
    """Its own position, with its results."""
    taken: int
    """Rows that it has taken."""
    skipped: int
    """Rows of which it was told that they are gone."""
    is_purged: bool
    """Has an administrator acknowledged in its place, since it was last told?"""
    phase: Phase
    at: int
    """The row of its stream that it takes next."""
    sent: int
    """The row that is sent next; those from ``at`` on are on their way."""


class State(NamedTuple):
    """The variables of the specification."""

    next: int
    first: int
    expired: int
    ended: bool
    faults: int
    misplaced: int
    consumers: NamedFamily[Consumer]


BEFORE = Consumer(acknowledged=0, handled=0, taken=0, skipped=0, is_purged=False, phase="away", at=0, sent=0)


def initial(parameters: Parameters) -> State:
    """No row has come, and nobody reads."""
    consumers = cast("NamedFamily[Consumer]", family(BEFORE, parameters.consumers))
    return State(next=0, first=0, expired=0, ended=False, faults=0, misplaced=0, consumers=consumers)


def first_of(one: Consumer, expired: int) -> int:
    """The first row that it can still be sent."""
    return max(one.acknowledged, expired)


def lag(_name: int, one: Consumer, rows: int) -> int:
    """How many of this many rows it has not acknowledged."""
    return rows - one.acknowledged


def _needed(state: State, gone: int) -> int:
    """The first row that a consumer needs, where rows below ``gone`` have expired."""
    return max(gone, state.next - state.consumers.largest_by_name(lag, state.next))


def _with(state: State, name: int, one: Consumer) -> State:
    return state._replace(consumers=state.consumers.put(name, one))


def _noted(state: State, name: int, one: Consumer) -> State:
    """A consumer is another one, and what nobody needs is forgotten."""
    after = _with(state, name, one)
    return after._replace(first=_needed(after, after.expired))


def _failing(state: State, parameters: Parameters) -> State:
    require(state.faults < parameters.faults)
    return state._replace(faults=state.faults + 1)


def stopped(one: Consumer) -> Consumer:
    """It has no stream."""
    return one._replace(phase="away" if one.phase == "reading" else one.phase, at=0, sent=0)


# Producers.


def _come(state: State, parameters: Parameters, limit: int) -> State:
    require(not state.ended)
    require(state.next < parameters.horizon)
    require(state.next - state.first < limit)
    return state._replace(next=state.next + 1)


def produce(state: State, parameters: Parameters) -> State:
    """A row is kept, if there is room."""
    return _come(state, parameters, parameters.row_permits)


def produce_batch(state: State, parameters: Parameters) -> State:
    """A job's rows are published: they are there at once, permits or not."""
    return _come(state, parameters, parameters.row_permits + parameters.staging_rows)


def end_log(state: State, _parameters: Parameters) -> State:
    """No more rows come: a producer has ended the channel, or broken it."""
    require(not state.ended)
    return state._replace(ended=True)


# A consumer.


def begin_reading(state: State, _parameters: Parameters, name: int) -> State:
    """It reads on from its own position, or is told that rows from there on are gone."""
    one = state.consumers.get(name)
    require(one.phase == "away")
    if one.handled < first_of(one, state.expired):
        return _with(state, name, one._replace(phase="told"))
    return _with(state, name, one._replace(phase="reading", at=one.handled, sent=one.handled))


def send_row(state: State, _parameters: Parameters, name: int) -> State:
    """The exchange sends the next row; if it is gone meanwhile, the stream breaks."""
    one = state.consumers.get(name)
    require(one.phase == "reading")
    require(one.sent < state.next)
    if one.sent < first_of(one, state.expired):
        return _with(state, name, stopped(one))
    misplaced = state.misplaced + 1 if one.sent < state.first else state.misplaced
    return _with(state, name, one._replace(sent=one.sent + 1))._replace(misplaced=misplaced)


def take_row(state: State, _parameters: Parameters, name: int) -> State:
    """It takes a row, and keeps its position with its results."""
    one = state.consumers.get(name)
    require(one.phase == "reading")
    require(one.at < one.sent)
    after = one._replace(at=one.at + 1, handled=one.handled + 1, taken=one.taken + 1)
    misplaced = state.misplaced if one.at == one.handled else state.misplaced + 1
    return _with(state, name, after)._replace(misplaced=misplaced)


def acknowledge(state: State, _parameters: Parameters, name: int, row: int) -> State:
    """It needs no row below this one: an order that may come late, or twice."""
    one = state.consumers.get(name)
    require(row <= one.handled)
    return _noted(state, name, one._replace(acknowledged=max(one.acknowledged, row)))


def skip_rows(state: State, _parameters: Parameters, name: int) -> State:
    """It was told that rows are gone: it goes on behind them, and acknowledges them."""
    one = state.consumers.get(name)
    require(one.phase == "told")
    row = first_of(one, state.expired)
    skipped = one.skipped + (row - one.handled)
    told = one._replace(acknowledged=row, handled=row, skipped=skipped, is_purged=False, phase="away")
    return _noted(state, name, told)


def read_log_end(state: State, _parameters: Parameters, name: int) -> State:
    """It has taken all rows, and reads the end, or the error of a broken channel."""
    one = state.consumers.get(name)
    require(one.phase == "reading")
    require(state.ended)
    require(one.at == one.sent)
    require(one.sent == state.next)
    return _with(state, name, stopped(one)._replace(phase="done"))


# What goes wrong, and administration.


def lose_reading(state: State, parameters: Parameters, name: int) -> State:
    """Its stream is lost, with what is on its way; or it leaves."""
    one = state.consumers.get(name)
    require(one.phase == "reading")
    return _with(_failing(state, parameters), name, stopped(one))


def change_exchange(state: State, parameters: Parameters) -> State:
    """Another exchange takes the channel: it has the rows and the positions, and no streams."""
    consumers = cast("NamedFamily[Consumer]", state.consumers.map(stopped))
    return _failing(state, parameters)._replace(consumers=consumers)


def expire(state: State, parameters: Parameters, row: int) -> State:
    """Rows have been there for too long, or take too many bytes."""
    require(parameters.expires)
    require(state.first < row)
    require(row <= state.next)
    return state._replace(expired=row, first=_needed(state, row))


def purge_consumer(state: State, parameters: Parameters, name: int) -> State:
    """An administrator acknowledges all there is, in a consumer's place."""
    one = state.consumers.get(name)
    require(parameters.expires)
    require(one.acknowledged < state.next)
    return _noted(state, name, one._replace(acknowledged=state.next, is_purged=True))


def is_done(one: Consumer) -> bool:
    """Has it read the end?"""
    return one.phase == "done"


def done(state: State, _parameters: Parameters) -> State:
    """All consumers have all rows."""
    require(state.consumers.every(is_done))
    return state


# Invariants.


def consumer_ok(one: Consumer, rows: int) -> bool:
    """Of one consumer: are its numbers in their ranges?"""
    return (
        0 <= one.acknowledged <= rows
        and 0 <= one.handled <= rows
        and one.taken >= 0
        and one.skipped >= 0
        and 0 <= one.at <= one.sent <= rows
    )


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    consumers = state.consumers.every(consumer_ok, state.next)
    is_ordered = 0 <= state.expired <= state.first <= state.next <= parameters.horizon
    return consumers and is_ordered and min(state.faults, state.misplaced) >= 0


def kept_bounded(state: State, parameters: Parameters) -> bool:
    """The channel has at most the permits' rows, and the staged ones."""
    return state.next - state.first <= parameters.row_permits + parameters.staging_rows


def is_needed_kept(one: Consumer, first: int, expired: int) -> bool:
    """Of one consumer: is what it has not acknowledged there, unless it has expired?"""
    return first <= first_of(one, expired)


def needed_is_kept(state: State, _parameters: Parameters) -> bool:
    """What a consumer has not acknowledged is there, unless it has expired."""
    return state.consumers.every(is_needed_kept, state.first, state.expired)


def is_ahead(one: Consumer, row: int) -> bool:
    """Does it not need this row any more?"""
    return one.acknowledged > row


def room_of_slowest(state: State, _parameters: Parameters) -> bool:
    """What nobody needs is not kept: the room is that of the slowest consumer."""
    return not state.consumers.every(is_ahead, state.first)


def is_in_place(one: Consumer) -> bool:
    """Of one consumer: does its stream go on where it has stopped?"""
    return one.phase != "reading" or one.at == one.handled


def in_place(state: State, _parameters: Parameters) -> bool:
    """A row is sent only while it is there, and taken where it belongs."""
    consumers = state.consumers.every(is_in_place)
    return state.misplaced == 0 and consumers


def has_each_once(one: Consumer) -> bool:
    """Of one consumer: has it taken each row once, or was told that it is gone?"""
    return one.taken + one.skipped == one.handled


def each_row_once(state: State, _parameters: Parameters) -> bool:
    """Each consumer has taken each row once, or was told that it is gone."""
    return state.consumers.every(has_each_once)


def has_handled(one: Consumer) -> bool:
    """Of one consumer: has it handled what is acknowledged, unless somebody else has acknowledged it?"""
    return one.is_purged or one.acknowledged <= one.handled


def acknowledged_is_handled(state: State, _parameters: Parameters) -> bool:
    """Nobody but an administrator acknowledges in its place what a consumer has not handled."""
    return state.consumers.every(has_handled)


def has_lost_nothing(one: Consumer) -> bool:
    """Of one consumer: was it told nothing, and nothing purged?"""
    return one.phase != "told" and not one.is_purged


def nothing_lost(state: State, parameters: Parameters) -> bool:
    """Without expiry and purges nobody is told so."""
    return parameters.expires or state.consumers.every(has_lost_nothing)


def has_all_at_end(one: Consumer, ended: bool, rows: int) -> bool:
    """Of one consumer: if it has read the end, has it all rows, and come no more?"""
    return one.phase != "done" or (ended and one.handled == rows)


def end_is_whole(state: State, _parameters: Parameters) -> bool:
    """A consumer that has read the end, or the error of a broken channel, has all rows."""
    return state.consumers.every(has_all_at_end, state.ended, state.next)


# Probes.


def is_not_told(one: Consumer) -> bool:
    """Has it heard of no loss?"""
    return one.phase != "told"


def nobody_told(state: State, _parameters: Parameters) -> bool:
    """A consumer hears of no loss."""
    return state.consumers.every(is_not_told)


def lacks_some(one: Consumer, rows: int) -> bool:
    """Has it not acknowledged all of this many rows?"""
    return one.acknowledged < rows


def room_of_fastest(state: State, parameters: Parameters) -> bool:
    """While one consumer has acknowledged all rows, there is room for more."""
    all_lack_some = state.consumers.every(lacks_some, state.next)
    return all_lack_some or state.next - state.first < parameters.row_permits


def _names(parameters: Parameters) -> Iterable[tuple[int]]:
    return ((name,) for name in range(parameters.consumers))


def _rows(parameters: Parameters) -> Iterable[tuple[int]]:
    return ((row,) for row in range(1, parameters.horizon + 1))


def _names_and_rows(parameters: Parameters) -> Iterable[tuple[int, int]]:
    return product(range(parameters.consumers), range(1, parameters.horizon + 1))


SYSTEM: System[State, Parameters] = System(
    module="KeptChannel",
    initial=initial,
    actions=(
        Action("Done", done, is_environment=True),
        Action("ProduceBatch", produce_batch, is_environment=True),
        Action("EndLog", end_log, is_environment=True),
        Action("LoseReading", lose_reading, _names, is_environment=True),
        Action("ChangeExchange", change_exchange, is_environment=True),
        Action("Expire", expire, _rows, is_environment=True),
        Action("PurgeConsumer", purge_consumer, _names, is_environment=True),
        Action("Produce", produce),
        Action("BeginReading", begin_reading, _names),
        Action("SendRow", send_row, _names),
        Action("TakeRow", take_row, _names),
        Action("Acknowledge", acknowledge, _names_and_rows),
        Action("SkipRows", skip_rows, _names),
        Action("ReadLogEnd", read_log_end, _names),
    ),
    invariants={
        "TypeOK": type_ok,
        "KeptBounded": kept_bounded,
        "NeededIsKept": needed_is_kept,
        "RoomOfSlowest": room_of_slowest,
        "InPlace": in_place,
        "EachRowOnce": each_row_once,
        "AcknowledgedIsHandled": acknowledged_is_handled,
        "NothingLost": nothing_lost,
        "EndIsWholeLog": end_is_whole,
    },
    probes={"NobodyToldProbe": nobody_told, "RoomOfFastestProbe": room_of_fastest},
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.kept_channel:theorems")
