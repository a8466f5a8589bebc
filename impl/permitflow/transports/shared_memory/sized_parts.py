"""A message in hundreds of parts, whose size need not be added up again by everybody on its way."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from permitflow.transports.shared_memory.ring import Part

__all__ = ["SizedParts", "size_of"]

P = TypeVar("P", bound=Part)


class SizedParts(list[P]):
    """Parts that do not change any more, and how many bytes they have together."""

    __slots__ = ("size_bytes",)

    def __init__(self, parts: Iterable[P], size_bytes: int) -> None:
        """``size_bytes`` is what ``sum(map(len, parts))`` would say."""
        super().__init__(parts)
        self.size_bytes = size_bytes


def size_of(parts: Sequence[Part]) -> int:
    """Of all parts together, in bytes."""
    return parts.size_bytes if isinstance(parts, SizedParts) else sum(map(len, parts))
