"""What the commands show of a permit channel with the user's own numbers."""

from dataclasses import replace
from typing import TYPE_CHECKING

from permitflow.cli.outcomes import requires_extra, unusable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from permitflow.cli.check import Numbers
    from permitflow.pictures.run import Run
    from permitflow.pictures.state_graph import StateGraph
    from permitflow_model.permit_channel import Parameters
    from permitflow_proofs import Decision

__all__ = ["MODULE", "graph_of", "run_of"]

MODULE = "PermitChannel"
"""Its specification."""


def _parameters(numbers: "Numbers", sizes: tuple[int, ...], *, with_barriers: bool) -> "Parameters":
    from permitflow_model.permit_channel import Parameters

    return Parameters(
        row_permits=numbers.row_permits,
        permit_batch=numbers.permit_batch,
        max_chunk_cost=numbers.largest_cost,
        sizes=sizes,
        barrier_permits=1 if with_barriers else 0,
        watermarks=with_barriers,
        flush_idle=numbers.flush_idle,
    )


def run_of(numbers: "Numbers", *, with_barriers: bool, advise: "Callable[[Numbers, Decision], Sequence[str]]") -> "Run":
    """A shortest run into the deadlock, with what would help; or one that fills the window and drains it."""
    from permitflow.pictures.looks.permit_channel import live_run, stuck_run

    with requires_extra("proofs"):
        from permitflow_proofs import decide
    most = numbers.largest_cost
    # Of all sizes, the run needs only some; the page says that all are meant.
    sizes = numbers.sizes or tuple(sorted({max(1, most // 4), max(1, most // 2), most}))
    parameters = _parameters(numbers, sizes, with_barriers=with_barriers)
    decision = decide(
        numbers.row_permits, numbers.permit_batch, most, sizes=numbers.sizes, flush_idle=numbers.flush_idle
    )
    if decision.run is not None:
        plain = replace(parameters, barrier_permits=0, watermarks=False)
        advice = [f"{way[0].upper()}{way[1:]}" for way in advise(numbers, decision)]
        run = stuck_run(plain, decision.run.start, decision.run.steps, advice=advice)
    else:
        try:
            run = live_run(parameters, because=f"Proved, for runs of any length: {decision.explanation}.")
        except ValueError as error:
            unusable(f"--sizes: {error}")
    return replace(run, has_every_size=numbers.sizes is None)


def graph_of(numbers: "Numbers", *, with_barriers: bool) -> "StateGraph":
    """All states, if they are few."""
    from permitflow.pictures.looks.permit_channel import LOOK
    from permitflow.pictures.state_graph import MOST_STATES, reachable
    from permitflow_model.kernel.explore import StateLimitReached

    # One more size than states that can be drawn is as good as all.
    sizes = numbers.sizes or tuple(range(1, min(numbers.largest_cost, MOST_STATES + 1) + 1))
    try:
        return reachable(LOOK, _parameters(numbers, sizes, with_barriers=with_barriers))
    except StateLimitReached as error:
        unusable(
            f"--graph: more than {error.limit:,} states can be reached, and a picture of so many shows nothing; choose "
            "a smaller --row-permits or --max-chunk-cost, or fewer --sizes"
        )
