"""A store whose writes take until a test lets them be done, or fail."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from permitflow.client import ChannelState, Staging
from permitflow.exchange import ChannelStore, Store
from permitflow.exchange.stores.store import PublishedPart


class SlowStore(Store):
    """All of its channels have one place."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = asyncio.Event()
        """Is what is to be written written at once?"""
        self.error: Exception | None = None
        """What comes of a write instead."""
        self.place = SlowPlace(self)

    async def until_open(self) -> None:
        await self.is_open.wait()
        if self.error is not None:
            raise self.error

    def open_channels(self, names: Sequence[str], **_: Any) -> list[ChannelStore]:
        self._channels |= dict.fromkeys(names, self.place)
        return [self.place for _ in names]

    async def publish(
        self, query: str, batch: int, parts: Sequence[PublishedPart], forgotten: Collection[str] = ()
    ) -> None:
        await self.until_open()
        await super().publish(query, batch, parts, forgotten)


class SlowPlace(ChannelStore):
    """Knows what is staged."""

    def __init__(self, store: SlowStore) -> None:
        super().__init__()
        self.stagings: set[Staging] = set()
        self._slow = store

    async def append(
        self, first_row: int, batches: Sequence[pa.RecordBatch], producer: str = "", producer_rows: int = 0
    ) -> None:
        await self._slow.until_open()
        await super().append(first_row, batches, producer, producer_rows)

    async def finish(self, state: ChannelState, reason: str) -> None:
        await self._slow.until_open()
        await super().finish(state, reason)

    async def stage(self, staging: Staging, batches: Sequence[pa.RecordBatch]) -> None:
        await self._slow.until_open()
        self.stagings.add(staging)
        await super().stage(staging, batches)

    async def forget(self, stagings: Sequence[Staging]) -> None:
        self.stagings -= set(stagings)
        await super().forget(stagings)
