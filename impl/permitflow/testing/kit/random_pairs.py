"""Runs of pairs that Hypothesis draws."""

from collections.abc import Callable
from functools import partial

from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.kit.drawn_runs import verdict_by_runs
from permitflow.testing.kit.features import Feature
from permitflow.testing.kit.report import Outcome, RuleVerdict
from permitflow.testing.kit.rules import Rule
from permitflow.testing.machine import machine_for
from permitflow.testing.moves import PairAdapter

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
    beside = ", refusals and traces included"
    return verdict_by_runs(rule, machine_for(partial(_made, make)), runs=runs, moves=MOVES_OF_A_RUN, beside=beside)


def _made(
    make: Callable[[ChannelParameters, int, RecorderFactory | None], PairAdapter],
    agreed: ChannelParameters,
    tags: int,
    record: RecorderFactory,
) -> PairAdapter:
    return make(agreed, tags, record)
