"""The setting of a simulation: two ends with their own numbers, the network, the applications, and the varied axes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from permitflow.chunks import slices
from permitflow.errors import InvalidParametersError, ParameterMismatchError
from permitflow.flows.adaptive_window import require_latency
from permitflow.flows.byte_window import DEFAULT_BYTE_WINDOW, require_byte_window
from permitflow.flows.permits.agreement import PERMITS
from permitflow.flows.permits.parameters import (
    BATCH_SHARE,
    NOTHING_STATED,
    ChannelParameters,
    Oversize,
    StatedParameters,
)
from permitflow.flows.seam import Wishes, stated_values
from permitflow_tools.simulation.chunk_sizes import ChunkSizes, WeightedSizes


@dataclass(frozen=True, kw_only=True, slots=True)
class EndParameters(ChannelParameters):
    """The parameters in one end's configuration, whether they can work or not.

    Completed like ``ChannelParameters``, which refuse numbers that may get stuck; a simulation must accept those.

    Raises:
        InvalidParametersError: a number is impossible, or no chunk has room.
    """

    def __post_init__(self) -> None:
        """Fill in missing numbers as the published protocol does."""
        is_max_chunk_cost_open = self.max_chunk_cost == 0
        self._fill_in()
        if is_max_chunk_cost_open and self.max_chunk_cost < 1:
            rule = f"must be below row_permits = {self.row_permits} unless max_chunk_cost is stated"
            raise InvalidParametersError(name="permit_batch", value=self.permit_batch, rule=rule)
        for name in ("row_permits", "permit_batch", "max_chunk_cost", "barrier_permits"):
            if getattr(self, name) < 1:
                raise InvalidParametersError(name=name, value=getattr(self, name), rule="must be at least 1")
        self._check_initial_permits()

    @classmethod
    def of(cls, stated: Wishes) -> "EndParameters":
        """Complete the stated numbers."""
        given = stated_values(stated)
        return cls(**given | {"oversize": Oversize(given.get("oversize", Oversize.SPLIT))})


@dataclass(frozen=True, kw_only=True)
class SimulationSetting:
    """One channel, its network, its producer and its consumer.

    Raises:
        InvalidParametersError: a number is out of its range.
    """

    upstream: Wishes
    """The sender's configuration; ``row_permits`` must be stated."""
    chunks: ChunkSizes
    """The sizes of the producer's chunks."""
    downstream: Wishes = NOTHING_STATED
    """The receiver's configuration; the upstream's numbers are its defaults."""
    flush_idle: bool = False
    """Does an idle receiver return less than a batch?  permitflow's does, the published protocol's does not."""
    forward_seconds: float = 0.0
    """Delay from the sender to the receiver."""
    return_seconds: float = 0.0
    """Delay from the receiver to the sender, for returned permits."""
    producer_rate: float = math.inf
    """Rows a second that the producer makes while it does not wait for permits."""
    consumer_rate: float = math.inf
    """Rows a second that the consumer consumes while there are any."""
    link_rate: float = math.inf
    """Rows a second that fit onto the wire."""
    row_bytes: int = 0
    """Bytes of a row; 0: bytes are not counted."""
    byte_window: int = DEFAULT_BYTE_WINDOW
    """Bytes that may be out at once."""
    target_latency_seconds: float = 0.0
    """The receiver adapts its window to this; 0: it does not."""

    def __post_init__(self) -> None:
        """Refuse impossible numbers, but not those that get stuck."""
        for name in ("producer_rate", "consumer_rate", "link_rate"):
            if not getattr(self, name) > 0:
                raise InvalidParametersError(name=name, value=getattr(self, name), rule="must be above 0")
        for name in ("forward_seconds", "return_seconds"):
            if not 0 <= getattr(self, name) < math.inf:
                rule = "must be at least 0 and finite"
                raise InvalidParametersError(name=name, value=getattr(self, name), rule=rule)
        if self.row_bytes < 0:
            raise InvalidParametersError(name="row_bytes", value=self.row_bytes, rule="must not be negative")
        require_byte_window(self.byte_window)
        if self.target_latency_seconds:
            require_latency(self.target_latency_seconds)
        if self.upstream.row_permits is None:
            raise InvalidParametersError(name="row_permits", value=None, rule="must be stated for the upstream")
        sender, receiver = self.sender, self.receiver
        given = receiver.row_permits - receiver.initial_permits
        if sender.initial_permits + given != sender.row_permits:
            rule = (
                f"must add up: the upstream begins with {sender.initial_permits} of {sender.row_permits} permits, "
                f"and the downstream gives {given} more; state row_permits and initial_permits alike for both ends"
            )
            raise InvalidParametersError(name="initial_permits", value=receiver.initial_permits, rule=rule)

    @property
    def sender(self) -> EndParameters:
        """The sender's parameters."""
        return EndParameters.of(self.upstream)

    @property
    def receiver(self) -> EndParameters:
        """The receiver's parameters."""
        return EndParameters.of(self.upstream._replace(**stated_values(self.downstream)))

    @property
    def rtt_seconds(self) -> float:
        """The round-trip time."""
        return self.forward_seconds + self.return_seconds

    @property
    def bottleneck_rate(self) -> float:
        """The lowest rate of producer, link and consumer, in rows a second."""
        return min(self.producer_rate, self.link_rate, self.consumer_rate)

    @property
    def takes_time(self) -> bool:
        """Is there a delay, or a rate that is not unlimited?"""
        return self.rtt_seconds > 0 or self.bottleneck_rate < math.inf

    @property
    def bandwidth_delay_product(self) -> float:
        """Rows that pass the bottleneck in one round trip; infinite if nothing is slow."""
        return self.bottleneck_rate * self.rtt_seconds if self.rtt_seconds else 0.0

    @property
    def least_target_latency_seconds(self) -> float:
        """A shorter target latency cannot be met: rows wait longer, or throughput is lost.

        Two of the largest chunks are always let in; and an eighth of the target comes back while the rest is consumed.
        Source: docs/protocols/adaptive-window.md.
        """
        chunk_seconds = largest_cost(self) / self.consumer_rate
        return max(2 * chunk_seconds, BATCH_SHARE / (BATCH_SHARE - 1) * (self.rtt_seconds + chunk_seconds))

    @property
    def constant_cost(self) -> int | None:
        """The cost of every message, if all chunks are equal and none has to be split; else None."""
        if len(self.chunks.possible) != 1:
            return None
        (rows,) = self.chunks.possible
        return rows if rows <= self.sender.max_chunk_cost else None


