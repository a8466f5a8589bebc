"""Mistakes on purpose in ``hash_dispatch``."""

from permitflow_model.hash_dispatch import SYSTEM, Channel, Message, Parameters, State, taken
from permitflow_model.kernel.system import require
from permitflow_model.mistakes import Mistake

SMALL = Parameters(nodes=2, channels=2, most_channels=2, rows=2, marks=1, room=2, losses=True)
GROWS = Parameters(nodes=2, channels=1, most_channels=2, rows=1, marks=2, room=1)


def forwards_twice(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("Forward", state, parameters, name)
    channel = after.channels.get(name)
    return after._replace(
        channels=after.channels.put(name, channel._replace(queue=channel.queue.push(channel.queue.last())))
    )


def forwards_into_a_full_channel(state: State, parameters: Parameters, name: int) -> State:
    """An unbounded queue before each channel makes nobody wait, and bounds nothing."""
    channel = state.channels.get(name)
    require(not state.is_splitting)
    require(not state.is_lost)
    require(not channel.pending.is_empty())
    channel = channel._replace(queue=channel.queue.push(channel.pending.head()), pending=channel.pending.without_head())
    return state._replace(channels=state.channels.put(name, channel))


def drops_what_does_not_go_at_once(state: State, parameters: Parameters, name: int) -> State:
    """A dispatcher that does not wait for the slowest channel loses its rows."""
    after = SYSTEM.perform("Forward", state, parameters, name)
    channel = after.channels.get(name)
    return after._replace(channels=after.channels.put(name, channel._replace(queue=channel.queue.without_last())))


def adds_a_row_again(state: State, parameters: Parameters, name: int, node: int) -> State:
    return SYSTEM.perform("AddRow", state, parameters, name, node)._replace(rows=state.rows)


def consumes_a_mark_as_two(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("Consume", state, parameters, name)
    channel = after.channels.get(name)
    return after._replace(channels=after.channels.put(name, channel._replace(marks=channel.marks + 1)))


def ends_while_parts_wait(state: State, parameters: Parameters) -> State:
    require(not state.is_over)
    require(not state.is_lost)
    require(not state.is_splitting)
    end = Message("end", taken(state) + 1, 0)
    channels = state.channels.map(_ended, end, state.owners.channels())
    return state._replace(marks=state.marks + 1, is_over=True, channels=channels)


def _ended(channel: Channel, end: Message, opened: int) -> Channel:
    return channel._replace(pending=channel.pending.push(end)) if channel.number < opened else channel


def forgets_that_it_ended(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("TakeEnd", state, parameters)._replace(is_over=False)


def goes_on_with_the_others(state: State, parameters: Parameters, name: int) -> State:
    """Their consumers would take a part of the rows for the whole."""
    after = SYSTEM.perform("Lose", state, parameters, name)
    return after._replace(is_lost=False)


def marks_channels_to_come(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("TakeWatermark", state, parameters)
    watermark = Message("watermark", taken(after), 0)
    return after._replace(channels=state.channels.map(_ended, watermark, parameters.most_channels))


MISTAKES = (
    Mistake("Forward", forwards_twice, "InOrder", SMALL),
    Mistake("Forward", forwards_into_a_full_channel, "Bounded", SMALL),
    Mistake("Forward", drops_what_does_not_go_at_once, "RowsConserved", SMALL),
    Mistake("AddRow", adds_a_row_again, "Numbered", SMALL, at_once="RowsConserved"),
    Mistake("Consume", consumes_a_mark_as_two, "MarksConserved", SMALL),
    Mistake("TakeEnd", ends_while_parts_wait, "EndBehindAll", SMALL),
    Mistake("TakeEnd", forgets_that_it_ended, "EndLast", SMALL),
    Mistake("Lose", goes_on_with_the_others, "NothingForwarded", SMALL),
    Mistake("TakeWatermark", marks_channels_to_come, "Closed", GROWS),
)
