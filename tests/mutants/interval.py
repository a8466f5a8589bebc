"""Code on which the tool that makes mistakes is tried."""


def overlap(first: range, second: range) -> int:
    """How many numbers stand in both; ranges that do not touch have none in common."""
    length = min(first.stop, second.stop) - max(first.start, second.start)
    return max(length, 0)
