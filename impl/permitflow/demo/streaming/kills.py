"""Which process is killed when: drawn from a seed, so that a run can be repeated."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

__all__ = ["Kill", "Victim", "plan_kills"]

# Before the first rows nothing can be lost, and after the last ones neither.
EARLIEST_SHARE = 0.01
LATEST_SHARE = 0.95
# From "in the middle of the same chunk" to "while Spark plans another batch".
LONGEST_DELAY_SECONDS = 1.5


class Victim(StrEnum):
    """A part of the pipeline that can be killed."""

    PRODUCER = "producer"
    EXCHANGE = "exchange"
    DRIVER = "driver"
    EXECUTOR = "executor"
    CONSUMER = "consumer"


@dataclass(frozen=True)
class Kill:
    """One SIGKILL."""

    victim: Victim
    progress: float
    """The share of all rows that Spark must have acknowledged: so no kill comes before the pipeline has recovered so
    far that it moves on, and several can come at once."""
    delay_seconds: float
    """Then it takes so much longer."""


def plan_kills(count: int, seed: int) -> Sequence[Kill]:
    """``count`` kills in the order of their progress; each part gets its share, give or take one.

    Those that are killed once more than others are the first ones of ``Victim``.
    """
    dice = Random(seed)
    victims = [list(Victim)[number % len(Victim)] for number in range(count)]
    dice.shuffle(victims)
    shares = sorted(dice.uniform(EARLIEST_SHARE, LATEST_SHARE) for _ in victims)
    return [
        Kill(victim, share, dice.uniform(0, LONGEST_DELAY_SECONDS))
        for victim, share in zip(victims, shares, strict=True)
    ]
