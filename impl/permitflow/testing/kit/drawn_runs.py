"""The verdict on a rule by runs that Hypothesis draws: the same runs every time, the failing one shrunk."""

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from permitflow.testing.kit.report import Outcome, RuleVerdict
from permitflow.testing.kit.rules import Rule
from permitflow.testing.moves import Divergence

__all__ = ["verdict_by_runs"]


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
