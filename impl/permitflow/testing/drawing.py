"""How Hypothesis draws moves."""

from collections.abc import Iterable

from hypothesis import strategies as st

from permitflow.testing.moves import Move

__all__ = ["drawn_from"]


def drawn_from(moves: Iterable[Move]) -> st.SearchStrategy[Move]:
    """Draw an action, then its arguments: the many sizes of a chunk must not crowd the other actions out."""
    by_action: dict[str, list[Move]] = {}
    for move in moves:
        by_action.setdefault(move.action, []).append(move)
    return st.sampled_from(list(by_action.values())).flatmap(st.sampled_from)
