"""``InputGate.tla``, with its actions and invariants: a consumer of several inputs aligns barriers.

``input_gate_credit`` has the states and how data flows, ``input_gate_alignment`` what barriers, ends and losses do.
docs/protocols/gate.md says what holds, and what goes wrong without one of the rules.
"""

from collections.abc import Callable, Mapping

from permitflow_model.input_gate_alignment import (
    align,
    consume_barrier,
    consume_end,
    consume_newer_barrier,
    consume_older_barrier,
    epoch_after,
    is_epoch,
    is_joined,
    is_number,
    is_open,
    lose_input,
    offer_barrier,
    offer_end,
    offer_newer_barrier,
    resume_consumption,
    send_barrier,
)
from permitflow_model.input_gate_credit import (
    RESUME,
    REVOKE,
    Channel,
    Item,
    Parameters,
    State,
    add_credit,
    announce_backlog,
    borrow,
    consume_data,
    content_in,
    deliver,
    grant,
    initial,
    offer_data,
    send_data,
    takes_back,
)
from permitflow_model.input_gate_queues import effect_in, promise_in, span_in
from permitflow_model.kernel.family import Family, some
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


def is_over(channel: Channel) -> bool:
    """Has it ended, or was it lost?"""
    return channel.over


def done(state: State, _parameters: Parameters) -> State:
    """The gate has failed, or all inputs have ended."""
    require(state.failed or state.channels.every(is_over))
    return state


# Counts.


def valid_credit(channel: Channel) -> int:
    """Credit at the sender and on its way that may still be used."""
    effect = effect_in(channel.grants)
    if channel.released or channel.over:
        return 0
    return effect.adds if effect.keeps == 0 else channel.credit + effect.adds


def data_here(channel: Channel) -> int:
    """Data in flight or stored."""
    return content_in(channel.wire).data + content_in(channel.inbox).data


def barriers_here(channel: Channel) -> int:
    """Barriers in flight or stored."""
    return content_in(channel.wire).barriers + content_in(channel.inbox).barriers


def _one(condition: bool) -> int:
    return 1 * condition


def is_item(item: Item, parameters: Parameters) -> bool:
    """May it be on the wire?"""
    return is_epoch(item.epoch, parameters) and item.backlog >= 0


def is_content(item: Item, parameters: Parameters) -> bool:
    """May it wait or be stored?  Data or a barrier; announcements are neither."""
    return is_item(item, parameters) and (item.kind == "data" or item.kind == "barrier")


def is_grant(grant: int, _parameters: Parameters) -> bool:
    """Credit, or a word?"""
    return grant >= REVOKE


# Clauses: each is about one channel, the epoch that may be consumed, and whether the gate has failed.  Each computes
# its counts before it decides anything: in each case, a proof knows only the counts that were computed.


