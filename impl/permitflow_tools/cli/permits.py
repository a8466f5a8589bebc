"""What the commands show of a permit channel with the user's own numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from permitflow.flows.permits.parameters import BATCH_SHARE, StatedParameters
from permitflow_tools.checking.deciding import PairVerdict
from permitflow_tools.cli.outcomes import unusable
from permitflow_tools.simulation.chunk_sizes import ChunkSizes, UniformSizes
from permitflow_tools.simulation.setting import SimulationSetting, costs_of, largest_cost

if TYPE_CHECKING:
    from permitflow_model.permit_channel import Parameters
    from permitflow_tools.explain.run import ExplainedRun
    from permitflow_tools.explain.state_graph import StateGraph

_FEW_SIZES = 8
"""A page has room for this many buttons."""

MODULE = "PermitChannel"
"""Its specification."""

BY_OPTION = ("--max-chunk-cost {}", "--permit-batch {}", "--flush-idle")
IN_FILE = (
    "max_chunk_cost = {} below [upstream]",
    "permit_batch = {} below [downstream]",
    "flush_idle = true below [downstream]",
)


def setting_of(
    row_permits: int | None,
    permit_batch: int | None,
    max_chunk_cost: int | None,
    sizes: ChunkSizes | None,
    permit_batch_up: int | None = None,
    *,
    flush_idle: bool,
) -> SimulationSetting:
    """The two ends of the published protocol with these numbers; larger chunks are split.

    Ends the command if a number is missing, or leaves no room for any chunk.
    """
    if row_permits is None:
        unusable("--row-permits is missing: your own numbers need at least these")
    permit_batch = permit_batch or max(1, row_permits // BATCH_SHARE)
    # The sender's own batch decides what a chunk costs at most.
    batch = permit_batch_up or permit_batch
    published = row_permits - batch
    most = max_chunk_cost or (sizes.possible[-1] if sizes else published)
    most = most if permit_batch_up is None else min(most, published)
    if most < 1:
        name = "--permit-batch" if permit_batch_up is None else "--permit-batch-up"
        # In a channel of one permit even a batch of 1 leaves no room.
        ways = [f"choose {name} below {row_permits}" if row_permits > 1 else "choose a larger --row-permits"]
        if permit_batch_up is None:
            ways.append("give --max-chunk-cost")
        unusable(
            f"{name}: in the published protocol a chunk costs at most row permits less permit batch, and "
            f"{row_permits} - {batch} leaves no room for any; {' or '.join(ways)}"
        )
    stated = StatedParameters(row_permits=row_permits, permit_batch=batch, max_chunk_cost=most)
    return SimulationSetting(
        upstream=stated,
        downstream=StatedParameters(permit_batch=permit_batch),
        chunks=sizes or UniformSizes(1, most),
        flush_idle=flush_idle,
    )


def ways_to_live(answer: PairVerdict, spelling: Sequence[str] = BY_OPTION) -> Iterator[str]:
    """What to change so that it is live: each is sufficient alone."""
    decision, setting = answer.decision, answer.setting
    chunk, permit_batch = decision.safe_max_chunk_cost, decision.safe_permit_batch
    of_chunk, of_batch, of_flush = spelling
    if chunk > 0:
        yield f"chunks of at most {chunk:,} ({of_chunk.format(chunk)})"
    if permit_batch > 0:
        yield f"a permit batch of at most {permit_batch:,} ({of_batch.format(permit_batch)})"
    if not setting.flush_idle and decision.largest_cost <= setting.sender.row_permits:
        yield f"a receiver that returns what it holds when it is idle ({of_flush})"


def _model(setting: SimulationSetting, sizes: tuple[int, ...], *, with_barriers: bool) -> "Parameters":
    from permitflow_tools.checking.permits import model_of

    return replace(model_of(setting, sizes), barrier_permits=1 if with_barriers else 0, watermarks=with_barriers)


def run_of(answer: PairVerdict, *, with_barriers: bool) -> "ExplainedRun":
    """A shortest run into the deadlock, with what would help; or one that fills the window and drains it."""
    from permitflow_tools.explain.looks.permit_channel.runs import live_run, stuck_run

    decision, costs, most = answer.decision, costs_of(answer.setting), largest_cost(answer.setting)
    # Of many sizes the reader may offer some, and those of the run; the page says that all are meant.
    steps = () if decision.run is None else decision.run.steps
    offered = {step.arguments[0] for step in steps if step.action == "OfferChunk"}
    few = range(1, most + 1) if most <= _FEW_SIZES else {max(1, most // 4), max(1, most // 2), most}
    sizes = costs or tuple(sorted(offered.union(few)))
    if decision.run is not None:
        advice = [f"{way[0].upper()}{way[1:]}" for way in ways_to_live(answer)]
        plain = _model(answer.setting, sizes, with_barriers=False)
        run = stuck_run(plain, decision.run.start, decision.run.steps, advice=advice)
    else:
        try:
            run = live_run(
                _model(answer.setting, sizes, with_barriers=with_barriers),
                because=f"Proved, for runs of any length: {decision.explanation}.",
            )
        except ValueError as error:
            unusable(f"--chunk-rows: {error}")
    return replace(run, has_every_size=costs is None)


def graph_of(setting: SimulationSetting, *, with_barriers: bool) -> "StateGraph":
    """All states, if they are few."""
    from permitflow_model.kernel.explore import StateLimitReached
    from permitflow_tools.explain.looks.permit_channel.look import LOOK
    from permitflow_tools.explain.state_graph import MOST_STATES, reachable

    # One more size than states that can be drawn is as good as all.
    sizes = costs_of(setting) or tuple(range(1, min(largest_cost(setting), MOST_STATES + 1) + 1))
    try:
        return reachable(LOOK, _model(setting, sizes, with_barriers=with_barriers))
    except StateLimitReached as error:
        unusable(
            f"--graph: more than {error.limit:,} states can be reached, and a picture of so many shows nothing; choose "
            "a smaller --row-permits or --max-chunk-cost, or fewer numbers of --chunk-rows"
        )