def pieces_of(rows: int, parameters: ChannelParameters) -> Iterator[int]:
    """Rows of the messages that a chunk of this many rows becomes at an end with these parameters."""
    if parameters.oversize is Oversize.WHOLE or rows <= parameters.max_chunk_cost:
        yield rows
        return
    yield from map(len, slices(range(rows), parameters.max_chunk_cost))


_MOST_SIZES = 10_000
# Two megabytes.
_MOST_BITS = 1 << 24


class Disagreement(NamedTuple):
    """A parameter for which the two ends have different values."""

    name: str
    upstream: object
    downstream: object


def disagreements(setting: SimulationSetting) -> list[Disagreement]:
    """The parameters in which the two configurations differ."""
    up, down = PERMITS.state(setting.sender), PERMITS.state(setting.receiver)
    # By default they are row_permits, and say nothing that these do not say.
    is_pull = any(end.initial_permits is not None for end in (setting.upstream, setting.downstream))
    return [
        Disagreement(name, ours, theirs)
        for name, ours, theirs in zip(StatedParameters._fields, up, down, strict=True)
        if ours != theirs and (name != "initial_permits" or is_pull)
    ]


def agreement(setting: SimulationSetting) -> ChannelParameters | InvalidParametersError | ParameterMismatchError:
    """The parameters after permitflow's handshake, or its refusal."""
    try:
        own = PERMITS.complete(PERMITS.state(setting.sender))
        return PERMITS.agree(own, PERMITS.state(setting.receiver))
    except (InvalidParametersError, ParameterMismatchError) as error:
        return error


def largest_cost(setting: SimulationSetting) -> int:
    """The most row permits that a message may take."""
    return setting.sender.cost_of(setting.chunks.possible[-1])


