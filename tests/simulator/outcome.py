"""What came of one simulated run."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Outcome:
    """Of one seed."""

    seed: int
    broken: list[str] = field(default_factory=list)
    """The laws that do not hold; empty: all is well."""
    digest: str = ""
    """Equal for equal runs: whose turn it was, what has come when, and what was told."""
    seconds: float = 0.0
    """That were simulated."""
    steps: Counter[str] = field(default_factory=Counter)
    """Of the models: how often each action was judged."""
    seen: Counter[str] = field(default_factory=Counter)
    """What was sometimes to happen, and has."""
    story: list[tuple[float, str, str]] = field(default_factory=list)
    """When, where and what, if it was to be told."""
    states: set[Any] = field(default_factory=set)
    """Those of the model that were reached, in runs with the parameters of ``coverage``."""
