"""Led ends that cannot be copied, for walks that copy them: a copy makes the moves again that have led to it."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Driven(Protocol):
    """Ends that are led; they have a method for each action, too."""

    def begin(self) -> None:
        """Come to the model's first state."""

    def observe(self) -> Any:
        """See ``PairAdapter``."""

    def end(self) -> None:
        """Nobody needs it any more."""


class Replayed:
    """Driven ends that are pickled as the moves that have led to them."""

    def __init__(self, make: Callable[[], Driven], moves: Sequence[tuple[str, tuple[int, ...]]] = ()) -> None:
        """Begin, and make these moves; ``make`` can be pickled."""
        self._make, self._moves = make, [*moves]
        self._driven = make()
        self._driven.begin()
        for method, arguments in moves:
            getattr(self._driven, method)(*arguments)

    def __getattr__(self, method: str) -> Callable[..., None]:
        """The driven ends' method, which is noted unless they refuse."""
        perform = getattr(self._driven, method)

        def move(*arguments: int) -> None:
            perform(*arguments)
            self._moves.append((method, arguments))

        return move

    def observe(self) -> Any:
        """See ``PairAdapter``."""
        return self._driven.observe()

    def __reduce__(self) -> tuple[object, ...]:
        return Replayed, (self._make, self._moves)

    def __del__(self) -> None:
        self._driven.end()
