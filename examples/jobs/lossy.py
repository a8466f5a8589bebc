"""A network that loses packets, delivers some twice, and some late: by a seed, so that a run can be repeated."""

from dataclasses import dataclass, field
from random import Random

from permitflow.errors import InvalidOptionError

MOST_LATE = 8
"""Packets that are held back at a time."""


@dataclass(kw_only=True)
class LossyNetwork:
    """Decides for each packet what becomes of it."""

    lose: float = 0.0
    """The share of packets that never arrive."""
    duplicate: float = 0.0
    """The share, of the others, that arrive twice."""
    reorder: float = 0.0
    """The share, of the others, that arrive after packets that were sent later."""
    seed: int = 1
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    _late: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Refuse what is no share.

        Raises:
            InvalidOptionError: one is below 0 or above 1.
        """
        for name in ("lose", "duplicate", "reorder"):
            if not 0 <= (share := getattr(self, name)) <= 1:
                raise InvalidOptionError(option=name, value=share, reason="must be a share, from 0 to 1")
        self._random = Random(self.seed)

    def pass_on(self, packet: bytes) -> list[bytes]:
        """What arrives because this packet was sent; a late one comes with a packet that arrives in time."""
        if self._random.random() < self.lose:
            self.lost += 1
            return []
        arriving = [packet]
        if self._random.random() < self.duplicate:
            self.duplicated += 1
            arriving.append(packet)
        if self._random.random() < self.reorder and len(self._late) < MOST_LATE:
            self.reordered += 1
            self._late.append(arriving.pop())
        elif len(self._late) == MOST_LATE or self._random.random() >= self.reorder:
            arriving += self._late
            self._late.clear()
        return arriving
