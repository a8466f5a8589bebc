"""The machines to play with, by name."""

from collections.abc import Mapping
from itertools import pairwise

from permitflow_model import demand, mute, permit_channel
from permitflow_model.mistakes import mistaken, mistakes_in
from permitflow_model.thresholds import decide
from permitflow_tools.checking.gate import check_gate
from permitflow_tools.explain.looks.permit_channel.look import LOOK
from permitflow_tools.explain.looks.table import look_of
from permitflow_tools.explain.playground import Knob, Playground, PlaygroundSetting, visited

_LARGEST = 5
"""The largest choice of a number: with larger ones, all states of all choices would not fit into a page."""
_MOST_STATES = 600
"""A gate has many more; the page holds those nearest to the run into the fault, or to the beginning."""

# The permit channel to play with: the verdict is the formula's, which is proved for all numbers.


def _permits(row_permits: int, permit_batch: int, max_chunk_cost: int, flush_idle: bool) -> PlaygroundSetting:
    decision = decide(row_permits, permit_batch, max_chunk_cost, flush_idle=flush_idle)
    parameters = permit_channel.Parameters(
        row_permits=row_permits,
        permit_batch=permit_batch,
        max_chunk_cost=max_chunk_cost,
        sizes=tuple(range(1, max_chunk_cost + 1)),
        flush_idle=flush_idle,
    )
    safe = decision.safe_max_chunk_cost
    advice = [f"Chunks of at most {safe}"] if safe else []
    if decision.safe_permit_batch:
        advice.append(f"A permit batch of at most {decision.safe_permit_batch}")
    if not flush_idle and max_chunk_cost <= row_permits:
        advice.append("A receiver that returns what it holds when it is idle")
    most = "as many rows as there are permits" if flush_idle else "permits - batch + 1 rows"
    explanation = decision.explanation[0].upper() + decision.explanation[1:]
    formula = f"a chunk may have at most {most}, here {safe or 'none'}; the largest has {max_chunk_cost}."
    sentence = f"{explanation}. The formula: {formula}"
    steps = () if decision.run is None else decision.run.steps
    return PlaygroundSetting(parameters, decision.is_live, sentence, steps, tuple(advice))


_PERMIT_CHANNEL = Playground(
    name="permit-channel",
    title="The permit channel",
    introduction="A sender may send one row for each permit it holds. The receiver returns permits once it "
    "has consumed a whole batch. Choose the numbers, then the steps: can you make a chunk wait for ever?",
    look=LOOK,
    knobs=(
        Knob("row_permits", "Permits of the channel", range(1, _LARGEST + 1), 4),
        Knob("permit_batch", "Permits are returned in batches of", range(1, _LARGEST + 1), 3),
        Knob("max_chunk_cost", "Rows of the largest chunk", range(1, _LARGEST + 1), 3),
        Knob("flush_idle", "An idle receiver returns what it holds", (False, True), 0),
    ),
    setting=_permits,
)


# The demand loop to play with.


def _demanded(size: int, batch: int, pulls: bool) -> PlaygroundSetting:
    parameters = demand.Parameters(size=size, batch=batch, initial=0 if pulls else size)
    return visited(demand.SYSTEM, parameters, (f"A batch of at most {size}",))


_DEMAND = Playground(
    name="demand",
    title="The demand loop",
    introduction="The receiver requests messages, a batch at a time; the sender sends what was requested. "
    "Which batch can never be complete?",
    look=look_of("Demand"),
    knobs=(
        Knob("size", "Messages that may be out at once", range(1, 5), 3),
        Knob("batch", "Messages of a request", range(1, 6), 2),
        Knob("pulls", "Nothing is sent before the receiver asks", (False, True), 0),
    ),
    setting=_demanded,
)


# The gate to play with: theorems decide, or a run that shows the fault.


def _gated(exclusive: int, floating: int, stop: bool, release: bool, announce: bool) -> PlaygroundSetting:
    found = check_gate(inputs=2, exclusive=exclusive, floating=floating, stop=stop, release=release, announce=announce)
    proof = f" Proved for any number of inputs ({found.theorem})." if found.theorem else ""
    sentence = f"{found.reason[0].upper()}{found.reason[1:]}.{proof}"
    return PlaygroundSetting(
        found.parameters, found.verdict == "live", sentence, found.steps, system=found.rules.system
    )


_GATE = Playground(
    name="gate",
    title="The gate",
    introduction="Two inputs align their barriers: an input whose barrier was consumed is blocked until the "
    "barrier of the other one is. Buffers at the gate are credit for the senders. Which rule can be left out?",
    look=look_of("InputGate"),
    knobs=(
        Knob("exclusive", "Buffers of each input", range(2), 0),
        Knob("floating", "Buffers that both share", range(2), 1),
        Knob("stop", "A sender stops behind its barrier", (False, True), 1),
        Knob("release", "A barrier takes shared buffers back", (False, True), 1),
        Knob("announce", "A sender without credit says that it has data", (False, True), 1),
    ),
    setting=_gated,
    most_states=_MOST_STATES,
)


# The mute chain to play with.


def _muted(relays: int, high: int, low: int, is_lost: bool, tells_again: bool) -> PlaygroundSetting:
    nodes = range(1, relays + 3)
    parameters = mute.Parameters(
        sinks=1,
        relays=relays,
        sources=1,
        hops=frozenset(frozenset(pair) for pair in pairwise(nodes)),
        high=high,
        low=low,
        supply=3,
        remakes=int(is_lost),
    )
    system = mute.SYSTEM if tells_again else mistaken(mute.SYSTEM, mistakes_in("Mute")["ReconnectSilently"])
    return visited(system, parameters, ("A new connection that is told who mutes",))


_MUTE = Playground(
    name="mute",
    title="The mute chain",
    introduction="A sink whose queue is above its high mark mutes the source, through relays; at the low mark "
    "it unmutes it. What may be lost on the way, so that the source is silent for ever?",
    look=look_of("Mute"),
    knobs=(
        Knob("relays", "Relays between source and sink", range(3), 1),
        Knob("high", "The high mark", range(1, 3), 1),
        Knob("low", "The low mark", range(2), 0),
        Knob("is_lost", "A connection may be made anew, once", (False, True), 1),
        Knob("tells_again", "A new connection is told who mutes", (False, True), 1),
    ),
    setting=_muted,
)


PLAYGROUNDS: Mapping[str, Playground] = {each.name: each for each in (_PERMIT_CHANNEL, _DEMAND, _GATE, _MUTE)}
