"""Conformance: the model leads, an implementation follows, and refuses every move that the model refuses.

For users: ``ChannelKit`` and ``PairKit`` are test classes to subclass, ``judge_adapter`` and ``judge_pair`` give the
same as a report; a ``ChannelAdapter`` is what they need of a channel, a ``PairAdapter`` of a pair of ends with explicit
wires.

Behind them: ``rules``, ``mistakes`` and ``judging``; ``moves`` lead pairs, ``traces`` judges runs that the model did
not lead.
"""

from typing import TYPE_CHECKING

from permitflow.opening import opening

if TYPE_CHECKING:
    from permitflow_testing.adapter import Aborted, ChannelAdapter, Ended, Feature, ReceivedMessage, Refused
    from permitflow_testing.judging import judge_adapter, judge_pair
    from permitflow_testing.moves import ActionRefused, Divergence, PairAdapter
    from permitflow_testing.pytest_kits import ChannelKit, PairKit, RuleBroken
    from permitflow_testing.rules import ConformanceReport, RuleVerdict

__all__ = [
    "Aborted",
    "ActionRefused",
    "ChannelAdapter",
    "ChannelKit",
    "ConformanceReport",
    "Divergence",
    "Ended",
    "Feature",
    "PairAdapter",
    "PairKit",
    "ReceivedMessage",
    "Refused",
    "RuleBroken",
    "RuleVerdict",
    "judge_adapter",
    "judge_pair",
]

# Loaded on first use: only the test classes need pytest, only drawn runs need Hypothesis.
_PLACES = {
    "adapter": ("Aborted", "ChannelAdapter", "Ended", "Feature", "ReceivedMessage", "Refused"),
    "judging": ("judge_adapter", "judge_pair"),
    "pytest_kits": ("ChannelKit", "PairKit", "RuleBroken"),
    "rules": ("ConformanceReport", "RuleVerdict"),
    "moves": ("ActionRefused", "Divergence", "PairAdapter"),
}

if not TYPE_CHECKING:
    __getattr__ = opening(__name__, _PLACES)
