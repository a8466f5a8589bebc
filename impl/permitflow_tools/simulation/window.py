"""Finds the number of row permits that keeps the pipe full: by simulation, and by a formula that explains it."""

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import NamedTuple

from permitflow.errors import InvalidParametersError
from permitflow_tools.simulation.run import LEAST_CHUNKS, Progress, run_length, simulate
from permitflow_tools.simulation.setting import SimulationSetting, varied

# Times are sums of floats; nine equal digits count as full.
_ROUNDING = 1e-9
# A channel that starves does so in every window.
_WINDOWS = 4
# Equal chunks repeat the same pattern soon.
_EQUAL_CHUNKS = 200


class Terms(NamedTuple):
    """The terms of the formula for equal chunks, in rows."""

    under_way: int
    """Rate times the time until a chunk's permits could be back, in whole chunks."""
    returned_at_once: int
    """The batch, in whole chunks."""
    room: int
    """What ``max_chunk_cost`` needs beyond that, so that no chunk has to be split; mostly 0."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """The smallest window that keeps the pipe full, and its terms; all in rows."""

    smallest: int
    """Found by bisection over simulated runs."""
    full_share: float
    """A pipe counts as full at this share of a generous window's throughput."""
    bandwidth_delay_product: float
    terms: Terms | None
    """The terms of the formula for equal chunks; None if it does not apply."""
    enough: int | None
    """A sufficient window for any chunk sizes at steady rates; None if chunks have no largest size."""

    @property
    def exact(self) -> int | None:
        """The formula's result."""
        return None if self.terms is None else sum(self.terms)


def exact_terms(setting: SimulationSetting) -> Terms | None:
    """The smallest ``row_permits`` with which equal chunks at steady rates never wait for permits, as a sum.

    ``g + c * ceil(rate * loop / c - 1)``, where ``g`` is the batch rounded up to whole chunks, because permits return
    by whole chunks, and ``loop`` is the round-trip time and the times that link and consumer take for a chunk: the
    time from the departure of a chunk until its permits could be back.  One chunk less, because the next chunk may
    leave when the first one's permits are back.  Where an idle receiver returns what it holds, and the consumer is
    not the slowest part, it catches up with every chunk: then ``g`` is one chunk.  Where ``max_chunk_cost``
    follows from the other two, it must leave room for the chunk.

    None if chunks differ, are split, or nothing is slow.
    """
    cost, rate = setting.constant_cost, setting.bottleneck_rate
    if cost is None or rate == math.inf:
        return None
    loop_seconds = setting.rtt_seconds + cost / setting.link_rate + cost / setting.consumer_rate
    under_way = cost * max(0, math.ceil(rate * loop_seconds / cost - 1 - _ROUNDING))
    catches_up = setting.flush_idle and setting.consumer_rate > rate
    returned_at_once = cost * math.ceil((1 if catches_up else setting.receiver.permit_batch) / cost)
    room = 0 if setting.upstream.max_chunk_cost else setting.sender.permit_batch + cost
    return Terms(under_way, returned_at_once, max(0, room - under_way - returned_at_once))


def enough_rows(setting: SimulationSetting) -> int | None:
    """``row_permits`` that keep the pipe full for chunks of any sizes up to the largest.

    ``rate * rtt + batch + 2 * largest``, and once more the largest if the link takes time.  Of the permits that are
    not at the sender, at most ``batch - 1`` are kept by the receiver, those of one chunk belong to the chunk being
    consumed, and ``rate * rtt`` are under way; the chunk that waits needs at most the largest cost.
    """
    if setting.bottleneck_rate == math.inf:
        return None
    largest = setting.chunks.possible[-1]
    chunks = 2 if math.isinf(setting.link_rate) else 3
    return math.ceil(setting.bandwidth_delay_product) + setting.receiver.permit_batch + chunks * largest


def enough_bytes(setting: SimulationSetting) -> int | None:
    """A byte window that keeps the pipe full, by the same reasoning; a quarter of it is the batch.

    None where bytes are not counted, or nothing is slow.
    """
    if not setting.row_bytes or setting.bottleneck_rate == math.inf:
        return None
    chunks = 2 if math.isinf(setting.link_rate) else 3
    rows = math.ceil(setting.bandwidth_delay_product) + chunks * setting.chunks.possible[-1]
    return math.ceil(rows * setting.row_bytes * 4 / 3)


def smallest_window(
    setting: SimulationSetting, *, seed: int = 0, full_share: float = 1.0, on_progress: Progress | None = None
) -> Window | None:
    """Bisect for the smallest ``row_permits``, the same at both ends, that keep the pipe full; bytes do not count.

    None if nothing limits the flow but the window: then no pipe is ever full.

    Raises:
        InvalidParametersError: nothing in the setting takes any time.
    """
    if setting.bottleneck_rate == math.inf:
        return None
    setting = replace(setting, row_bytes=0)
    # No permit is back before a round trip is over: a window below this cannot carry the requested rate.
    too_small = max(0, math.ceil(full_share * setting.bandwidth_delay_product * (1 - _ROUNDING)) - 1)
    large_enough = _generous(setting)
    length = run_length(
        with_row_permits(setting, large_enough),
        least_windows=_WINDOWS,
        least_chunks=LEAST_CHUNKS if setting.constant_cost is None else _EQUAL_CHUNKS,
    )
    most_runs, done = 3 + (large_enough - too_small).bit_length(), 0

    def throughput(row_permits: int) -> float:
        """Throughput; 0 if the channel gets stuck, or no chunk fits."""
        nonlocal done
        try:
            tried = with_row_permits(setting, row_permits)
        except InvalidParametersError:
            return 0.0
        report = None if on_progress is None else lambda share: on_progress((done + share) / most_runs)
        figures = simulate(tried, seed=seed, length=length, on_progress=report).figures
        done += 1
        return 0.0 if figures is None else figures.throughput

    goal = full_share * throughput(large_enough) * (1 - _ROUNDING)
    # The formula's answer first: if it is right, two runs show it.
    terms = exact_terms(setting)
    for guess in () if terms is None else (sum(terms), sum(terms) - 1):
        if too_small < guess < large_enough:
            if throughput(guess) >= goal:
                large_enough = guess
            else:
                too_small = guess
    between = range(too_small + 1, large_enough)
    smallest = too_small + 1 + bisect_left(between, True, key=lambda row_permits: throughput(row_permits) >= goal)
    found = with_row_permits(setting, smallest)
    return Window(
        smallest=smallest,
        full_share=full_share,
        bandwidth_delay_product=setting.bandwidth_delay_product,
        terms=exact_terms(found),
        enough=enough_rows(found),
    )


def with_row_permits(setting: SimulationSetting, row_permits: int) -> SimulationSetting:
    """The setting with another window, the same at both ends."""
    return varied(setting, {"row_permits": row_permits})


def _generous(setting: SimulationSetting) -> int:
    """Certainly enough: twice the sufficient window for the largest chunk."""
    largest = setting.chunks.possible[-1]
    room = (setting.upstream.max_chunk_cost or 0) + (setting.receiver.permit_batch)
    return 2 * (math.ceil(setting.bandwidth_delay_product) + 3 * largest + room)
