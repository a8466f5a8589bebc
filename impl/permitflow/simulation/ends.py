"""Two ends with numbers of their own: what chunks cost, where the ends disagree, and what a handshake makes of it."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from permitflow.errors import InvalidParametersError, ParameterMismatchError
from permitflow.protocol.frames import StatedParameters
from permitflow.protocol.handshake import agree
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.simulation.setting import Setting, pieces_of

__all__ = ["Disagreement", "agreement", "costs_of", "disagreements", "largest_cost", "most_outstanding"]

_MOST_SIZES = 10_000
# Two megabytes.
_MOST_BITS = 1 << 24


class Disagreement(NamedTuple):
    """A parameter for which the two ends have different values."""

    name: str
    upstream: object
    downstream: object


def disagreements(setting: Setting) -> list[Disagreement]:
    """Where the two configurations differ."""
    up, down = StatedParameters.of(setting.sender), StatedParameters.of(setting.receiver)
    return [
        Disagreement(name, ours, theirs)
        for name, ours, theirs in zip(StatedParameters._fields, up, down, strict=True)
        if ours != theirs
    ]


def agreement(setting: Setting) -> ChannelParameters | InvalidParametersError | ParameterMismatchError:
    """What both ends would count by after permitflow's handshake, or why it would refuse."""
    try:
        own = StatedParameters.of(setting.sender).checked()
        return agree(own, StatedParameters.of(setting.receiver))
    except (InvalidParametersError, ParameterMismatchError) as error:
        return error


def largest_cost(setting: Setting) -> int:
    """The most row permits that a message may take."""
    sender, possible = setting.sender, setting.chunks.possible
    return sender.max_chunk_cost if possible is None else sender.cost_of(possible[-1])


def costs_of(setting: Setting) -> tuple[int, ...] | None:
    """All costs that messages may have, ascending; None if it is every one from 1 to the largest.

    So many sizes that nobody could tell them from all sizes are taken for all.
    """
    possible, sender = setting.chunks.possible, setting.sender
    if possible is None:
        return None
    largest = largest_cost(setting)
    if len(possible) > _MOST_SIZES or (isinstance(possible, range) and possible.start <= 1):
        return None
    costs = {sender.cost_of(piece) for rows in possible for piece in pieces_of(_shortened(rows, sender), sender)}
    return None if len(costs) == largest else tuple(sorted(costs))


def _shortened(rows: int, parameters: ChannelParameters) -> int:
    """Fewer rows that come to the same sizes of slices: a million equal ones are as good as one."""
    clamp = parameters.max_chunk_cost
    return rows if rows < 2 * clamp or parameters.oversize is Oversize.WHOLE else clamp + rows % clamp


def most_outstanding(setting: Setting) -> int:
    """The most row permits that can be away from the sender at once."""
    window, costs = setting.sender.row_permits, costs_of(setting)
    if costs is None or 1 in costs:
        return window
    return _largest_sum(costs, window)


def _largest_sum(costs: Sequence[int], limit: int) -> int:
    """The largest sum of any of these numbers, each as often as wanted, that does not exceed the limit."""
    if limit > _MOST_BITS:
        return limit - limit % math.gcd(*costs)  # from some sum on, every multiple of the divisor is one
    reached, mask = 1, (1 << (limit + 1)) - 1  # bit n: n is such a sum
    for cost in costs:
        step = cost
        while step <= limit:
            reached |= (reached << step) & mask
            step *= 2
    return reached.bit_length() - 1
