"""Runs led by the model, for implementations whose every action can be moved by hand.

Hypothesis draws the moves from the model's state; a failing run prints as a behaviour of the specification:
``state.step(move=OfferChunk(3))``, ``state.step(move=SendChunk())``.
"""

from collections.abc import Callable
from typing import ClassVar, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.machine import drawn_from
from permitflow.testing.moves import Move, PairAdapter, compare, is_rule, moves_of, step
from permitflow.testing.traces import judge, model_of
from permitflow.tracing.file import MemoryTrace
from permitflow_model.permit_channel import SYSTEM, State
from permitflow_model.permit_channel_world import withdraw_at

__all__ = ["MakePair", "PairMachine", "channel_parameters", "machine_for"]

MakePair = Callable[[ChannelParameters, int, RecorderFactory], PairAdapter]
"""Makes a pair at rest: the parameters, the number of chunk numbers, and who records what it does."""

# More chunks than fit into the channel, so that several wait behind one another.
WAITERS = 4


@st.composite
def channel_parameters(draw: st.DrawFn) -> ChannelParameters:
    """Small parameters, often at the tight bound ``max_chunk_cost = row_permits - permit_batch + 1``."""
    row_permits = draw(st.integers(2, 12))
    permit_batch = draw(st.integers(1, row_permits - 1))
    tight = row_permits - permit_batch + 1
    return ChannelParameters(
        row_permits=row_permits,
        permit_batch=permit_batch,
        max_chunk_cost=draw(st.one_of(st.just(tight), st.integers(1, tight))),
        barrier_permits=draw(st.integers(1, 3)),
        oversize=draw(st.sampled_from(Oversize)),
    )


class PairMachine(RuleBasedStateMachine):
    """Model and implementation side by side."""

    agree: bool
    """False while a step is under way, and after one that failed."""

    make: ClassVar[MakePair]

    @initialize(agreed=channel_parameters())
    def start(self, agreed: ChannelParameters) -> None:
        """Both begin at rest."""
        sizes = range(agreed.max_chunk_cost + (3 if agreed.oversize is Oversize.WHOLE else 1))
        self.parameters = model_of(agreed, sizes=tuple(sizes), waiters=WAITERS, numbered=True)
        self.trace = MemoryTrace()
        self.adapter = type(self).make(agreed, self.parameters.tags, self.trace.recorder)
        self.state: State = SYSTEM.initial(self.parameters)
        self.moves = tuple(moves_of(self.parameters))
        self.agree = True

    def _moves(self, *, enabled: bool) -> list[Move]:
        return [
            move
            for move in self.moves
            if SYSTEM.is_enabled(move.action, self.state, self.parameters, *move.arguments) == enabled
            and (enabled or is_rule(move))
        ]

    @rule(move=st.runner().flatmap(lambda self: drawn_from(self._moves(enabled=True))))
    def step(self, move: Move) -> None:
        """A move that the model can make, the implementation must make."""
        self._step(move)

    @precondition(lambda self: self._moves(enabled=False))
    @rule(move=st.runner().flatmap(lambda self: drawn_from(self._moves(enabled=False))))
    def refuse(self, move: Move) -> None:
        """A move that the model cannot make, the implementation must refuse."""
        self._step(move)

    def _step(self, move: Move) -> None:
        self.agree = False
        self.state = step(self.adapter, self.parameters, self.state, move)
        self.agree = True

    @precondition(lambda self: self.state.waiting.size() > 1)
    @rule(position=st.runner().flatmap(lambda self: st.integers(0, self.state.waiting.size() - 1)))
    def withdraw(self, position: int) -> None:
        """The application may give up waiting with any chunk; the model gets there in several steps."""
        self.agree = False
        self.adapter.withdraw_chunk(position)
        for action, arguments in withdraw_at(self.state, position):
            self.state = SYSTEM.perform(action, self.state, self.parameters, *arguments)
        compare(self.adapter.observe(), self.state, f"after WithdrawChunk of number {position}")
        self.agree = True

    @invariant()
    def all_invariants_hold(self) -> None:
        """The state that both are in is a good one."""
        # Hypothesis asks before `start` as well.
        if hasattr(self, "state"):
            assert not SYSTEM.broken_invariants(self.state, self.parameters)

    def teardown(self) -> None:
        """What was recorded is a behaviour, whichever way the two ends' logs are put together."""
        if not getattr(self, "agree", False):
            return  # nothing was begun, or the failing step says more
        for channel in self.trace.trace().channels.values():
            for by_end in (False, True):
                verdict = judge(channel, by_end=by_end)
                assert verdict.is_valid, verdict.describe()


def machine_for(make: MakePair) -> type[PairMachine]:
    """The machine for one implementation; ``.TestCase`` runs it, or ``run_state_machine_as_test``."""
    return cast("type[PairMachine]", type("Machine", (PairMachine,), {"make": staticmethod(make)}))