def _channel_type_ok(channel: Channel, parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """Every part of a channel is in its range."""
    contents = (channel.waiting.every(is_content, parameters), channel.inbox.every(is_content, parameters))
    messages = (channel.wire.every(is_item, parameters), channel.grants.every(is_grant, parameters))
    return (
        all(contents)
        and all(messages)
        and is_epoch(channel.epoch, parameters)
        and is_epoch(channel.sent, parameters)
        and channel.announced >= 0
        and channel.credit >= 0
        and channel.required >= 0
        and channel.free >= 0
        and channel.borrowed >= 0
    )


def _channel_conserves(channel: Channel, parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """Each buffer of a channel is granted, holds data, or is free."""
    held = data_here(channel) + channel.free
    own = 0 if channel.over else parameters.exclusive
    return valid_credit(channel) + held == own + channel.borrowed


def _channel_stopped_by_barrier(channel: Channel, _parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """One barrier stops its sender, from the time it is sent until the sender is told to resume."""
    words, barriers = effect_in(channel.grants).words, barriers_here(channel)
    return _one(channel.stopped) == barriers + _one(channel.blocked) + words


def _channel_has_nothing_behind(channel: Channel, _parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """A barrier is the last of all that it has sent."""
    inbox, wire = content_in(channel.inbox), content_in(channel.wire)
    if channel.blocked:
        return inbox.items + wire.items == 0
    return inbox.behind + wire.behind == 0 and (inbox.barriers == 0 or wire.items == 0)


def _channel_has_nothing_after_end(channel: Channel, _parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """An input that has ended has nothing, and nobody waits behind its end."""
    items = sum(content_in(queue).items for queue in (channel.waiting, channel.wire, channel.inbox))
    if not channel.over:
        return True
    return channel.closed and not channel.blocked and items + channel.borrowed + channel.free == 0


OUT_OF_ORDER = -1
"""No epoch: behind an item that is out of order, none is due."""


def due_after(due: int, item: Item, parameters: Parameters) -> int:
    """The epoch that is due behind an item, or ``OUT_OF_ORDER`` if the item's is not the one that was due."""
    is_newer = parameters.skip > 0 and item.kind == "barrier" and item.epoch > due > OUT_OF_ORDER
    if item.epoch != due and not is_newer:
        return OUT_OF_ORDER
    if item.kind != "barrier":
        return due
    return epoch_after(item.epoch, parameters) if is_number(item.epoch, parameters) else OUT_OF_ORDER


def _is_of(item: Item, epoch: int) -> bool:
    return item.epoch == epoch


def _channel_in_epoch(channel: Channel, parameters: Parameters, epoch: int, failed: bool) -> bool:
    """All that was sent is of this epoch, or of one that was given up, and all that waits is in order behind it."""
    in_order = channel.waiting.fold(due_after, channel.sent, parameters) == channel.epoch
    wire, inbox = channel.wire.every(_is_of, epoch), channel.inbox.every(_is_of, epoch)
    barriers = barriers_here(channel)
    if parameters.skip > 0:
        in_time = _in_time(channel, epoch, barriers)
    else:
        has_begun = barriers > 0 or channel.blocked
        in_time = wire and inbox and channel.sent == (epoch_after(epoch, parameters) if has_begun else epoch)
    return failed or channel.over or (in_order and in_time)


def _in_time(channel: Channel, epoch: int, barriers: int) -> bool:
    """Where barriers may be left out: of those that were sent, there is one at most."""
    wire, inbox = span_in(channel.wire), span_in(channel.inbox)
    begun = wire.begun + inbox.begun
    if channel.blocked:
        follows = begun == 0 and channel.sent == epoch + 1
    elif barriers > 0:
        follows = begun == channel.sent
    else:
        follows = begun == 0 and channel.sent <= epoch
    return follows and wire.newest <= epoch and inbox.newest <= epoch


def _channel_released_by_barrier(channel: Channel, parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """Its credit is taken back from the arrival of a barrier to its alignment."""
    barriers = content_in(channel.inbox).barriers
    due = takes_back(parameters) and (channel.blocked or barriers > 0)
    if channel.released:
        return due and (channel.free == 0 or parameters.exclusive > 0)
    return not due


def _channel_backlog_known(channel: Channel, _parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """The gate will know what its sender has told, and no more than waits or travels."""
    waiting, promise = content_in(channel.waiting).data, promise_in(channel.wire)
    return (
        channel.announced <= waiting
        and channel.announced == (promise.last if promise.last >= 0 else channel.required)
        and channel.required <= waiting + promise.data
        and promise.most <= waiting
    )


def _channel_hoards_nothing(channel: Channel, parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """There is data for each of its buffers that may hold more."""
    needed = parameters.exclusive + content_in(channel.waiting).data
    return valid_credit(channel) + channel.free <= needed


def _channel_is_freed_by_loss(channel: Channel, _parameters: Parameters, _epoch: int, failed: bool) -> bool:
    """An alignment is aborted where an input is lost: nobody stays behind a barrier."""
    return not (failed and channel.blocked)


ChannelClause = Callable[[Channel, Parameters, int, bool], bool]

CHANNEL_CLAUSES: Mapping[str, ChannelClause] = {
    "TypeOK": _channel_type_ok,
    "Conservation": _channel_conserves,
    "StoppedByBarrier": _channel_stopped_by_barrier,
    "NothingBehind": _channel_has_nothing_behind,
    "NothingAfterEnd": _channel_has_nothing_after_end,
    "InEpoch": _channel_in_epoch,
    "ReleasedByBarrier": _channel_released_by_barrier,
    "BacklogKnown": _channel_backlog_known,
    "NothingHoarded": _channel_hoards_nothing,
    "LossFrees": _channel_is_freed_by_loss,
}
"""What the invariants of these names say of each channel."""


def borrowed_by(channel: Channel) -> int:
    """Floating buffers that a channel has."""
    return channel.borrowed


def _gate_type_ok(state: State, parameters: Parameters) -> bool:
    return state.channels.size() == parameters.inputs and state.pool >= 0 and is_epoch(state.epoch, parameters)


def _gate_conserves(state: State, parameters: Parameters) -> bool:
    return state.pool + state.channels.sum_of(borrowed_by) == parameters.floating


GATE_CLAUSES: Mapping[str, Callable[[State, Parameters], bool]] = {
    "TypeOK": _gate_type_ok,
    "Conservation": _gate_conserves,
}
"""What the invariants of these names say of the gate besides."""


def _everywhere(name: str) -> Callable[[State, Parameters], bool]:
    of_channel, of_gate = CHANNEL_CLAUSES[name], GATE_CLAUSES.get(name)

    def holds(state: State, parameters: Parameters) -> bool:
        # The gate first: a fact about all channels must not depend on one of them.
        if of_gate is not None and not of_gate(state, parameters):
            return False
        return state.channels.every(of_channel, parameters, state.epoch, state.failed)

    return holds


def floating_here(channel: Channel, parameters: Parameters) -> int:
    """Data in flight or stored for which the channel's own buffers are not enough."""
    return max(0, data_here(channel) - parameters.exclusive)


def bounded(state: State, parameters: Parameters) -> bool:
    """The gate never stores more than it has buffers for."""
    return state.channels.sum_of(floating_here, parameters) <= parameters.floating


def is_waiting(channel: Channel) -> bool:
    """Does something wait, an end included, that need not wait for an alignment?"""
    if channel.blocked:
        return False
    return not channel.waiting.is_empty() or (channel.closed and not channel.over)


def needs_to_move(state: State) -> bool:
    """Does something wait and is not blocked, or is nothing waited for, in a gate that has not failed?"""
    joined = is_joined(state)
    if state.failed:
        return False
    return joined or some(state.channels, is_waiting)


def _starts_cold(channel: Channel) -> bool:
    starts = channel.stopped and not channel.grants.is_empty() and channel.grants.head() == RESUME
    return not starts or channel.credit == 0


def _names(parameters: Parameters) -> list[tuple[int, ...]]:
    return [(name,) for name in range(parameters.inputs)]


def _names_and_skipped(parameters: Parameters) -> list[tuple[int, ...]]:
    return [(*name, skipped) for name in _names(parameters) for skipped in range(1, parameters.skip + 1)]


def _channels(state: State) -> Family[Channel]:
    return state.channels


def _of_channel(
    name: str,
    perform: Callable[..., State],
    end: str,
    arguments: Callable[[Parameters], list[tuple[int, ...]]] = _names,
    **more: bool,
) -> Action[State, Parameters]:
    return Action(name, perform, arguments, end=end, members=_channels, **more)


SYSTEM: System[State, Parameters] = System(
    module="InputGate",
    initial=initial,
    actions=(
        _of_channel("OfferData", offer_data, "sender", is_environment=True),
        _of_channel("OfferBarrier", offer_barrier, "sender", is_environment=True),
        _of_channel("OfferNewerBarrier", offer_newer_barrier, "sender", _names_and_skipped, is_environment=True),
        _of_channel("OfferEnd", offer_end, "sender", is_environment=True),
        _of_channel("LoseInput", lose_input, "receiver", is_environment=True),
        Action("Done", done, is_environment=True),
        _of_channel("SendData", send_data, "sender"),
        _of_channel("SendBarrier", send_barrier, "sender"),
        _of_channel("AnnounceBacklog", announce_backlog, "sender"),
        _of_channel("AddCredit", add_credit, "sender", is_arrival=True),
        _of_channel("ResumeConsumption", resume_consumption, "sender", is_arrival=True),
        _of_channel("Deliver", deliver, "receiver", is_arrival=True),
        _of_channel("ConsumeData", consume_data, "receiver"),
        _of_channel("ConsumeBarrier", consume_barrier, "receiver"),
        _of_channel("ConsumeNewerBarrier", consume_newer_barrier, "receiver"),
        _of_channel("ConsumeOlderBarrier", consume_older_barrier, "receiver"),
        _of_channel("ConsumeEnd", consume_end, "receiver"),
        _of_channel("Borrow", borrow, "receiver"),
        _of_channel("Grant", grant, "receiver"),
        Action("Align", align, end="receiver"),
    ),
    invariants={
        **{name: _everywhere(name) for name in ("TypeOK", "Conservation")},
        "Bounded": bounded,
        **{name: _everywhere(name) for name in CHANNEL_CLAUSES if name not in GATE_CLAUSES},
    },
    must_move=lambda state, _: needs_to_move(state),
    probes={
        "NeverBlockedProbe": lambda state, _: state.channels.every(is_open),
        "PoolNeverEmptyProbe": lambda state, _: state.pool > 0,
        "StartsColdProbe": lambda state, _: state.channels.every(_starts_cold),
    },
)

REGISTERED = Registered(
    system=SYSTEM,
    parameters=Parameters,
    theorems="permitflow_proofs.input_gate:theorems",
    flow="gate",
)
