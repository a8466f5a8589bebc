"""The other ends of a Spark job's streams, in threads beside the job."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa

from permitflow.channels.names import stream_channels
from permitflow.errors import PermitflowError
from permitflow.transports.grpc_blocking import open_sink, open_source

__all__ = ["channels_of", "consume", "consumers", "produce", "producers"]

Options = Mapping[str, str]
"""Options of ``format("permitflow")``."""

PATIENCE_SECONDS = 60.0


def produce(options: Options, channel: str, batches: Sequence[pa.RecordBatch]) -> None:
    """Feed a channel and end it."""
    with open_sink(options["address"], channel, batches[0].schema, timeout_seconds=PATIENCE_SECONDS) as sink:
        for batch in batches:
            sink.send(batch)
        sink.end(closes_channel=True)


def consume(options: Options, channel: str) -> list[pa.RecordBatch] | str:
    """The batches of a channel, or the error in words."""
    try:
        with open_source(options["address"], channel, timeout_seconds=PATIENCE_SECONDS) as source:
            return list(source)
    except PermitflowError as error:
        return f"{type(error).__name__}: {error}"


def channels_of(options: Options) -> tuple[str, ...]:
    """The channels of the stream that the options name."""
    return stream_channels(options["stream"], int(options["channels"]))


@contextmanager
def producers(options: Options, *batches: Sequence[pa.RecordBatch]) -> Iterator[None]:
    """One producer for each channel; at the end of the block all have ended well."""
    with ThreadPoolExecutor(8) as pool:
        sending = [
            pool.submit(produce, options, channel, own)
            for channel, own in zip(channels_of(options), batches, strict=True)
        ]
        yield
        for future in sending:
            future.result()


@contextmanager
def consumers(options: Options) -> Iterator[list["Future[list[pa.RecordBatch] | str]"]]:
    """One consumer for each channel."""
    with ThreadPoolExecutor(8) as pool:
        yield [pool.submit(consume, options, channel) for channel in channels_of(options)]
