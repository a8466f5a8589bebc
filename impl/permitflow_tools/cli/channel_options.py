"""Options of the channels of a stream: those that ``permitflow serve`` makes, and ``permitflow channel add``."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, cast

import typer

from permitflow.chunks import DEFAULT_CHUNK_ROWS, DEFAULT_KEPT_ROWS
from permitflow.errors import InvalidParametersError, ParameterMismatchError
from permitflow.exchange.books.replay import DEFAULT_CONSUMER
from permitflow.flows.byte_window import DEFAULT_BYTE_WINDOW
from permitflow.flows.permits.agreement import PERMITS
from permitflow.flows.permits.parameters import KEPT_PARAMETERS, ONCE_PARAMETERS, Oversize
from permitflow.flows.seam import Parameters
from permitflow.flows.table import flow_named, flow_names
from permitflow.stream.control import Retention
from permitflow_tools.cli.options import MOST, given_options, latency, one_of, option, rows, size_in_bytes, whole_number
from permitflow_tools.cli.outcomes import unusable
from permitflow_tools.parameters.quantities import size_text

_ROWS = whole_number(least=1)
# Parameters of flows that have an option of their own.
_WITH_OPTIONS = ("row_permits", "permit_batch", "max_chunk_cost", "barrier_permits", "oversize")
_OF_REPLAY = (
    "--consumer",
    "--store",
    "--kept-rows",
    "--staging-rows",
    "--staging-timeout-seconds",
    "--expire-seconds",
    "--expire-bytes",
)

_FlowName: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="The protocol that decides what may be sent when; an unknown name is answered with the known ones.",
    ),
]

_RowPermits: TypeAlias = Annotated[
    int | None,
    rows(
        f"Rows in a channel at once. Default: {ONCE_PARAMETERS.row_permits}; with replay {DEFAULT_KEPT_ROWS}.",
        least=2,
    ),
]

_PermitBatch: TypeAlias = Annotated[
    int | None,
    rows(
        "Permits are returned once this many are held. Default: an eighth of the row permits; "
        f"{ONCE_PARAMETERS.permit_batch} with their default, without replay."
    ),
]

_MaxChunkCost: TypeAlias = Annotated[
    int | None,
    rows(
        "The most permits a chunk takes. Default: row permits less batch; "
        f"at most {DEFAULT_CHUNK_ROWS} with the default of row permits.",
    ),
]

_ByteWindow: TypeAlias = Annotated[
    int,
    option(
        size_in_bytes,
        "SIZE",
        "The most bytes in a channel at once, and in each of its streams, as in 16MiB. A larger chunk passes while "
        f"less than a quarter of this is there. Default: {size_text(DEFAULT_BYTE_WINDOW)}.",
    ),
]

_TargetLatency: TypeAlias = Annotated[
    float | None,
    option(
        latency,
        "DURATION",
        "Let the windows of a channel and of its producers' streams adapt, so that rows wait about this long at the "
        "exchange, as in 500ms; consumers state their own. Default: the whole windows.",
    ),
]

_BarrierPermits: TypeAlias = Annotated[
    int | None, option(_ROWS, "N", "Barriers that may be in a channel at once. Default: 1.")
]

_OversizeRule: TypeAlias = Annotated[
    Oversize,
    typer.Option(metavar="RULE", help="A chunk above the maximum is sent in slices (split) or admitted whole."),
]

_FlowParameter: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--parameter",
        metavar="NAME=NUMBER",
        help="A parameter of the flow that has no option of its own; may be repeated.",
    ),
]

_RetentionRule: TypeAlias = Annotated[
    Retention,
    option(
        one_of(Retention),
        "RULE",
        "Rows are gone once they were read (once), or kept until all consumers have acknowledged them (replay).",
    ),
]

_ConsumerNames: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--consumer",
        metavar="NAME",
        help="With replay: a consumer for which rows are kept; may be repeated. Default: one, named default.",
    ),
]

_KeptRowsLimit: TypeAlias = Annotated[
    int | None,
    rows(
        "With replay: the most rows of a channel that are kept before producers wait. "
        f"Default: the row permits; {DEFAULT_KEPT_ROWS} with a flow that has no window.",
    ),
]

_StagingRowsLimit: TypeAlias = Annotated[
    int | None,
    rows("With replay: rows of a channel that may be staged at once. Default: four times the kept rows."),
]

_ExpireSeconds: TypeAlias = Annotated[
    float | None,
    option(
        whole_number(least=1),
        "SECONDS",
        "With replay: drop rows after so long, whether or not their consumers have acknowledged them; a consumer that "
        "needs them gets an error. Default: never.",
    ),
]

_ExpireBytes: TypeAlias = Annotated[
    int | None,
    option(
        size_in_bytes,
        "SIZE",
        "With replay: likewise, drop the oldest rows of a channel above this many bytes in memory, as in 4GiB. "
        "Default: never.",
    ),
]


def refuse_twice(option: str, names: Sequence[str]) -> None:
    """End the command if one of these names is given twice."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        unusable(f"{option}: {twice[0]!r} is given twice")


