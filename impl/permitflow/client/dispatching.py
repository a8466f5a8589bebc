"""Feed several channels of an exchange as one stream, whose rows go to the channel of their key."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from permitflow.channels.interface import SendEnd
from permitflow.client.aio import put
from permitflow.client.aio_control import names_of, require_single_places
from permitflow.client.options import PutOptions, counts_its_end
from permitflow.client.remote_sender import RemoteSender
from permitflow.dispatch.dispatcher import HashDispatcher
from permitflow.dispatch.mapping import VNODES, require_channels
from permitflow.errors import PermitflowError
from permitflow.names import spread_over
from permitflow.stream.frames import EndOutcome

if TYPE_CHECKING:
    from permitflow.dispatch.keys import Splitter


class RemoteDispatcher(HashDispatcher[pa.RecordBatch]):
    """The upstream of several channels of an exchange."""

    def __init__(self, ends: Sequence[RemoteSender], splitter: "Splitter") -> None:
        """Use ``dispatch``."""
        super().__init__(ends, splitter.split)
        self._closes_channels = True

    async def end(self, *, closes_channels: bool = True) -> tuple[EndOutcome | None, ...]:
        """End every channel, as ``HashDispatcher.end``; ``closes_channels``: False leaves them to other producers."""
        self._closes_channels = closes_channels
        return await super().end()

    async def _end(self, end: SendEnd[Any]) -> EndOutcome | None:
        if isinstance(end, RemoteSender):
            return await end.end(closes_channel=self._closes_channels)
        return await super()._end(end)


@asynccontextmanager
async def dispatch(
    address: str,
    channels: Sequence[str],
    schema: pa.Schema,
    *,
    key: Sequence[str],
    changes: str | None = None,
    is_whole: bool = True,
    **options: Unpack[PutOptions],
) -> AsyncIterator[RemoteDispatcher]:
    """Feed channels of an exchange: each row goes to the channel of its key, and each barrier to all of them.

        async with dispatch("localhost:5600", stream_channels("orders", 4), schema, key=["orderkey"]) as dispatcher:
            await dispatcher.send(batch)
            await dispatcher.end()

    Leaving the block without ``end`` aborts the channels, as for ``put``.

    Args:
        address: as for ``put``.
        channels: their names.  All who dispatch into them name them in the same order, so that rows of one key meet.
        schema: of the chunks that will be sent.
        key: the names of one or more columns: whole numbers, text, bytes, dates, times, timestamps or decimals.
        changes: the name of a column that says what each row does, so that updates whose halves go to different
            channels become deletions and insertions; see ``Splitter``.
        is_whole: these are all channels of their stream: an exchange that has more refuses.  False: those that it has
            beside them will be added at a barrier, or are not to get rows.
        options: as for ``put``, for each channel.

    Raises:
        InvalidParametersError: a column is not there, or cannot be in a key; or there are too many channels; or the
            stream has more than these.
        PermitflowError: as for ``put``.
    """
    from permitflow.dispatch.keys import Splitter  # it loads what computes on columns

    names = names_of(channels)
    require_channels(len(names), VNODES)
    if is_whole:
        options = {**options, "spread_over": spread_over(names)}
    splitter = Splitter(schema, key, changes=changes)
    whole, security = options.get("spread_over", 0), options.get("security")
    await require_single_places(address, names, spread_over=whole, security=security)
    async with AsyncExitStack() as stack:
        ends: list[RemoteSender] = []
        try:
            for channel in names:
                ends.append(await stack.enter_async_context(put(address, channel, schema, **options)))
        except PermitflowError:
            if not counts_its_end(options):  # nothing was sent, so the other channels stay as they are
                for end in ends:
                    with suppress(PermitflowError):
                        await end.end(closes_channel=False, until=EndOutcome.ACCEPTED)
            raise
        yield RemoteDispatcher(ends, splitter)
