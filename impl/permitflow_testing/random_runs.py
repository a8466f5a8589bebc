"""Runs that Hypothesis draws, of channels and of pairs of ends: parameters and moves, chosen by the model's state.

The verdicts draw the same runs every time, and a failing run is shrunk.  A failing run of a pair prints as a behaviour
of the specification: ``state.step(move=OfferChunk(3))``, ``state.step(move=SendChunk())``.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, cast

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from permitflow.errors import counted
from permitflow.tracing.file import MemoryTrace
from permitflow_testing.bounded import MakeBounded
from permitflow_testing.leading import Led
from permitflow_testing.moves import Divergence, Lockstep, Move, attempt, compare, is_rule
from permitflow_testing.rules import FEW, Integer, Lacks, MakePair, Outcome, Rule, Rulebook, RuleVerdict, alphabet_for
from permitflow_testing.traces import judge


def drawn_from(moves: Iterable[Move]) -> st.SearchStrategy[Move]:
    """Draw an action, then its arguments: the many sizes of a chunk must not crowd the other actions out."""
    by_action: dict[str, list[Move]] = {}
    for move in moves:
        by_action.setdefault(move.action, []).append(move)
    return st.sampled_from(list(by_action.values())).flatmap(st.sampled_from)


def integers(data: st.DataObject) -> Integer:
    """Draws numbers for the parameters of a channel."""
    return lambda least, most: data.draw(st.integers(least, most))


@dataclass
class Done:
    """What was run, counted."""

    runs: int = 0
    moves: int = 0
    traces: int = 0
    """Recordings that were judged."""


# More chunks than fit into the channel, so that several wait.
WAITERS = 4


class PairMachine(RuleBasedStateMachine):
    """Runs model and implementation side by side; the class attributes name them."""

    book: ClassVar[Rulebook]
    make: ClassVar[MakePair]
    done: ClassVar["Done"]
    agree: bool
    """False while a step is under way, and after one that failed."""

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        """Begin with both at rest."""
        agreed, sizes = self.book.drawn_pair(integers(data))
        parameters = self.book.model(agreed, sizes, waiters=WAITERS, tags=FEW)
        self.trace = MemoryTrace()
        adapter = type(self).make(agreed, parameters.tags, self.trace.recorder)
        self.run = Lockstep(self.book.system, adapter, parameters)
        self.agree = True

    def _refused(self) -> list[Move]:
        return [move for move in self.run.moves if is_rule(move) and not self.run.enables(move)]

    @rule(move=st.runner().flatmap(lambda self: drawn_from(self.run.enabled())))
    def step(self, move: Move) -> None:
        """Check that the implementation makes a move that the model makes."""
        self._make(move)

    @precondition(lambda self: self._refused())
    @rule(move=st.runner().flatmap(lambda self: drawn_from(self._refused())))
    def refuse(self, move: Move) -> None:
        """Check that the implementation refuses a move that the model refuses."""
        self._make(move)

    def _make(self, move: Move) -> None:
        self.agree = False
        type(self).done.moves += 1
        self.run.make(move)
        self.agree = True

    @precondition(lambda self: self.run.state.waiting.size() > 1)
    @rule(position=st.runner().flatmap(lambda self: st.integers(0, self.run.state.waiting.size() - 1)))
    def withdraw(self, position: int) -> None:
        """Withdraw any waiting message, which takes the model several steps."""
        self.agree = False
        type(self).done.moves += 1
        run, outside = self.run, self.book.outside
        move = Move(outside.withdraw_action(tuple(run.state.waiting)[position]), (position,))
        attempt(run.adapter, move)
        for action, arguments in outside.withdrawal(run.state, position):
            run.state = run.system.perform(action, run.state, run.parameters, *arguments)
        compare(run.adapter.observe(), run.state, f"after {move!r}")
        self.agree = True

    @invariant()
    def all_invariants_hold(self) -> None:
        """Check the invariants in the common state."""
        # Hypothesis calls this before `start` as well.
        if hasattr(self, "run"):
            assert not self.run.system.broken_invariants(self.run.state, self.run.parameters)

    def teardown(self) -> None:
        """Check that the recording is a behaviour, in whatever order the two ends' logs are merged."""
        if not getattr(self, "agree", False):
            return  # the run did not begin, or the failing step says more
        type(self).done.runs += 1
        for channel in self.trace.trace().channels.values():
            type(self).done.traces += 1
            for by_end in (False, True):
                verdict = judge(channel, by_end=by_end)
                assert verdict.is_valid, verdict.describe()


def machine_for(book: Rulebook, make: MakePair) -> type[PairMachine]:
    """The state machine for one implementation; run it with ``.TestCase`` or ``run_state_machine_as_test``."""
    return cast(
        "type[PairMachine]", type("Machine", (PairMachine,), {"book": book, "make": staticmethod(make), "done": Done()})
    )


def _profile(*, runs: int) -> settings:
    return settings(
        max_examples=runs,
        derandomize=True,
        deadline=None,
        database=None,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )


def _verdict(rule: Rule, run: Callable[[], None], done: Done) -> RuleVerdict:
    """Run what Hypothesis draws, and say how much was run."""
    try:
        run()
    except (Divergence, AssertionError) as problem:
        steps = tuple(str(problem).splitlines())
        if problem.__cause__ is not None:
            return RuleVerdict.raised(rule, problem.__cause__, steps)
        finding = "does something else than the model in a random run"
        return RuleVerdict(rule, Outcome.BREAKS, finding, steps)
    beside = f", {counted(done.traces, 'recording')} judged" if done.traces else ""
    finding = f"{counted(done.runs, 'run')}, {counted(done.moves, 'move')} in all{beside}"
    return RuleVerdict(rule, Outcome.HOLDS, finding)


MOVES_OF_A_RUN = 30


def random_runs(book: Rulebook, rule: Rule, make: MakeBounded, runner: asyncio.Runner, *, runs: int) -> RuleVerdict:
    """Let Hypothesis lead the channel; the same runs every time."""
    done = Done()

    @_profile(runs=runs)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        adapter = make()
        lacks = adapter.lacks | book.not_modelled
        agreed, sizes = book.drawn(integers(data), lacks, adapter.hops)
        alphabet = alphabet_for(lacks, sizes)
        led = Led(adapter, book.seen(agreed, sizes, hops=adapter.hops, lacks=lacks), agreed)
        done.runs += 1
        # Hypothesis draws outside the event loop: its time is not the adapter's, which may not block the loop.
        channel = led.opened()
        runner.run(channel.__aenter__())
        try:
            for _ in range(MOVES_OF_A_RUN):
                move = data.draw(drawn_from(led.outside.moves(led.worlds[0], alphabet)))
                done.moves += 1
                runner.run(led.make(move))
        finally:
            runner.run(channel.__aexit__(None, None, None))

    return _verdict(rule, run, done)


MOVES_OF_A_PAIR = 50


def random_pairs(book: Rulebook, rule: Rule, make: MakePair, *, runs: int, lacks: Lacks) -> RuleVerdict:
    """Let Hypothesis lead pairs; the same runs every time."""
    if needed := book.used_by_pairs & lacks:
        finding = f"random runs use everything; lacks {', '.join(sorted(needed))}"
        return RuleVerdict(rule, Outcome.NOT_APPLICABLE, finding)
    machine = machine_for(book, make)
    profile = settings(_profile(runs=runs), stateful_step_count=MOVES_OF_A_PAIR)
    return _verdict(rule, lambda: run_state_machine_as_test(machine, settings=profile), machine.done)
