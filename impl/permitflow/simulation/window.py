"""Finds the number of row permits that keeps the pipe full: by simulation, and by a formula that explains it."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from permitflow.errors import InvalidParametersError
from permitflow.simulation.run import LEAST_CHUNKS, Progress, run_length, simulate
from permitflow.simulation.setting import Setting, with_numbers

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


def exact_terms(setting: Setting) -> Terms | None:
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


def enough_rows(setting: Setting) -> int | None:
    """``row_permits`` that keep the pipe full for chunks of any sizes up to the largest.

    ``rate * rtt + batch + 2 * largest``, and once more the largest if the link takes time.  Of the permits that are
    not at the sender, at most ``batch - 1`` are kept by the receiver, those of one chunk belong to the chunk being
    consumed, and ``rate * rtt`` are under way; the chunk that waits needs at most the largest cost.
    """
    possible = setting.chunks.possible
    if possible is None or setting.bottleneck_rate == math.inf:
        return None
    largest = possible[-1]
    chunks = 2 if math.isinf(setting.link_rate) else 3
    return math.ceil(setting.bandwidth_delay_product) + setting.receiver.permit_batch + chunks * largest


def smallest_window(
    setting: Setting, *, seed: int = 0, full_share: float = 1.0, on_progress: Progress | None = None
) -> Window | None:
    """Bisect for the smallest ``row_permits``, the same at both ends, that keep the pipe full.

    None if nothing limits the flow but the window: then no pipe is ever full.

    Raises:
        InvalidParametersError: nothing in the setting takes any time.
    """
    if setting.bottleneck_rate == math.inf:
        return None
    search = _Search(setting, seed, full_share, on_progress)
    # The formula's answer first: if it is right, two runs show it.
    if (terms := exact_terms(setting)) is not None:
        search.try_out(sum(terms))
        search.try_out(sum(terms) - 1)
    while not search.is_over:
        search.try_out((search.too_small + search.large_enough) // 2)
    found = with_row_permits(setting, search.large_enough)
    return Window(
        smallest=search.large_enough,
        full_share=full_share,
        bandwidth_delay_product=setting.bandwidth_delay_product,
        terms=exact_terms(found),
        enough=enough_rows(found),
    )


def with_row_permits(setting: Setting, row_permits: int) -> Setting:
    """The setting with another window, the same at both ends."""
    return with_numbers(setting, {"row_permits": row_permits})


class _Search:
    """A bisection between a window that is too small and one that suffices."""

    def __init__(self, setting: Setting, seed: int, full_share: float, on_progress: Progress | None) -> None:
        self._setting = setting
        self._seed = seed
        self._on_progress = on_progress
        self._runs = 0
        self._told = 0.0
        # No permit is back before a round trip is over: a window below this cannot carry the requested rate.
        self.too_small = max(0, math.ceil(full_share * setting.bandwidth_delay_product * (1 - _ROUNDING)) - 1)
        self.large_enough = _generous(setting)
        chunks = LEAST_CHUNKS if setting.constant_cost is None else _EQUAL_CHUNKS
        generous = with_row_permits(setting, self.large_enough)
        self._length = run_length(generous, least_windows=_WINDOWS, least_chunks=chunks)
        self._goal = full_share * self._throughput(self.large_enough) * (1 - _ROUNDING)

    @property
    def is_over(self) -> bool:
        return self.large_enough - self.too_small <= 1

    def try_out(self, row_permits: int) -> None:
        if not self.too_small < row_permits < self.large_enough:
            return
        if self._throughput(row_permits) >= self._goal:
            self.large_enough = row_permits
        else:
            self.too_small = row_permits

    def _throughput(self, row_permits: int) -> float:
        """Throughput; 0 if the channel gets stuck, or no chunk fits."""
        try:
            setting = with_row_permits(self._setting, row_permits)
        except InvalidParametersError:
            return 0.0
        figures = simulate(setting, seed=self._seed, length=self._length, on_progress=self._report).figures
        self._runs += 1
        self._report(0.0)
        return 0.0 if figures is None else figures.throughput

    def _report(self, share: float) -> None:
        if self._on_progress is None:
            return
        ahead = math.log2(max(2, self.large_enough - self.too_small))
        # The remaining work is an estimate; reported progress never decreases.
        self._told = max(self._told, (self._runs + share) / (self._runs + 1 + ahead))
        self._on_progress(self._told)


def _generous(setting: Setting) -> int:
    """Certainly enough: twice the sufficient window for the largest chunk, or for a size that is rarely exceeded."""
    possible = setting.chunks.possible
    largest = 20 * math.ceil(setting.chunks.mean) if possible is None else possible[-1]
    room = (setting.upstream.max_chunk_cost or 0) + (setting.receiver.permit_batch)
    return 2 * (math.ceil(setting.bandwidth_delay_product) + 3 * largest + room)
