"""Runs that Hypothesis draws, of channels and of pairs of ends: parameters and moves, chosen by the model's state.

The verdicts draw the same runs every time.  A failing run is shrunk; it prints as a behaviour of the specification:
``state.step(move=OfferChunk(3))``, ``state.step(move=SendChunk())``.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import ClassVar, cast

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from permitflow.protocol.permits import ChannelParameters, Oversize
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.kit.adapter import Feature, lacks_of
from permitflow.testing.kit.leading import Led
from permitflow.testing.kit.outside import Outside
from permitflow.testing.kit.probes import parameters_of
from permitflow.testing.kit.report import Outcome, RuleVerdict
from permitflow.testing.kit.rules import MakeAdapter, Rule
from permitflow.testing.kit.walking import alphabet_for
from permitflow.testing.moves import Divergence, Move, PairAdapter, attempt, compare, is_rule, moves_of, step
from permitflow.testing.subjects.permits import model_of
from permitflow.testing.traces import judge
from permitflow.tracing.file import MemoryTrace
from permitflow_model.permit_channel import SYSTEM, State
from permitflow_model.permit_channel_trace import withdraw_at

__all__ = [
    "ChannelRuns",
    "MakePair",
    "PairMachine",
    "channel_parameters",
    "drawn_from",
    "machine_for",
    "random_pairs",
    "random_runs",
    "verdict_by_runs",
]


def drawn_from(moves: Iterable[Move]) -> st.SearchStrategy[Move]:
    """Draw an action, then its arguments: the many sizes of a chunk must not crowd the other actions out."""
    by_action: dict[str, list[Move]] = {}
    for move in moves:
        by_action.setdefault(move.action, []).append(move)
    return st.sampled_from(list(by_action.values())).flatmap(st.sampled_from)


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
        self.moves = tuple(moves_of(SYSTEM, self.parameters))
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
        self.state = step(SYSTEM, self.adapter, self.parameters, self.state, move)
        self.agree = True

    @precondition(lambda self: self.state.waiting.size() > 1)
    @rule(position=st.runner().flatmap(lambda self: st.integers(0, self.state.waiting.size() - 1)))
    def withdraw(self, position: int) -> None:
        """The application may give up waiting with any message; the model gets there in several steps."""
        self.agree = False
        move = Move(f"Withdraw{tuple(self.state.waiting)[position].kind.title()}", (position,))
        attempt(self.adapter, move)
        for action, arguments in withdraw_at(self.state, position):
            self.state = SYSTEM.perform(action, self.state, self.parameters, *arguments)
        compare(self.adapter.observe(), self.state, f"after {move!r}")
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


def verdict_by_runs(
    rule: Rule, machine: type[RuleBasedStateMachine], *, runs: int, moves: int, beside: str = ""
) -> RuleVerdict:
    """Let the machine run; ``beside`` says what it looks at besides its moves."""
    profile = settings(
        max_examples=runs,
        stateful_step_count=moves,
        derandomize=True,
        deadline=None,
        database=None,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    try:
        run_state_machine_as_test(machine, settings=profile)
    except (Divergence, AssertionError) as problem:
        finding = "does something else than the model in a random run"
        return RuleVerdict(rule, Outcome.BREAKS, finding, tuple(str(problem).splitlines()))
    return RuleVerdict(rule, Outcome.HOLDS, f"{runs} runs of up to {moves} moves{beside}")


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
        self.alphabet = alphabet_for(lacks, sorted(sizes))
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


MOVES_OF_A_PAIR = 50


def random_pairs(rule: Rule, make: MakePair, *, runs: int, lacks: frozenset[Feature]) -> RuleVerdict:
    """Let Hypothesis lead pairs; the same runs every time."""
    needed = {Feature.WEIGHTS, Feature.BATCHING, Feature.BARRIERS, Feature.WATERMARKS, Feature.CANCELLATION} & lacks
    if needed:
        finding = f"random runs use everything; lacks {', '.join(sorted(needed))}"
        return RuleVerdict(rule, Outcome.NOT_APPLICABLE, finding)
    beside = ", refusals and traces included"
    return verdict_by_runs(rule, machine_for(make), runs=runs, moves=MOVES_OF_A_PAIR, beside=beside)
