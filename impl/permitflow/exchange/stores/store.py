"""What an exchange needs of the place where it keeps the rows of its replay channels.

The exchange does the books; a store keeps what it is told.  When a call that writes has returned, what it was told
survives whatever the store promises to survive: nothing if it is memory, a crash of the process or of the machine if
it is a disk.  A call that raises has changed nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol

import pyarrow as pa

from permitflow.protocol.control import ChannelState
from permitflow.protocol.flow import Parameters
from permitflow.protocol.frames import Staging

__all__ = ["ChannelStore", "KeptChannel", "KeptPart", "PublishedPart", "Store"]


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptPart:
    """What a store has of one attempt that staged rows for a channel."""

    staging: Staging
    chunk_rows: tuple[int, ...]
    """Rows of each of its chunks."""


class PublishedPart(NamedTuple):
    """An attempt whose rows become rows of its channel."""

    channel: str
    staging: Staging
    first_row: int
    """The number of its first row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptChannel:
    """What a store has of a channel."""

    log_id: str
    """The name of the log: made when the channel was first opened, and kept with its rows."""
    next_row: int = 0
    """The number of the next row that will come."""
    acknowledged: Mapping[str, int] | None = None
    """By each consumer; None: the channel is new."""
    producers: Mapping[str, int] = field(default_factory=dict)
    """Rows of each named producer that were ever appended."""
    schema: pa.Schema | None = None
    state: ChannelState = ChannelState.OPEN
    reason: str = ""
    """Why it is broken; else empty."""
    staged: Sequence[KeptPart] = ()
    """Attempts that are not published, in the order in which they began."""


class ChannelStore(Protocol):
    """Keeps one channel.

    The exchange makes one call of ``declare``, ``append``, ``finish``, and ``Store.publish`` for this channel, at a
    time, one of ``acknowledge``, and for each attempt one of ``stage`` and ``forget``; these, and any number of
    ``read``, may be under way together.  It never cancels a call that writes.
    """

    def load(self) -> KeptChannel:
        """What is there; called once, before everything else."""
        ...

    async def declare(self, schema: pa.Schema) -> None:
        """Note the schema; called once, before the first ``append``.

        Raises:
            StoreError: it could not be written.
        """
        ...

    async def append(
        self, first_row: int, batches: Sequence[pa.RecordBatch], producer: str = "", producer_rows: int = 0
    ) -> None:
        """Keep rows, all or none; what was ready together comes together, so that it can be written at once.

        Args:
            first_row: the number of the first of these rows; all rows before it were appended already.
            batches: the rows, in order; none is empty.
            producer: whose they are; empty: of no named producer.
            producer_rows: how many rows of this producer were ever appended, these included.

        Raises:
            StoreError: they could not be written.
        """
        ...

    async def read(self, from_row: int, to_row: int) -> list[pa.RecordBatch]:
        """The rows ``[from_row, to_row)``, in order, sliced at both ends; they were appended and not forgotten.

        Of rows that are acknowledged while this call waits, fewer may come, or none.

        Raises:
            StoreError: they could not be read.
        """
        ...

    async def acknowledge(self, consumer: str, row: int, first_kept_row: int) -> None:
        """Note how far a consumer has come; rows before ``first_kept_row`` need not be kept any more.

        They may stay for longer, for instance until all rows of a batch are forgotten.

        Raises:
            StoreError: it could not be written.
        """
        ...

    async def stage(self, staging: Staging, batches: Sequence[pa.RecordBatch]) -> None:
        """Keep chunks of an attempt, after those that it has; they are not part of the channel.

        Args:
            staging: the attempt.
            batches: its chunks, in order; none is empty.

        Raises:
            StoreError: they could not be written.
        """
        ...

    async def forget(self, stagings: Sequence[Staging]) -> None:
        """Attempts that were not published are not needed; of some of them, nothing may be here.

        Raises:
            StoreError: it could not be written.
        """
        ...

    async def finish(self, state: ChannelState, reason: str) -> None:
        """Note that no row will come any more: the channel has ended, or is broken.

        Raises:
            StoreError: it could not be written.
        """
        ...

    def remove(self) -> None:
        """Forget the channel and all its rows; the exchange calls nothing afterwards."""
        ...


class Store(Protocol):
    """Keeps the replay channels of one exchange."""

    is_durable: ClassVar[bool]
    """Does what it keeps survive the exchange?"""

    def open_channels(
        self,
        names: Sequence[str],
        *,
        parameters: Parameters,
        consumers: Sequence[str],
        schema: pa.Schema | None = None,
    ) -> Sequence[ChannelStore]:
        """The places of channels, with what was kept of each before; the new ones are made together, all or none.

        Args:
            names: unique in this exchange.
            parameters: with which the channels are opened now.
            consumers: for whom rows are kept from now on; the first time, or others than before.
            schema: what all of them must have; None: whatever they have.

        Raises:
            SchemaMismatchError: one was kept with another schema; nothing was opened.
            StoreError: there is something that does not fit; nothing was opened.
        """
        ...

    def published_batches(self) -> Mapping[str, int]:
        """The last published batch of each query, in the order in which they were published."""
        ...

    async def publish(
        self, query: str, batch: int, parts: Sequence[PublishedPart], forgotten: Collection[str] = ()
    ) -> None:
        """Publish a batch, all or nothing.

        The rows of these attempts become rows of their channels, as if they were appended.  Everything else that was
        staged for this batch of the query, or for older ones, is forgotten.

        Args:
            query: whose batch it is.
            batch: from now on the last one of this query that was published.
            parts: in the order of their rows; of one without rows, nothing may be here, nor of a channel that was
                removed.
            forgotten: queries whose last published batch need not be remembered any more.

        Raises:
            StoreError: it could not be written.
        """
        ...

    def close(self) -> None:
        """Release what the store holds; the exchange calls nothing afterwards.  Closing twice is harmless."""
        ...
