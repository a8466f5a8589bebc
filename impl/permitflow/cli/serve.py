"""``permitflow serve``: an exchange between producers and consumers, and what flows through it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from permitflow.cli.metrics_options import MetricsAddress
from permitflow.cli.outcomes import ExitCode, Json, complain, requires_extra, unusable
from permitflow.cli.recording import NewRecording
from permitflow.cli.serve_options import (
    Addresses,
    BarrierPermits,
    Compressed,
    Consumers,
    DrainSeconds,
    Keep,
    MaxChunkCost,
    OversizeRule,
    PermitBatch,
    Quiet,
    RowPermits,
    SharedMemory,
    StagingRows,
    StagingTimeout,
    StoreFolder,
    Streams,
    Trace,
)
from permitflow.errors import InvalidOptionError, InvalidParametersError, StoreError, TraceWriteError, TransportError
from permitflow.protocol.compression import Compression
from permitflow.protocol.parameters import ChannelParameters, Oversize, kept_parameters
from permitflow.protocol.replay import DEFAULT_CONSUMER, Retention
from permitflow.protocol.staging import DEFAULT_TIMEOUT_SECONDS
from permitflow.transports.shared_memory import SameHost

if TYPE_CHECKING:
    from permitflow.cli.serving import Plan, Style

__all__ = ["serve"]

_DEFAULT_ADDRESS = "127.0.0.1:50051"


def serve(
    stream: Streams,
    address: Addresses = None,
    row_permits: RowPermits = None,
    permit_batch: PermitBatch = None,
    max_chunk_cost: MaxChunkCost = None,
    barrier_permits: BarrierPermits = None,
    oversize: OversizeRule = Oversize.SPLIT,
    retention: Keep = Retention.ONCE,
    consumer: Consumers = None,
    store: StoreFolder = None,
    staging_rows: StagingRows = None,
    staging_timeout_seconds: StagingTimeout = None,
    drain_seconds: DrainSeconds = 3.0,
    same_host: SharedMemory = SameHost.AUTO,
    compression: Compressed = Compression.AUTO,
    metrics_address: MetricsAddress = None,
    trace: Trace = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run an exchange: producers put rows into named channels, consumers get them.

    Producers and consumers both dial the exchange, so neither must be reachable. It holds at most --row-permits rows
    of each channel, and as many for each producer and consumer that is connected; whoever is too fast waits.

    \b
      permitflow serve --stream orders:2                       channels orders/0 and orders/1
      permitflow serve --stream q12:4 --row-permits 8192       smaller windows
      permitflow serve --stream q12 --address 127.0.0.1:0      a free port; the first line says which
      permitflow serve --stream q12 --trace run.jsonl          for the model to replay
      permitflow serve --stream orders:2 --retention replay --consumer etl --consumer audit --store orders.store
                                                               rows that are read again, and survive a crash

    The first line is "listening at HOST:PORT", one for each address. After it, a terminal shows a live table,
    anything else gets a line when something has changed, and --json prints one object a line.

    SIGTERM or Ctrl-C drains: the exchange is not ready any more, and takes no new producers; those with a name are
    told to come again later; others may come to their end, and consumers may take what is in memory, for
    --drain-seconds. Then all are told that the exchange is gone, and the last line says what was left behind. A
    second signal stops at once. More: docs/serving.md.

    Exit code 0: stopped by SIGTERM. 1: the recording failed. 2: unusable input or store, or it cannot listen there.
    130: stopped by Ctrl-C.
    """
    if twice := [name for name, count in Counter(one.name for one in stream).items() if count > 1]:
        unusable(f"--stream: {twice[0]!r} is given twice")
    consumers = _consumers(consumer)
    of_replay = {"--consumer": consumer, "--store": store, "--staging-rows": staging_rows}
    _require_replay(retention, {**of_replay, "--staging-timeout-seconds": staging_timeout_seconds})
    parameters = _parameters(
        retention,
        oversize,
        row_permits=row_permits,
        permit_batch=permit_batch,
        max_chunk_cost=max_chunk_cost,
        barrier_permits=barrier_permits,
    )
    with requires_extra("grpc"):
        from permitflow.cli.serving import Plan, Style
    if metrics_address is not None:
        with requires_extra("metrics"):
            import prometheus_client  # noqa: F401 - to complain now
    plan = Plan(
        streams=stream,
        addresses=address or [_DEFAULT_ADDRESS],
        parameters=parameters,
        retention=retention,
        consumers=consumers,
        store=store,
        staging_rows=staging_rows,
        staging_timeout_seconds=DEFAULT_TIMEOUT_SECONDS if staging_timeout_seconds is None else staging_timeout_seconds,
        drain_seconds=drain_seconds,
        same_host=same_host,
        compression=compression,
        metrics_address=metrics_address,
    )
    _run(plan, trace, Style.JSON if as_json else Style.QUIET if quiet else Style.TEXT)


def _consumers(names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return (DEFAULT_CONSUMER,)
    if "" in names:
        unusable("--consumer: a name must not be empty")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        unusable(f"--consumer: {twice[0]!r} is given twice")
    return tuple(names)


def _require_replay(retention: Retention, given: Mapping[str, object]) -> None:
    if retention is Retention.REPLAY:
        return
    if useless := [name for name, value in given.items() if value is not None]:
        unusable(f"{useless[0]}: rows are gone once they were read; to keep them, add --retention replay")


def _parameters(retention: Retention, oversize: Oversize, **given: int | None) -> ChannelParameters:
    make = kept_parameters if retention is Retention.REPLAY else ChannelParameters
    try:
        return make(**{name: value for name, value in given.items() if value is not None}, oversize=oversize)
    except InvalidParametersError as error:
        unusable(f"--{error.name.replace('_', '-')}: {error}")


def _run(plan: "Plan", trace: Path | None, style: "Style") -> NoReturn:
    from permitflow.cli.serving import run_exchange

    recording = None if trace is None else NewRecording("--trace", trace)
    try:
        interrupted = run_exchange(plan, recording, style)
    except TransportError as error:
        unusable(f"--address: {error.facts['what']}: the port is in use, or this machine has no such address")
    except StoreError as error:
        unusable(f"--store: {error}")
    except (InvalidOptionError, InvalidParametersError) as error:
        unusable(str(error))
    except TraceWriteError as error:
        complain(str(error))
        raise typer.Exit(ExitCode.FAILS) from None
    raise typer.Exit(ExitCode.INTERRUPTED if interrupted else ExitCode.HOLDS)
