"""``InputGateAlignment.tla``, action for action: how a gate aligns barriers, and what ends an input.

Behind its barrier a sender stops, and nothing of it is consumed before the barriers of all inputs have been.
"""

from typing import Any

from permitflow_model.input_gate_credit import (
    RESUME,
    REVOKE,
    Channel,
    Item,
    Parameters,
    State,
    has_room,
    opened,
    starts,
    with_changes,
)
from permitflow_model.kernel.system import require


def epoch_after(epoch: int, parameters: Parameters) -> int:
    """The epoch that a barrier of this one begins: it counts round, unless ``epochs`` is 0."""
    return 0 if epoch + 1 == parameters.epochs else epoch + 1


def is_number(number: int, parameters: Parameters) -> bool:
    """May a barrier have this number?  Where barriers are compared, their numbers do not begin anew."""
    return parameters.skip == 0 or number + 1 != parameters.epochs


def is_epoch(epoch: int, parameters: Parameters) -> bool:
    """Is it in the range of epochs?"""
    return epoch >= 0 and (parameters.epochs == 0 or epoch < parameters.epochs)


def offer_barrier(state: State, parameters: Parameters, name: int) -> State:
    """A barrier ends the epoch of an input."""
    return _numbered(state, parameters, name, state.channels.get(name).epoch)


def offer_newer_barrier(state: State, parameters: Parameters, name: int, skipped: int) -> State:
    """A barrier ends the epoch of an input, which leaves some barriers out."""
    require(1 <= skipped <= parameters.skip)
    return _numbered(state, parameters, name, state.channels.get(name).epoch + skipped)


def _numbered(state: State, parameters: Parameters, name: int, number: int) -> State:
    channel = state.channels.get(name)
    require(has_room(channel, parameters))
    require(parameters.epochs == 0 or parameters.skip == 0 or number + 1 < parameters.epochs)
    epoch = epoch_after(number, parameters)
    return with_changes(state, name, waiting=channel.waiting.push(Item("barrier", number, 0)), epoch=epoch)


def send_barrier(state: State, parameters: Parameters, name: int) -> State:
    """A barrier costs no credit; behind it the sender stops, and asks for nothing."""
    channel = state.channels.get(name)
    require(starts(channel.waiting, "barrier"))
    require(not channel.stopped)
    return with_changes(
        state,
        name,
        waiting=channel.waiting.without_head(),
        stopped=True,
        announced=0,
        sent=epoch_after(channel.waiting.head().epoch, parameters),
        wire=channel.wire.push(Item("barrier", channel.waiting.head().epoch, 0)),
    )


def resume_consumption(state: State, _parameters: Parameters, name: int) -> State:
    """The sender is told to go on; all credit that it has may be void."""
    channel = state.channels.get(name)
    require(not channel.grants.is_empty())
    word, grants = channel.grants.head(), channel.grants.without_head()
    require(word <= RESUME)
    return with_changes(state, name, grants=grants, stopped=False, credit=0 if word == REVOKE else channel.credit)


def resumed(channel: Channel) -> Channel:
    """The channel when it goes on: its sender is told."""
    # A product does not fork a proof, and RESUME is 0.
    return channel._replace(blocked=False, released=False, grants=channel.grants.push(REVOKE * channel.released))


def freed(channel: Channel) -> Channel:
    """The channel when what has blocked it is no longer pending."""
    return resumed(channel) if channel.blocked else channel


def is_blocked(channel: Channel) -> bool:
    """Was its barrier consumed?"""
    return channel.blocked


def is_open(channel: Channel) -> bool:
    """Is it not behind a barrier that others have not reached?"""
    return not channel.blocked


def is_awaited_no_more(channel: Channel) -> bool:
    """Does no alignment wait for it?"""
    return channel.blocked or channel.over


def is_joined(state: State) -> bool:
    """Have all inputs reached the pending barrier, or ended?"""
    joined = state.channels.every(is_awaited_no_more)
    return is_pending(state) and joined


def is_pending(state: State) -> bool:
    """Does an input wait behind a barrier that others have not reached?"""
    return not state.channels.every(is_open)


def consume_barrier(state: State, parameters: Parameters, name: int) -> State:
    """The channel is blocked until the barriers of all others have been consumed."""
    number = _barrier_here(state, name)
    blocked = with_changes(state, name, **_behind(state, name))
    if parameters.skip == 0:
        return blocked
    pending = is_pending(state)
    require(number == state.epoch or (number > state.epoch and not pending))
    return blocked._replace(epoch=number)


def consume_newer_barrier(state: State, parameters: Parameters, name: int) -> State:
    """A newer barrier subsumes the pending one, whose alignment is aborted: the channels that it blocks go on."""
    require(parameters.skip > 0)
    require(is_pending(state))
    number = _barrier_here(state, name)
    require(number > state.epoch)
    others_freed = state._replace(channels=state.channels.map(freed), epoch=number)
    return with_changes(others_freed, name, **_behind(state, name))


def consume_older_barrier(state: State, parameters: Parameters, name: int) -> State:
    """An older barrier was given up: the channel goes on at once."""
    require(parameters.skip > 0)
    require(_barrier_here(state, name) < state.epoch)
    passed = state.channels.get(name)._replace(**_behind(state, name))
    return state._replace(channels=state.channels.put(name, resumed(passed)))


def _barrier_here(state: State, name: int) -> int:
    """The number of the barrier that the gate can consume."""
    channel = state.channels.get(name)
    require(not state.failed)
    require(not channel.blocked)
    require(starts(channel.inbox, "barrier"))
    return channel.inbox.head().epoch


def _behind(state: State, name: int) -> dict[str, Any]:
    return {"inbox": state.channels.get(name).inbox.without_head(), "blocked": True}


def align(state: State, parameters: Parameters) -> State:
    """All barriers have arrived, but for inputs that have ended: the next epoch begins, and each sender is told."""
    require(is_joined(state))
    return state._replace(channels=state.channels.map(freed), epoch=epoch_after(state.epoch, parameters))


# Inputs that end, or are lost.


def offer_end(state: State, parameters: Parameters, name: int) -> State:
    """The application of an input sends nothing more.

    The end is in band, behind all that was offered, free of charge: it is consumed when nothing is in front of it.
    """
    require(parameters.ends)
    require(not state.channels.get(name).closed)
    return with_changes(state, name, closed=True)


def consume_end(state: State, _parameters: Parameters, name: int) -> State:
    """An input ends: nobody waits for it, and its buffers go home."""
    channel = state.channels.get(name)
    require(not state.failed)
    require(channel.closed and not channel.over)
    require(not channel.stopped and not channel.blocked)
    require(channel.waiting.is_empty() and channel.wire.is_empty() and channel.inbox.is_empty())
    over = with_changes(state, name, over=True, borrowed=0, free=0)
    return over._replace(pool=state.pool + channel.borrowed)


def lose_input(state: State, parameters: Parameters, name: int) -> State:
    """An input is lost with all that it has; the gate fails, consumes nothing more, and gives up what is pending."""
    require(parameters.losses)
    channel = state.channels.get(name)
    require(not channel.over)
    epoch = epoch_after(state.epoch, parameters) if is_pending(state) else state.epoch
    lost = opened(0)._replace(closed=True, over=True)
    channels = state.channels.map(freed).put(name, lost)
    return State(channels=channels, pool=state.pool + channel.borrowed, epoch=epoch, failed=True)
