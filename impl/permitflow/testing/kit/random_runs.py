"""Runs that Hypothesis draws: parameters and moves of all kinds; a failing run is shrunk to a short one."""

import asyncio
from typing import ClassVar, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.testing.drawing import drawn_from
from permitflow.testing.kit.adapter import lacks_of
from permitflow.testing.kit.drawn_runs import verdict_by_runs
from permitflow.testing.kit.features import Feature
from permitflow.testing.kit.leading import Led
from permitflow.testing.kit.outside import Outside
from permitflow.testing.kit.probes import parameters_of
from permitflow.testing.kit.report import RuleVerdict
from permitflow.testing.kit.rules import MakeAdapter, Rule
from permitflow.testing.kit.walking import alphabet_for
from permitflow.testing.moves import Move

__all__ = ["ChannelRuns", "random_runs"]

MOVES_OF_A_RUN = 30


@st.composite
def parameters_for(draw: st.DrawFn, lacks: frozenset[Feature], hops: int) -> ChannelParameters:
    """Small parameters, as far as the channel has what they are about."""
    row_permits = draw(st.integers(2, 6))
    # Whether a hop in the middle is idle for a moment, and returns its residue, is a matter of time.
    batch = 1 if Feature.BATCHING in lacks or hops > 1 else draw(st.integers(1, row_permits - 1))
    tight = row_permits - batch + 1
    return ChannelParameters(
        row_permits=row_permits,
        permit_batch=batch,
        max_chunk_cost=tight if Feature.OVERSIZE in lacks else draw(st.integers(1, tight)),
        barrier_permits=1 if Feature.BARRIERS in lacks else draw(st.integers(1, 2)),
        oversize=Oversize.WHOLE,
    )


class ChannelRuns(RuleBasedStateMachine):
    """Model and channel side by side; the class attributes say which channel, and in which loop."""

    make: ClassVar[MakeAdapter]
    runner: ClassVar[asyncio.Runner]
    led: Led | None = None

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        """Open a channel; it is at rest."""
        adapter = type(self).make()
        lacks = lacks_of(adapter)
        agreed = data.draw(parameters_for(lacks, adapter.hops), label="parameters")
        largest = agreed.max_chunk_cost + (0 if Feature.OVERSIZE in lacks else 2)
        sizes = {1} if Feature.WEIGHTS in lacks else {0, 1, agreed.max_chunk_cost, largest}
        parameters = parameters_of(agreed, sizes, idle_flush=Feature.IDLE_FLUSH not in lacks)
        sized = ("OfferChunk", "SendChunkNow")
        others = [move for move in alphabet_for(lacks) if move.action not in sized]
        names = [name for name in sized if name == "OfferChunk" or Feature.REFUSALS not in lacks]
        self.alphabet = [*others, *(Move(name, (rows,)) for name in names for rows in sorted(sizes))]
        self.led = Led(adapter, Outside(parameters, hops=adapter.hops), agreed)
        self.runner.run(self.led.open())

    def moves(self) -> list[Move]:
        """What the applications can do now."""
        assert self.led is not None
        return list(self.led.outside.moves(self.led.worlds[0], self.alphabet))

    @rule(move=st.runner().flatmap(lambda self: drawn_from(self.moves())))
    def step(self, move: Move) -> None:
        """The applications move, and see what the model says."""
        assert self.led is not None
        self.runner.run(self.led.make(move))

    def teardown(self) -> None:
        """Close the channel."""
        if self.led is not None:
            self.runner.run(self.led.close())


def random_runs(rule: Rule, make: MakeAdapter, runner: asyncio.Runner, *, runs: int) -> RuleVerdict:
    """Let Hypothesis lead the channel; the same runs every time."""
    machine = cast("type[ChannelRuns]", type("Runs", (ChannelRuns,), {"make": staticmethod(make), "runner": runner}))
    return verdict_by_runs(rule, machine, runs=runs, moves=MOVES_OF_A_RUN)
