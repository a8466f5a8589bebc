"""Conformance: the model leads, an implementation follows, and refuses every move that the model refuses.

For users: ``ChannelKit`` and ``PairKit`` are test classes to subclass, ``judge_adapter`` and ``judge_pair`` give the
same as a report; a ``ChannelAdapter`` is what they need of a channel, a ``PairAdapter`` of a pair of ends with explicit
wires.  docs/guides/conformance-kit.md explains them.

Behind them: ``kit`` holds rules, mistakes and judges; ``moves`` and ``machine`` lead pairs, ``traces`` judges runs that
the model did not lead.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from permitflow.testing.kit.adapter import Aborted, ChannelAdapter, Ended, Feature, Received, Refused
    from permitflow.testing.kit.judging import judge_adapter, judge_pair
    from permitflow.testing.kit.pytest_kits import ChannelKit, PairKit, RuleBroken
    from permitflow.testing.kit.rules import Report, RuleVerdict
    from permitflow.testing.moves import ActionRefused, Divergence, PairAdapter

__all__ = [
    "Aborted",
    "ActionRefused",
    "ChannelAdapter",
    "ChannelKit",
    "Divergence",
    "Ended",
    "Feature",
    "PairAdapter",
    "PairKit",
    "Received",
    "Refused",
    "Report",
    "RuleBroken",
    "RuleVerdict",
    "judge_adapter",
    "judge_pair",
]

# Loaded on first use: only the test classes need pytest, only drawn runs need Hypothesis.
_PLACES = {
    "kit.adapter": ("Aborted", "ChannelAdapter", "Ended", "Feature", "Received", "Refused"),
    "kit.judging": ("judge_adapter", "judge_pair"),
    "kit.pytest_kits": ("ChannelKit", "PairKit", "RuleBroken"),
    "kit.rules": ("Report", "RuleVerdict"),
    "moves": ("ActionRefused", "Divergence", "PairAdapter"),
}


def __getattr__(name: str) -> object:
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
