"""Which states of the models' graphs simulated runs reach: of instances so small that all of their states are known."""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, TypeAlias

from permitflow import ChannelParameters, GateParameters
from permitflow_model import input_gate, input_gate_credit, kept_channel, mute
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.queue import Queue
from permitflow_model.permit_channel import SYSTEM, Parameters, State
from permitflow_testing.subjects.permits import model_of

COVERED = ChannelParameters(row_permits=2, permit_batch=1, max_chunk_cost=2, barrier_permits=1)
"""A share of the schedules of streams has these."""
SIZES = (1, 2)
WAITERS = 1

COVERED_GATE = GateParameters(inputs=2, exclusive=0, floating=1)
"""A share of the schedules of gates has these."""
_GATE: Final = input_gate_credit.Parameters(inputs=2, exclusive=0, floating=1, backlog=2, ends=True)
_KEPT: Final = kept_channel.Parameters(consumers=1, row_permits=4, staging_rows=2, horizon=7, expires=True, faults=1)
"""A share of the schedules of kept channels has one consumer and so much room."""

Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class Graph:
    """States that all are known."""

    title: str
    beyond: str
    """What other states have that runs reach."""
    states: Callable[[Set[Key]], Set[Key]]
    """All of them; of graphs whose form is drawn, those of the forms that were reached."""

    def in_words(self, reached: Set[Key]) -> str:
        """How many of them were reached."""
        known = self.states(reached)
        there, beyond = len(reached & known), len(reached - known)
        return f"{there:,} of {len(known):,}" + (f", and {beyond:,} in which {self.beyond}" if self.beyond else "")


# A channel.


def key_of(parameters: object) -> Callable[[State], Key] | None:
    """Gives a state a form that does not depend on how queues are kept; None: they are of another channel."""
    return _key if isinstance(parameters, Parameters) and _is_covered(parameters) else None


def _is_covered(parameters: Parameters) -> bool:
    return (
        parameters.row_permits == COVERED.row_permits == parameters.initial_permits
        and parameters.max_chunk_cost == COVERED.max_chunk_cost
        and parameters.barrier_permits == COVERED.barrier_permits
    )


def _key(state: State) -> Key:
    return (
        tuple(state.waiting),
        state.watermark_pending,
        state.newest_watermark,
        state.permits,
        tuple(state.wire),
        tuple(state.inbox),
        state.unreturned,
        tuple(state.grants),
    )


def _states(_reached: Set[Key]) -> set[Key]:
    """With one message that waits at most."""
    return {_key(state) for state in explore(SYSTEM, model_of(COVERED, sizes=SIZES, waiters=WAITERS)).states}


# A gate.  Barriers have any numbers, and its inputs are alike.


def covers_gate(parameters: GateParameters) -> bool:
    """Are they those of the small gate?"""
    ours, theirs = COVERED_GATE, parameters
    return (ours.inputs, ours.exclusive, ours.floating) == (theirs.inputs, theirs.exclusive, theirs.floating)


def gate_key(state: input_gate_credit.State) -> Key:
    """A form without the numbers of barriers and the names of inputs."""
    channels = (state.channels.get(name) for name in state.channels.names())
    return state.pool, *sorted(map(_channel_key, channels))


def _channel_key(channel: input_gate_credit.Channel) -> Key:
    return (
        _kinds(channel.waiting),
        channel.stopped,
        channel.announced,
        channel.credit,
        _kinds(channel.wire),
        _kinds(channel.inbox),
        channel.blocked,
        channel.released,
        channel.required,
        channel.free,
        channel.borrowed,
        tuple(channel.grants),
        channel.over,
    )


def _kinds(queue: Queue[input_gate_credit.Item]) -> Key:
    return tuple((item.kind, item.backlog) for item in queue)


def _gate_states(_reached: Set[Key]) -> set[Key]:
    """With two messages of each input, at most, and no barrier left out."""
    return {gate_key(state) for state in explore(input_gate.SYSTEM, _GATE).states}


# A channel that keeps its rows.


def key_of_kept(parameters: kept_channel.Parameters) -> Callable[[kept_channel.State], Key] | None:
    """The same of a channel that keeps its rows."""
    covers = (parameters.consumers, parameters.row_permits) == (_KEPT.consumers, _KEPT.row_permits)
    return _kept_key if covers else None


def _kept_key(state: kept_channel.State) -> Key:
    """Rows are counted from the newest one on; what is on its way, nobody sees."""
    (one,) = (state.consumers.get(name) for name in state.consumers.names())
    is_acknowledged = one.acknowledged >= state.first
    handled = max(one.handled, state.first - 1)  # less: rows are gone that it has not seen
    return state.next - state.first, is_acknowledged, state.next - handled, one.phase, state.ended


def _kept_states(_reached: Set[Key]) -> set[Key]:
    """Nobody purges."""
    system = kept_channel.SYSTEM
    actions = tuple(action for action in system.actions if action.name != "PurgeConsumer")
    return {_kept_key(state) for state in explore(replace(system, actions=actions), _KEPT).states}


# A process of a muted pipeline: its sources come and go, and what it signals is passed on at once.


def mute_key(parameters: mute.Parameters, state: mute.State) -> Key:
    """The graph of nodes, and which of its muters mute: once it has settled, nothing else differs but epochs."""
    hops = tuple(sorted(tuple(sorted(hop)) for hop in parameters.hops))
    shape = parameters.sinks, parameters.relays, parameters.sources, hops
    return shape, tuple(mute.is_mute(state.heard.get(sink).get(sink)) for sink in range(parameters.sinks))


def _mute_states(reached: Set[Key]) -> set[Key]:
    """Any of its muters may mute."""
    shapes = {shape for shape, _ in reached}
    return {(shape, mutes) for shape in shapes for mutes in product((False, True), repeat=shape[0])}


GRAPHS: Final[Mapping[str, Graph]] = {
    "streams": Graph("states of a small channel's model", "more messages wait", _states),
    "gate": Graph("states of a small gate's model", "more messages wait", _gate_states),
    "kept": Graph("states of the model of a small channel that keeps its rows", "there are more rows", _kept_states),
    "mute": Graph("settled states of the model of each process", "", _mute_states),
}
"""By subject."""
