"""Runs led by the model, drawn by Hypothesis, for channels that take the protocol's steps by themselves.

Moves may come one after the other without a pause, so that cancellations meet wake-ups that are under way."""

import asyncio
from collections.abc import Collection
from typing import ClassVar, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.testing.kit.random_runs import channel_parameters, drawn_from
from permitflow.testing.moves import Move
from tests.support.application import ChannelUnderTest, JoinedReads, running
from tests.support.channel_run import ChannelRun

__all__ = ["ChannelMachine", "machine_for"]

CANCELLING = ("WithdrawChunk", "WithdrawBarrier", "GiveUpReceive")
WAKING = ("OfferWatermark", "SendNow", "SendBarrierNow", "ReceiveNow", "Take", "ConsumeTaken", "WithdrawChunk")
"""Moves that act at once, so that somebody may be awake who has not run yet."""
PLAIN = ("OfferBarrier", "OfferWatermark", "SendBarrierNow", "ReceiveNow", "Receive", "Take", "ConsumeTaken")
"""Moves without arguments."""
JOINED_ROWS = (1, 3, 1_000)
"""What joined reads ask for at most, where the receiving end has them."""


def _moves_named(names: Collection[str] | None) -> st.SearchStrategy[Move]:
    # What is drawn must not depend on the state: where messages cross a network, that is a matter of time.
    return st.runner().flatmap(lambda self: drawn_from(m for m in self.moves() if names is None or m.action in names))


ANY_MOVE, WAKING_MOVE, CANCELLING_MOVE = _moves_named(None), _moves_named(WAKING), _moves_named(CANCELLING)


class ChannelMachine(RuleBasedStateMachine):
    """Model and channel side by side; the class attributes say which channel, and in which loop."""

    kind: ClassVar[ChannelUnderTest]
    runner: ClassVar[asyncio.Runner]
    run: ChannelRun | None = None
    """The run, once the channel is open."""

    @initialize(agreed=channel_parameters())
    def start(self, agreed: ChannelParameters) -> None:
        """Open a channel; it is at rest."""
        self.channel = ChannelRun(self.kind, agreed)
        self.runner.run(self.channel.open())
        self.run = self.channel

    def moves(self) -> list[Move]:
        """All moves with these parameters; a move that is about nothing (nobody waits) is left out when it comes."""
        agreed = self.channel.agreed
        clamp = agreed.max_chunk_cost
        oversize = (clamp + 2,) if agreed.oversize is Oversize.WHOLE else ()
        sizes = sorted({0, 1, clamp, max(1, clamp // 2), *oversize})
        sends = [Move(name, (rows,)) for name in ("OfferChunk", "SendNow") for rows in sizes]
        cancellations = [Move(name, (position,)) for name in CANCELLING for position in range(3)]
        return [*sends, *cancellations, *map(Move, PLAIN), *self._joined_reads()]

    def _joined_reads(self) -> list[Move]:
        can_join = isinstance(self.channel.app.receiver, JoinedReads)
        return [Move("ReceiveJoined", (most,)) for most in JOINED_ROWS] if can_join else []

    @rule(move=ANY_MOVE, pause=st.booleans())
    def step(self, move: Move, pause: bool) -> None:
        """The application moves; with a pause, everything that follows from it happens before the next move."""
        self.runner.run(self.channel.make([move], pause=pause))

    @rule(moves=st.lists(ANY_MOVE, min_size=2, max_size=4), pause=st.booleans())
    def burst(self, moves: list[Move], pause: bool) -> None:
        """The application makes several moves at once: no task runs in between, whoever was woken."""
        self.runner.run(self.channel.make(moves, pause=pause))

    @rule(wake=WAKING_MOVE, cancel=CANCELLING_MOVE, pause=st.booleans())
    def race(self, wake: Move, cancel: Move, pause: bool) -> None:
        """Somebody is perhaps woken, and cancelled before his task runs: what he was woken for must not be lost."""
        self.runner.run(self.channel.make([wake, cancel], pause=pause))

    @rule(messages=st.integers(2, 4), pause=st.booleans())
    def consume_at_once(self, messages: int, pause: bool) -> None:
        """Permits for several of those who wait come back before the first of them runs."""
        self.runner.run(self.channel.make([Move("ReceiveNow")] * messages, pause=pause))

    @rule(waiting=st.integers(1, 3))
    def catch_up(self, waiting: int) -> None:
        """The receiver consumes the last messages and waits for more."""
        app, here = self.channel.app, self.channel.hops[-1].state.inbox.size()
        # Not with much still here: what is consumed cannot hold anybody up any more.
        if not running(app.receives) and here <= 2:
            consume = [Move("ConsumeTaken")] * len(app.taken) + [Move("ReceiveNow")] * (here - len(app.taken))
            self.runner.run(self.channel.make(consume + [Move("Receive")] * waiting, pause=True))

    @rule(sizes=st.lists(st.integers(0, 3), min_size=1, max_size=6), reads=st.integers(1, 3), data=st.data())
    def read_jointly(self, sizes: list[int], reads: int, data: st.DataObject) -> None:
        """Several chunks come together, and are read jointly; or one by one after a part of them was."""
        joined = self._joined_reads()
        if not joined or running(self.channel.app.receives):
            return
        clamp = self.channel.agreed.max_chunk_cost
        consume = [Move("ConsumeTaken")] * len(self.channel.app.taken)
        self.runner.run(self.channel.make([Move("OfferChunk", (min(rows, clamp),)) for rows in sizes], pause=True))
        for _ in range(reads):
            read = data.draw(st.sampled_from([*joined, Move("ReceiveNow"), Move("Take")]))
            self.runner.run(self.channel.make([*consume, read], pause=True))
            consume = [Move("ConsumeTaken")] * len(self.channel.app.taken)

    @rule(rows=st.integers(1, 3), waiting=st.integers(1, 3))
    def back_up(self, rows: int, waiting: int) -> None:
        """The sender uses up the permits, and waits for more."""
        cost = self.channel.agreed.cost_of(min(rows, self.channel.agreed.max_chunk_cost))
        sends = [Move("SendNow", (cost,))] * (self.channel.hops[0].state.permits.rows // cost)
        self.runner.run(self.channel.make(sends + [Move("OfferChunk", (cost,))] * waiting, pause=True))

    def teardown(self) -> None:
        """Empty the channel; every permit comes home, and what was recorded is a behaviour."""
        if self.run is not None:
            self.runner.run(self.run.close())


def machine_for(
    kind: ChannelUnderTest, runner: asyncio.Runner, *, base: type[ChannelMachine] = ChannelMachine
) -> type[ChannelMachine]:
    """The machine for one kind of channel, in one loop; ``base`` may do more than this one does."""
    return cast("type[ChannelMachine]", type("Machine", (base,), {"kind": kind, "runner": runner}))
