"""What is simulated: two ends, each with numbers of its own, the way between them, and who uses them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from permitflow.chunks import slices
from permitflow.errors import InvalidParametersError
from permitflow.protocol.frames import NOTHING_STATED, StatedParameters
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.simulation.chunk_sizes import ChunkSizes

__all__ = ["EndParameters", "Setting", "pieces_of"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EndParameters(ChannelParameters):
    """What one end reckons with, as its configuration says, whether that can work or not.

    Completed as ``ChannelParameters`` are, which refuse what may get stuck.  Here one wants to see it get stuck.

    Raises:
        InvalidParametersError: a number that no end can reckon with, or no room for any chunk.
    """

    def __post_init__(self) -> None:
        """Fill in what was left open, as the published protocol does."""
        is_clamp_open = self.max_chunk_cost == 0
        self._fill_in()
        if is_clamp_open and self.max_chunk_cost < 1:
            rule = f"must be below row_permits = {self.row_permits}, else the clamp leaves no room for any chunk"
            raise InvalidParametersError(name="permit_batch", value=self.permit_batch, rule=rule)
        for name in ("row_permits", "permit_batch", "max_chunk_cost", "barrier_permits"):
            if getattr(self, name) < 1:
                raise InvalidParametersError(name=name, value=getattr(self, name), rule="must be at least 1")

    @classmethod
    def of(cls, stated: StatedParameters) -> "EndParameters":
        """Complete what was stated."""
        given = {name: value for name, value in stated._asdict().items() if value is not None}
        return cls(**given | {"oversize": Oversize(given.get("oversize", Oversize.SPLIT))})


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One channel, its network, its producer and its consumer.

    Raises:
        InvalidParametersError: a number is out of its range.
    """

    upstream: StatedParameters
    """The sender's configuration; ``row_permits`` must be stated."""

    chunks: ChunkSizes
    """What the producer offers."""

    downstream: StatedParameters = NOTHING_STATED
    """The receiver's configuration; what it does not state is as upstream."""

    flush_idle: bool = False
    """Does an idle receiver return what is below its batch?  permitflow's does, the published protocol's does not."""

    forward_seconds: float = 0.0
    """From the sender to the receiver."""

    return_seconds: float = 0.0
    """From the receiver to the sender: the way of returned permits."""

    producer_rate: float = math.inf
    """Rows a second that the producer makes while it does not wait for permits."""

    consumer_rate: float = math.inf
    """Rows a second that the consumer consumes while there are any."""

    link_rate: float = math.inf
    """Rows a second that fit onto the wire."""

    def __post_init__(self) -> None:
        """Refuse what cannot be; what merely gets stuck may."""
        for name in ("producer_rate", "consumer_rate", "link_rate"):
            if not getattr(self, name) > 0:
                raise InvalidParametersError(name=name, value=getattr(self, name), rule="must be above 0")
        for name in ("forward_seconds", "return_seconds"):
            if not 0 <= getattr(self, name) < math.inf:
                rule = "must be at least 0 and finite"
                raise InvalidParametersError(name=name, value=getattr(self, name), rule=rule)
        if self.upstream.row_permits is None:
            raise InvalidParametersError(name="row_permits", value=None, rule="must be stated for the upstream")
        _ = self.sender, self.receiver

    @property
    def sender(self) -> EndParameters:
        """What the sender reckons with."""
        return EndParameters.of(self.upstream)

    @property
    def receiver(self) -> EndParameters:
        """What the receiver reckons with."""
        own = {name: value for name, value in self.downstream._asdict().items() if value is not None}
        return EndParameters.of(self.upstream._replace(**own))

    @property
    def rtt_seconds(self) -> float:
        """There and back."""
        return self.forward_seconds + self.return_seconds

    @property
    def bottleneck_rate(self) -> float:
        """Rows a second that the slowest of producer, link and consumer can do."""
        return min(self.producer_rate, self.link_rate, self.consumer_rate)

    @property
    def takes_time(self) -> bool:
        """Is there a delay, or a rate that is not unlimited?"""
        return self.rtt_seconds > 0 or self.bottleneck_rate < math.inf

    @property
    def bandwidth_delay_product(self) -> float:
        """Rows that the slowest can do in one round trip; infinite if nothing is slow."""
        return self.bottleneck_rate * self.rtt_seconds if self.rtt_seconds else 0.0

    @property
    def constant_cost(self) -> int | None:
        """What every message costs, if all chunks are equal and none has to be split; else None."""
        possible, clamp = self.chunks.possible, self.sender.max_chunk_cost
        if possible is None or len(possible) != 1:
            return None
        (rows,) = possible
        return rows if rows <= clamp else None


def pieces_of(rows: int, parameters: ChannelParameters) -> Iterator[int]:
    """Rows of the messages that a chunk of so many rows becomes at an end with these parameters."""
    if parameters.oversize is Oversize.WHOLE or rows <= parameters.max_chunk_cost:
        yield rows
        return
    yield from map(len, slices(range(rows), parameters.max_chunk_cost))
