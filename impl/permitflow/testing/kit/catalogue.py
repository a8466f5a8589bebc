"""All rules, in the order in which they are reported."""

from collections.abc import Collection, Sequence

from permitflow.errors import InvalidParametersError
from permitflow.testing.kit.features import Feature
from permitflow.testing.kit.message_rules import BARRIERS, GIVING_UP, ORDER, WATERMARKS
from permitflow.testing.kit.permit_rules import RETURNING, SPENDING
from permitflow.testing.kit.rules import Rule

__all__ = ["PROBED_RULES", "RUN_RULES", "all_rules", "selected"]


def _needs(*features: Feature) -> frozenset[Feature]:
    return frozenset(features)


PROBED_RULES = (*SPENDING, *RETURNING, *ORDER, *GIVING_UP, *BARRIERS, *WATERMARKS)
"""Rules with mistakes, checked by probes."""

RUN_RULES = (
    Rule("every-edge", "In every state of the graph, every move comes to what the model says.", "Next"),
    Rule("random-runs", "In random runs, every move comes to what the model says.", "Spec"),
    Rule(
        "cancelled-send",
        "A send can be cancelled at every await: it has sent all or nothing, and no permit is lost.",
        "WithdrawChunk",
        _needs(Feature.CANCELLATION),
    ),
    Rule(
        "cancelled-barrier",
        "The sending of a barrier can be cancelled at every await, likewise.",
        "WithdrawBarrier",
        _needs(Feature.CANCELLATION, Feature.BARRIERS),
    ),
    Rule(
        "cancelled-receive",
        "A receive can be cancelled at every await: it has taken nothing, and no message is lost.",
        "Consume",
        _needs(Feature.CANCELLATION),
    ),
    Rule("observed-run", "What is seen of a run that nobody leads is explained by the model.", "Spec"),
    Rule(
        "recorded-run",
        "What the channel records of a run is a behaviour, and ends with all permits at home.",
        "Spec",
        _needs(Feature.RECORDING),
    ),
    Rule(
        "end-comes-last",
        "The end comes after everything that was sent, also what still waits for permits.",
        "",
        _needs(Feature.END),
        contract="SendEnd.end",
    ),
    Rule(
        "abort-is-no-end",
        "A receiver is told that the stream was given up; it does not look like an end.",
        "",
        _needs(Feature.ABORT),
        contract="SendEnd.abort",
    ),
)
"""Rules about whole runs; ``judging`` names who checks them."""


def all_rules() -> tuple[Rule, ...]:
    """Every rule once."""
    return (*PROBED_RULES, *RUN_RULES)


def selected(rules: Sequence[Rule], only: Collection[str]) -> tuple[Rule, ...]:
    """The rules that are named, or all.

    Raises:
        InvalidParametersError: a name is no rule's.
    """
    ids = [rule.id for rule in rules]
    if unknown := sorted(set(only) - set(ids)):
        raise InvalidParametersError(name="only", value=unknown[0], rule=f"must be a rule: {', '.join(ids)}")
    return tuple(rule for rule in rules if not only or rule.id in only)
