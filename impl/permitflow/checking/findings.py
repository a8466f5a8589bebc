"""How a combination of numbers is checked, and what becomes of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

__all__ = ["MOST_STATES", "Check", "Finding", "Verdict"]

MOST_STATES = 1_000_000
"""Of one channel: about a gigabyte and a minute."""

Verdict = Literal["live", "deadlock", "overspend", "violation", "impossible", "too large", "undecided"]


class Check(StrEnum):
    """How a cell is checked."""

    DECIDE = "decide"
    """By the theorems: at once, for numbers of any size.  Needs ``permitflow[proofs]``."""

    EXPLORE = "explore"
    """By the model: every state that can be reached is visited, which only small numbers allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of one combination of numbers."""

    values: Mapping[str, int]
    """By the name of the axis, in rows."""

    verdict: Verdict
    reason: str
    """Of the verdict, in words."""

    run: tuple[str, ...] = ()
    """The actions of a shortest run into a deadlock."""

    max_cost: int | None = None
    """The most a chunk costs here."""

    safe_max_cost: int | None = None
    """The most a chunk may cost, as the theorems say; only if decided."""

    safe_batch: int | None = None
    """The largest batch with which such chunks are live, as the theorems say; only if decided."""

    states: int | None = None
    """How many can be reached; only if explored."""

    depth: int | None = None
    """States on the longest shortest path; only if explored."""

    seconds: float = 0.0
    """That it took."""

    @property
    def holds(self) -> bool:
        """Is it live, and nothing else wrong?"""
        return self.verdict == "live"