def costs_of(setting: SimulationSetting) -> tuple[int, ...] | None:
    """All possible costs of messages, ascending; None for every cost from 1 to the largest.

    More than ten thousand sizes are taken for all sizes.
    """
    possible, sender = setting.chunks.possible, setting.sender
    largest = largest_cost(setting)
    if len(possible) > _MOST_SIZES or (isinstance(possible, range) and possible.start <= 1):
        return None
    costs = {sender.cost_of(piece) for rows in possible for piece in pieces_of(_shortened(rows, sender), sender)}
    return None if len(costs) == largest else tuple(sorted(costs))


def _shortened(rows: int, parameters: ChannelParameters) -> int:
    """A smaller number of rows that gives the same sizes of slices: one of many equal slices suffices."""
    max_chunk_cost = parameters.max_chunk_cost
    return (
        rows
        if rows < 2 * max_chunk_cost or parameters.oversize is Oversize.WHOLE
        else max_chunk_cost + rows % max_chunk_cost
    )


def most_outstanding(setting: SimulationSetting) -> int:
    """The most row permits that can be away from the sender at once."""
    window, costs = setting.sender.row_permits, costs_of(setting)
    if costs is None or 1 in costs:
        return window
    return _largest_sum(costs, window)


def _largest_sum(costs: Sequence[int], limit: int) -> int:
    """The largest sum of any of these numbers, each as often as wanted, that does not exceed the limit."""
    unit = math.gcd(*costs)
    most = limit // unit
    if most > _MOST_BITS:
        return most * unit  # from some sum on, every multiple of the divisor is one
    reached, mask = 1, (1 << (most + 1)) - 1  # bit n: n units are such a sum
    for cost in costs:
        step = cost // unit
        while step <= most:
            reached |= (reached << step) & mask
            step *= 2
    return (reached.bit_length() - 1) * unit


class Axis(NamedTuple):
    """A varied quantity and its values: rows, seconds, or rows a second."""

    name: str
    values: Sequence[float]


_NUMBERS = ("row_permits", "permit_batch", "max_chunk_cost")
_RATES = ("producer_rate", "consumer_rate", "link_rate")
_BYTES = ("row_bytes", "byte_window")
_LATENCY = "target_latency"
AXES = (*_NUMBERS, "chunk_rows", "rtt", *_RATES, *_BYTES, _LATENCY)
"""The names of the axes; the first three vary at both ends alike."""


def varied(setting: SimulationSetting, values: Mapping[str, float]) -> SimulationSetting:
    """The same setting with these values, by the names of axes; no end has more initial permits than the window.

    Raises:
        InvalidParametersError: the combination is impossible.
    """
    # All at once: one number alone may not fit the others as they were.
    numbers = {name: int(values[name]) for name in _NUMBERS if name in values}
    upstream = setting.upstream._replace(**numbers)
    downstream = setting.downstream._replace(**dict.fromkeys(numbers))
    window = upstream.row_permits
    changes: dict[str, Any] = {name: values[name] for name in _RATES if name in values}
    changes |= {name: int(values[name]) for name in _BYTES if name in values}
    if _LATENCY in values:
        changes["target_latency_seconds"] = values[_LATENCY]
    if "chunk_rows" in values:
        changes["chunks"] = WeightedSizes([int(values["chunk_rows"])])
    if "rtt" in values:
        # In the same proportion as before; in halves if there was no delay.
        share = setting.forward_seconds / setting.rtt_seconds if setting.rtt_seconds else 0.5
        changes |= {"forward_seconds": values["rtt"] * share, "return_seconds": values["rtt"] * (1 - share)}
    return replace(
        setting,
        upstream=_within(window, upstream),
        downstream=_within(downstream.row_permits or window, downstream),
        **changes,
    )


def _within(window: int | None, end: Wishes) -> Wishes:
    if window is None or end.initial_permits is None:
        return end
    return end._replace(initial_permits=min(window, end.initial_permits))


def combinations(axes: Sequence[Axis]) -> Iterator[dict[str, float]]:
    """All combinations, each by the names of the axes; the last axis varies fastest."""
    names = [axis.name for axis in axes]
    return (dict(zip(names, values, strict=True)) for values in product(*(axis.values for axis in axes)))
