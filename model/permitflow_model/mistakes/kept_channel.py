"""Mistakes on purpose in ``kept_channel``."""

from typing import cast

from permitflow_model.kept_channel import SYSTEM, Consumer, Parameters, State, first_of
from permitflow_model.kernel.family import NamedFamily
from permitflow_model.mistakes import Mistake

ONE = Parameters(consumers=1, row_permits=1, horizon=2, faults=1)
LONG = Parameters(consumers=1, row_permits=1, horizon=3)
PUBLISHED = Parameters(consumers=1, row_permits=1, staging_rows=1, horizon=3)
EXPIRING = Parameters(consumers=1, row_permits=1, horizon=2, expires=True)
TWO = Parameters(consumers=2, row_permits=1, horizon=1)
TWO_EXPIRING = Parameters(consumers=2, row_permits=1, horizon=1, expires=True)


def _with(state: State, name: int, **changed: object) -> State:
    one = state.consumers.get(name)._replace(**changed)  # type: ignore[arg-type]
    return state._replace(consumers=state.consumers.put(name, one))


def one_row_more_is_kept_than_there_are_permits(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Produce", state._replace(first=state.first + 1), parameters)._replace(first=state.first)


def rows_come_behind_the_end(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Produce", state._replace(ended=False), parameters)._replace(ended=state.ended)


def published_rows_need_no_room(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("ProduceBatch", state._replace(first=state.next), parameters)._replace(first=state.first)


def a_reader_begins_behind_rows_that_are_gone_and_is_not_told(state: State, parameters: Parameters, name: int) -> State:
    """A hole that nobody is told of is a loss that nobody notices."""
    handled = state.consumers.get(name).handled
    start = max(handled, first_of(state.consumers.get(name), state.expired))
    after = SYSTEM.perform("BeginReading", _with(state, name, handled=start), parameters, name)
    return _with(after, name, handled=handled)


def a_reader_is_told_of_a_loss_at_its_own_position(state: State, parameters: Parameters, name: int) -> State:
    one = state.consumers.get(name)
    after = SYSTEM.perform("BeginReading", _with(state, name, acknowledged=one.acknowledged + 1), parameters, name)
    return _with(after, name, acknowledged=one.acknowledged)


def a_reader_goes_on_from_what_it_has_acknowledged(state: State, parameters: Parameters, name: int) -> State:
    """The exchange says where, and not the results: what was handled and not acknowledged comes again."""
    one = state.consumers.get(name)
    after = SYSTEM.perform("BeginReading", _with(state, name, handled=one.acknowledged), parameters, name)
    return _with(after, name, handled=one.handled)


def a_stream_does_not_look_whether_its_next_row_is_still_there(
    state: State, parameters: Parameters, name: int
) -> State:
    acknowledged = state.consumers.get(name).acknowledged
    after = SYSTEM.perform("SendRow", _with(state._replace(expired=0), name, acknowledged=0), parameters, name)
    return _with(after._replace(expired=state.expired), name, acknowledged=acknowledged)


def a_row_counts_as_handled_when_it_is_sent(state: State, parameters: Parameters, name: int) -> State:
    """What is on its way is lost with its stream."""
    after = SYSTEM.perform("SendRow", state, parameters, name)
    return _with(after, name, handled=state.consumers.get(name).handled + 1)


def a_position_is_kept_apart_from_the_results(state: State, parameters: Parameters, name: int) -> State:
    """The results are there, and the position is not yet: a consumer that dies in between takes the row again."""
    after = SYSTEM.perform("TakeRow", state, parameters, name)
    return _with(after, name, handled=state.consumers.get(name).handled)


def the_fastest_consumer_decides_what_is_forgotten_by_the_channel(
    state: State, parameters: Parameters, name: int, row: int
) -> State:
    after = SYSTEM.perform("Acknowledge", state, parameters, name, row)
    return after._replace(first=max(after.first, after.consumers.get(name).acknowledged))


def rows_that_were_acknowledged_are_forgotten_only_when_they_expire(
    state: State, parameters: Parameters, name: int, row: int
) -> State:
    return SYSTEM.perform("Acknowledge", state, parameters, name, row)._replace(first=state.first)


def an_acknowledgement_may_go_back(state: State, parameters: Parameters, name: int, row: int) -> State:
    """What was forgotten does not come back: rows count as kept that are gone."""
    return SYSTEM.perform("Acknowledge", _with(state, name, acknowledged=0), parameters, name, row)


def sending_acknowledges(state: State, parameters: Parameters, name: int, row: int) -> State:
    one = state.consumers.get(name)
    after = SYSTEM.perform("Acknowledge", _with(state, name, handled=one.sent), parameters, name, row)
    return _with(after, name, handled=one.handled)


def rows_that_a_consumer_was_told_of_count_as_taken(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("SkipRows", state, parameters, name)
    return _with(after, name, skipped=state.consumers.get(name).skipped)


def the_end_is_read_when_all_that_was_sent_is_taken(state: State, parameters: Parameters, name: int) -> State:
    sent = state.consumers.get(name).sent
    return SYSTEM.perform("ReadLogEnd", state._replace(next=sent), parameters, name)._replace(next=state.next)


def the_end_overtakes_rows_that_are_on_their_way(state: State, parameters: Parameters, name: int) -> State:
    """Where a channel broke, its error came to a reader without a connection, and the rows before it did not."""
    sent = state.consumers.get(name).sent
    return SYSTEM.perform("ReadLogEnd", _with(state, name, at=sent), parameters, name)


def _at_the_beginning(one: Consumer) -> Consumer:
    return one._replace(acknowledged=0)


def acknowledged_before_it_is_noted(state: State, parameters: Parameters) -> State:
    """The rows are forgotten, and the next exchange does not know that they were acknowledged."""
    after = SYSTEM.perform("ChangeExchange", state, parameters)
    return after._replace(consumers=cast("NamedFamily[Consumer]", after.consumers.map(_at_the_beginning)))


def expired_rows_are_deleted_before_that_is_noted(state: State, parameters: Parameters, row: int) -> State:
    return SYSTEM.perform("Expire", state, parameters, row)._replace(expired=state.expired)


def _moved(one: Consumer, row: int) -> Consumer:
    return one._replace(acknowledged=max(one.acknowledged, row))


def what_expires_counts_as_acknowledged(state: State, parameters: Parameters, row: int) -> State:
    """A consumer without a position of its own goes on behind it, and nobody hears of the loss."""
    after = SYSTEM.perform("Expire", state, parameters, row)
    return after._replace(consumers=cast("NamedFamily[Consumer]", after.consumers.map(_moved, row)))


def expiry_moves_positions_and_nobody_hears_of_it(state: State, parameters: Parameters, row: int) -> State:
    def moved(one: Consumer) -> Consumer:
        return _moved(one, row)._replace(handled=max(one.handled, row))

    after = SYSTEM.perform("Expire", state, parameters, row)
    return after._replace(consumers=cast("NamedFamily[Consumer]", after.consumers.map(moved)))


def a_purge_is_one_of_all_consumers(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("PurgeConsumer", state, parameters, name)
    consumers = cast("NamedFamily[Consumer]", after.consumers.map(_moved, state.next))
    return after._replace(consumers=consumers, first=state.next)


def rows_expire_before_they_come(state: State, parameters: Parameters, row: int) -> State:
    after = SYSTEM.perform("Expire", state._replace(next=state.next + 1), parameters, row)
    return after._replace(next=state.next)


MISTAKES = (
    Mistake("Acknowledge", the_fastest_consumer_decides_what_is_forgotten_by_the_channel, "NeededIsKept", TWO),
    Mistake("Produce", one_row_more_is_kept_than_there_are_permits, "KeptBounded", ONE),
    Mistake("Produce", rows_come_behind_the_end, "EndIsWholeLog", ONE),
    Mistake("ProduceBatch", published_rows_need_no_room, "KeptBounded", PUBLISHED),
    Mistake("BeginReading", a_reader_begins_behind_rows_that_are_gone_and_is_not_told, "InPlace", EXPIRING),
    Mistake("BeginReading", a_reader_is_told_of_a_loss_at_its_own_position, "NothingLost", ONE),
    Mistake("BeginReading", a_reader_goes_on_from_what_it_has_acknowledged, "InPlace", ONE),
    Mistake("SendRow", a_stream_does_not_look_whether_its_next_row_is_still_there, "InPlace", EXPIRING),
    Mistake("SendRow", a_row_counts_as_handled_when_it_is_sent, "InPlace", ONE),
    Mistake("TakeRow", a_position_is_kept_apart_from_the_results, "EachRowOnce", ONE),
    Mistake("Acknowledge", rows_that_were_acknowledged_are_forgotten_only_when_they_expire, "RoomOfSlowest", ONE),
    Mistake("Acknowledge", an_acknowledgement_may_go_back, "KeptBounded", LONG),
    Mistake("Acknowledge", sending_acknowledges, "AcknowledgedIsHandled", ONE),
    Mistake("SkipRows", rows_that_a_consumer_was_told_of_count_as_taken, "EachRowOnce", EXPIRING),
    Mistake("ReadLogEnd", the_end_is_read_when_all_that_was_sent_is_taken, "EndIsWholeLog", ONE),
    Mistake("ReadLogEnd", the_end_overtakes_rows_that_are_on_their_way, "EndIsWholeLog", ONE),
    Mistake("ChangeExchange", acknowledged_before_it_is_noted, "NeededIsKept", ONE),
    Mistake("Expire", expired_rows_are_deleted_before_that_is_noted, "NeededIsKept", EXPIRING),
    Mistake("Expire", what_expires_counts_as_acknowledged, "AcknowledgedIsHandled", EXPIRING),
    Mistake("Expire", expiry_moves_positions_and_nobody_hears_of_it, "EachRowOnce", EXPIRING),
    Mistake("PurgeConsumer", a_purge_is_one_of_all_consumers, "AcknowledgedIsHandled", TWO_EXPIRING),
    Mistake("Expire", rows_expire_before_they_come, "TypeOK", EXPIRING),
)
