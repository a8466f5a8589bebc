"""Any state of the gate: any queues with their laws, and what its theorems are about.

One channel is in focus; of the others is known what every channel satisfies.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import add
from typing import cast

from permitflow_model.input_gate import (
    CHANNEL_CLAUSES,
    GATE_CLAUSES,
    OUT_OF_ORDER,
    SYSTEM,
    ChannelClause,
    due_after,
    floating_here,
)
from permitflow_model.input_gate_alignment import is_blocked
from permitflow_model.input_gate_credit import Channel, Item, Parameters, State, content_in
from permitflow_model.input_gate_queues import effect_in, promise_in, span_in
from permitflow_model.mistakes import mistaken, mistakes_in
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.family import SymbolicFamily
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.queue import Law, Sums, SymbolicQueue
from permitflow_proofs.kernel.symbols import all_of, assume, choice, integer, merged, natural

INVARIANT = {name: SYSTEM.invariants[name] for name in CHANNEL_CLAUSES if name != "InEpoch"}
"""What every reachable state satisfies; proved by induction."""

EPOCHS_INVARIANT = {
    name: SYSTEM.invariants[name]
    for name in ("TypeOK", "StoppedByBarrier", "NothingBehind", "NothingAfterEnd", "InEpoch")
}
"""The part of the invariant that the order of epochs needs."""

any_parameters = partial(any_parameters_of, Parameters)

_MISTAKES = mistakes_in("InputGate")
GOES_ON = (_MISTAKES["SendBarrierAndGoOn"], _MISTAKES["AlignSilently"])
KEEPS = (_MISTAKES["DeliverAndKeep"],)
ANNOUNCES_NOTHING = (_MISTAKES["AnnounceNothing"],)


def _goes_on_and_keeps(channel: Channel, _parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """Its sender never stops, and nothing is taken back."""
    keeps = effect_in(channel.grants).keeps
    return not channel.stopped and not channel.released and keeps == 1


_CLAUSES: Mapping[str, ChannelClause] = {**CHANNEL_CLAUSES, "GoesOnAndKeeps": _goes_on_and_keeps}
STORING_CLAUSES = ("TypeOK", "Conservation", "GoesOnAndKeeps", "NothingAfterEnd")
"""The invariant where senders do not stop and nothing is taken back: the gate stores data behind a barrier."""


# Laws of queues: each number is never negative.


def counted(items: Sums) -> tuple[int, ...]:
    """Law: each item counts once, as data, as a barrier or as neither, and some are behind a barrier."""
    content, size = content_in(items), items.size()
    neither = content.items - content.data - content.barriers
    return content.items - size, size - content.items, content.data, content.barriers, neither, content.behind


def promised(messages: Sums) -> tuple[int, ...]:
    """Law: the same are data as are counted, and nothing below 0 is told."""
    promise, data = promise_in(messages), content_in(messages).data
    return promise.data - data, data - promise.data, promise.most, 1 + promise.last


def spanned(messages: Sums) -> int:
    """Law: what is no barrier has an epoch from 0 on."""
    return 1 + span_in(messages).newest


def heard(grants: Sums) -> tuple[int, ...]:
    """Law: credit is kept or not, only words void it, and nothing below 0 is granted."""
    effect = effect_in(grants)
    return (
        effect.keeps,
        1 - effect.keeps,
        effect.adds,
        effect.words,
        effect.keeps + effect.words - 1,
        granted_in(grants),
    )


def _granted(grant: int) -> int:
    return grant if grant > 0 else 0


def granted_in(grants: Sums) -> int:
    """All credit that is granted, void or not."""
    return grants.sum_of(_granted, add, 0)


def any_item(name: str) -> Item:
    """Any item of a gate whose senders withdraw nothing."""
    kind = choice(f"{name}.kind", options=("data", "barrier", "backlog"))
    return arbitrary(Item, f"{name}.", special={"kind": kind})


def any_channel(name: str, any_item: Callable[[str], Item] = any_item, *of_wire: Law) -> Channel:
    """Any input, with such items; ``of_wire``: more laws of what is on the wire."""

    def items(field: str, *laws: Law) -> SymbolicQueue[Item]:
        return SymbolicQueue.any_queue(f"{name}.{field}", any_item, (counted, *laws), {due_after: OUT_OF_ORDER})

    queues = {
        "waiting": items("waiting"),
        "wire": items("wire", promised, spanned, *of_wire),
        "inbox": items("inbox", spanned),
        "grants": SymbolicQueue.any_queue(f"{name}.grants", integer, (heard,)),
    }
    return arbitrary(Channel, f"{name}.", special=queues)


def lawful(channel: Channel, parameters: Parameters, epoch: int, failed: bool, names: tuple[str, ...]) -> bool:
    """All clauses together: one question about all channels instead of one for each clause."""
    return all_of([merged(partial(_CLAUSES[name], channel, parameters, epoch, failed)) for name in names])


def any_lawful_state(names: Iterable[str], parameters: Parameters) -> State:
    """Any state that satisfies these clauses."""
    channels = SymbolicFamily.any_family("channels", any_channel)
    state = arbitrary(State, special={"channels": channels})
    channels.assume_every(lawful, parameters, state.epoch, state.failed, tuple(names))
    assume_all([GATE_CLAUSES[name] for name in names if name in GATE_CLAUSES], state, parameters)
    channels.settle()
    return state


def bounded_by_less(state: State, parameters: Parameters) -> bool:
    """False: the gate never stores as much as it has buffers for."""
    return state.channels.sum_of(floating_here, parameters) < parameters.floating


def any_state(parameters: Parameters) -> State:
    """Any state that satisfies the invariant."""
    return any_lawful_state(INVARIANT, parameters)


def _any_skip(parameters: Parameters) -> tuple[int, ...]:
    skipped = natural("skipped", 1)
    assume(skipped <= parameters.skip)
    return (skipped,)


SKIPPED = {"OfferNewerBarrier": _any_skip}

SUBJECT = Subject(SYSTEM, any_parameters, any_state, SKIPPED)
"""The gate."""

EPOCHS = Subject(SYSTEM, any_parameters, partial(any_lawful_state, EPOCHS_INVARIANT), SKIPPED)
"""The same, with the order of epochs: any number of them, or without end."""

STORING = Subject(
    mistaken(SYSTEM, *GOES_ON, *KEEPS),
    partial(any_parameters, revoke=False),
    partial(any_lawful_state, STORING_CLAUSES),
    SKIPPED,
)
"""The gate whose senders do not stop, and where nothing is taken back."""

LOSSES = Subject(SYSTEM, any_parameters, partial(any_lawful_state, ("LossFrees",)), SKIPPED)
"""The gate, and what it is after an input was lost."""

RESTING = Subject(
    SYSTEM, any_parameters, partial(any_lawful_state, ("TypeOK", "NothingAfterEnd", "BacklogKnown")), SKIPPED
)
"""The gate with what its ranks need of the invariant."""


def _any_aligning_state(parameters: Parameters) -> State:
    """In focus is a channel that is blocked, if one is: its step is what makes the ranks fall."""
    state = RESTING.any_state(parameters)
    return state._replace(channels=cast("SymbolicFamily[Channel]", state.channels).with_some(is_blocked))


ALIGNING = Subject(SYSTEM, any_parameters, _any_aligning_state)


def _any_gate(parameters: Parameters) -> State:
    """Any state of the right types: in focus are an input that acts and, if there are several, any other one."""
    channels = SymbolicFamily.any_of_size("channels", any_channel, parameters.inputs)
    return arbitrary(State, special={"channels": channels})


def _barriers_left(channel: Channel) -> int:
    """Steps that barriers and the end of a channel still have to take."""
    waiting, wire, inbox = (content_in(queue).barriers for queue in (channel.waiting, channel.wire, channel.inbox))
    # Products do not fork.
    ending = 1 * channel.closed - 1 * channel.over
    return 5 * waiting + 4 * wire + 3 * inbox + 2 * channel.blocked + effect_in(channel.grants).words + ending


def barrier_rank(state: State, _parameters: Parameters) -> int:
    """What barriers and ends still have to do."""
    return state.channels.sum_of(_barriers_left)


ANY = Subject(SYSTEM, any_parameters, _any_gate, SKIPPED)
"""The gate in any state at all."""
