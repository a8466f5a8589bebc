"""What the commands show of a permit channel with the user's own numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from permitflow.cli.outcomes import requires_extra, unusable

if TYPE_CHECKING:
    from permitflow.pictures.run import Run
    from permitflow.pictures.state_graph import StateGraph
    from permitflow_model.permit_channel import Parameters
    from permitflow_proofs import Decision

MODULE = "PermitChannel"
"""Its specification."""

_BY_OPTION = ("--max-chunk-cost {}", "--permit-batch {}", "--flush-idle")


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What the user asked about; all in rows or row permits, which are the same."""

    row_permits: int
    permit_batch: int
    max_chunk_cost: int | None
    permit_batch_up: int | None
    sizes: tuple[int, ...] | None
    flush_idle: bool

    @property
    def sender_permit_batch(self) -> int:
        """The permit batch of the sender's configuration."""
        return self.permit_batch if self.permit_batch_up is None else self.permit_batch_up

    @property
    def published_max_chunk_cost(self) -> int:
        """The most a chunk takes in the published protocol."""
        return self.row_permits - self.sender_permit_batch

    @property
    def largest_cost(self) -> int:
        """The most a chunk takes here."""
        wanted = self.max_chunk_cost or (max(1, *self.sizes) if self.sizes else None)
        if wanted is None:
            return self.published_max_chunk_cost
        # The sender's own batch decides what a chunk costs at most; a larger chunk is admitted for that.
        return wanted if self.permit_batch_up is None else min(wanted, self.published_max_chunk_cost)


def numbers_of(
    row_permits: int | None,
    permit_batch: int | None,
    max_chunk_cost: int | None,
    sizes: frozenset[int] | None,
    *,
    flush_idle: bool,
    permit_batch_up: int | None = None,
) -> Numbers:
    """The numbers that these options give; or end the command: one is missing, or leaves no room for any chunk."""
    if row_permits is None or permit_batch is None:
        missing = "--row-permits" if row_permits is None else "--permit-batch"
        unusable(f"{missing} is missing: your own numbers need at least --row-permits and --permit-batch")
    occurring = None if sizes is None else tuple(sorted(sizes))
    numbers = Numbers(
        row_permits=row_permits,
        permit_batch=permit_batch,
        max_chunk_cost=max_chunk_cost,
        permit_batch_up=permit_batch_up,
        sizes=occurring,
        flush_idle=flush_idle,
    )
    if numbers.largest_cost < 1:
        name, value = (
            ("--permit-batch", permit_batch) if permit_batch_up is None else ("--permit-batch-up", permit_batch_up)
        )
        # In a channel of one permit even a batch of 1 leaves no room.
        ways = [f"choose {name} below {row_permits}" if row_permits > 1 else "choose a larger --row-permits"]
        if permit_batch_up is None:
            ways.append("give --max-chunk-cost")
        unusable(
            f"{name}: in the published protocol a chunk costs at most row permits less permit batch, and "
            f"{row_permits} - {value} leaves no room for any; {' or '.join(ways)}"
        )
    return numbers


def ways_to_live(
    decision: "Decision", row_permits: int, spelling: Sequence[str] = _BY_OPTION, *, flush_idle: bool
) -> Iterator[str]:
    """What to change so that it is live: each is sufficient alone."""
    chunk, permit_batch = decision.safe_max_chunk_cost, decision.safe_permit_batch
    of_chunk, of_batch, of_flush = spelling
    if chunk > 0:
        yield f"chunks of at most {chunk:,} ({of_chunk.format(chunk)})"
    if permit_batch > 0:
        yield f"a permit batch of at most {permit_batch:,} ({of_batch.format(permit_batch)})"
    if not flush_idle and decision.largest_cost <= row_permits:
        yield f"a receiver that returns what it holds when it is idle ({of_flush})"


def _parameters(numbers: Numbers, sizes: tuple[int, ...], *, with_barriers: bool) -> "Parameters":
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


def run_of(numbers: Numbers, *, with_barriers: bool) -> "Run":
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
        ways = ways_to_live(decision, numbers.row_permits, flush_idle=numbers.flush_idle)
        advice = [f"{way[0].upper()}{way[1:]}" for way in ways]
        run = stuck_run(plain, decision.run.start, decision.run.steps, advice=advice)
    else:
        try:
            run = live_run(parameters, because=f"Proved, for runs of any length: {decision.explanation}.")
        except ValueError as error:
            unusable(f"--sizes: {error}")
    return replace(run, has_every_size=numbers.sizes is None)


def graph_of(numbers: Numbers, *, with_barriers: bool) -> "StateGraph":
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