def _numbers(stated: Sequence[str]) -> dict[str, int]:
    """The numbers that are given by name."""
    numbers: dict[str, int] = {}
    for text in stated:
        name, _, number = text.partition("=")
        name = name.strip().replace("-", "_")
        try:
            value = int(number)
        except ValueError:
            unusable(f"--parameter: {text!r} must be NAME=NUMBER")
        if not -MOST <= value <= MOST:
            unusable(f"--parameter: {text!r} must be a number of at most {MOST:,}")
        if name in numbers or name in _WITH_OPTIONS:
            instead = f"use --{name.replace('_', '-')}" if name in _WITH_OPTIONS else "it is given twice"
            unusable(f"--parameter: {text!r}: {instead}")
        numbers[name] = value
    return numbers


def _kept_for(context: typer.Context, retention: Retention, consumer: Sequence[str] | None) -> list[str]:
    """The consumers for whom rows are kept; ends the command if an option needs kept rows and there are none."""
    strange = [name for name in given_options(context) if name in _OF_REPLAY]
    if strange and retention is not Retention.REPLAY:
        unusable(f"{strange[0]}: rows are gone once they were read; to keep them, add --retention replay")
    consumers = [*(consumer or [DEFAULT_CONSUMER])]
    if "" in consumers:
        unusable("--consumer: a name must not be empty")
    refuse_twice("--consumer", consumers)
    return consumers


def _channel_parameters(
    flow: str, retention: Retention, parameter: Sequence[str], *, oversize: Oversize, **given: int | None
) -> Parameters:
    """The parameters of channels, from these options; ends the command if they cannot be."""
    numbers = _numbers(parameter)
    stated: dict[str, Any] = {name: value for name, value in given.items() if value is not None} | numbers
    if oversize is not Oversize.SPLIT:
        stated["oversize"] = oversize
    try:
        if flow == PERMITS.name and "row_permits" not in stated:
            default = KEPT_PARAMETERS if retention is Retention.REPLAY else ONCE_PARAMETERS
            known = {**PERMITS.stated(default), **stated}
            left = known["row_permits"] - known["permit_batch"]
            if "max_chunk_cost" not in stated and known["max_chunk_cost"] > left:
                del known["max_chunk_cost"]  # it becomes what is left
            stated = known
        return cast(Parameters, flow_named(flow).parse(stated))
    except InvalidParametersError as error:
        if error.name in _WITH_OPTIONS:
            raise
        unusable(f"--parameter: {error}")
    except ParameterMismatchError:
        unusable(f"--flow: there is no flow {flow!r}, but {', '.join(flow_names())}")


def _require_adaptive(flow: str, retention: Retention) -> None:
    """Refuse a latency where no window adapts."""
    if retention is Retention.REPLAY:
        unusable("--target-latency: not with --retention replay, which keeps rows; permitflow get has it")
    if flow != PERMITS.name:
        unusable(f"--target-latency: only the window of permits adapts, and this is --flow {flow}")


@dataclass(frozen=True)
class ChannelOptions:
    """What these options say of channels."""

    parameters: Parameters
    retention: Retention
    consumers: list[str]
    """The consumers for whom rows are kept."""
    kept_rows: int | None
    staging_rows: int | None
    expire_seconds: float | None
    expire_bytes: int | None
    byte_window: int
    target_latency_seconds: float | None


def channel_options(
    context: typer.Context,
    flow: _FlowName = PERMITS.name,
    row_permits: _RowPermits = None,
    permit_batch: _PermitBatch = None,
    max_chunk_cost: _MaxChunkCost = None,
    barrier_permits: _BarrierPermits = None,
    oversize: _OversizeRule = Oversize.SPLIT,
    parameter: _FlowParameter = None,
    byte_window: _ByteWindow = DEFAULT_BYTE_WINDOW,
    target_latency: _TargetLatency = None,
    retention: _RetentionRule = Retention.ONCE,
    consumer: _ConsumerNames = None,
    kept_rows: _KeptRowsLimit = None,
    staging_rows: _StagingRowsLimit = None,
    expire_seconds: _ExpireSeconds = None,
    expire_bytes: _ExpireBytes = None,
) -> ChannelOptions:
    """A group of options; ends the command if they do not fit together."""
    consumers = _kept_for(context, retention, consumer)
    parameters = _channel_parameters(
        flow,
        retention,
        parameter or (),
        oversize=oversize,
        row_permits=row_permits,
        permit_batch=permit_batch,
        max_chunk_cost=max_chunk_cost,
        barrier_permits=barrier_permits,
    )
    if target_latency is not None:
        _require_adaptive(flow, retention)
    return ChannelOptions(
        parameters=parameters,
        retention=retention,
        consumers=consumers,
        kept_rows=kept_rows,
        staging_rows=staging_rows,
        expire_seconds=expire_seconds,
        expire_bytes=expire_bytes,
        byte_window=byte_window,
        target_latency_seconds=target_latency,
    )
