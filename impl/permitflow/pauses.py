"""Pauses between attempts to reach what is away, the same for everyone who dials again.

Each is of random length ("full jitter") below a bound that doubles, so that not all who wait come at the same moment.
gRPC, which waits for an exchange that is not there yet by itself, is told the first and the longest bound.
"""

from collections.abc import Iterator
from random import Random, SystemRandom

FIRST_SECONDS, LONGEST_SECONDS = 0.05, 1.0

dice: Random = SystemRandom()  # has no state that forked processes would share; a simulator has another one


def pauses() -> Iterator[float]:
    """Seconds, one pause after the other, without an end."""
    most_seconds = FIRST_SECONDS
    while True:
        yield dice.uniform(0, most_seconds)
        most_seconds = min(2 * most_seconds, LONGEST_SECONDS)
