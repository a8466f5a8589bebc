"""Runs of pairs that Hypothesis draws."""

from collections.abc import Callable
from functools import partial

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.stateful import run_state_machine_as_test

from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.kit.features import Feature
from permitflow.testing.kit.report import Outcome, RuleVerdict
from permitflow.testing.kit.rules import Rule
from permitflow.testing.machine import machine_for
from permitflow.testing.moves import Divergence, PairAdapter

__all__ = ["random_pairs"]

MOVES_OF_A_RUN = 50


def random_pairs(
    rule: Rule,
    make: Callable[[ChannelParameters, int, RecorderFactory | None], PairAdapter],
    *,
    runs: int,
    lacks: frozenset[Feature],
) -> RuleVerdict:
    """Let Hypothesis lead pairs; the same runs every time."""
    needed = {Feature.WEIGHTS, Feature.BATCHING, Feature.BARRIERS, Feature.WATERMARKS, Feature.CANCELLATION} & lacks
    if needed:
        finding = f"random runs use everything; lacks {', '.join(sorted(needed))}"
        return RuleVerdict(rule, Outcome.NOT_APPLICABLE, finding)
    profile = settings(
        max_examples=runs,
        stateful_step_count=MOVES_OF_A_RUN,
        derandomize=True,
        deadline=None,
        database=None,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    try:
        run_state_machine_as_test(machine_for(partial(_made, make)), settings=profile)
    except (Divergence, AssertionError) as problem:
        finding = "does something else than the model in a random run"
        return RuleVerdict(rule, Outcome.BREAKS, finding, tuple(str(problem).splitlines()))
    return RuleVerdict(
        rule, Outcome.HOLDS, f"{runs} runs of up to {MOVES_OF_A_RUN} moves, refusals and traces included"
    )


def _made(
    make: Callable[[ChannelParameters, int, RecorderFactory | None], PairAdapter],
    agreed: ChannelParameters,
    tags: int,
    record: RecorderFactory,
) -> PairAdapter:
    return make(agreed, tags, record)
