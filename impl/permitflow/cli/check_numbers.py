"""``permitflow check`` with numbers: live for good, or a run into the deadlock and what to change."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from permitflow.cli.console import open_console, print_table
from permitflow.cli.outcomes import ExitCode, complain, print_json, requires_extra, stop, unusable

if TYPE_CHECKING:
    from rich.console import Console

    from permitflow_proofs import Decision, Theorem

__all__ = ["Numbers", "check_numbers", "print_run", "require_room", "theorems_of", "ways_to_live"]


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What the user asked about; all in rows or row permits, which are the same."""

    row_count: int
    batch: int
    max_chunk: int | None
    batch_up: int | None
    sizes: tuple[int, ...] | None
    flush_idle: bool

    @property
    def sender_batch(self) -> int:
        """The batch that the sender reckons with."""
        return self.batch if self.batch_up is None else self.batch_up

    @property
    def published_clamp(self) -> int:
        """The most a chunk takes in the published protocol."""
        return self.row_count - self.sender_batch

    @property
    def max_cost(self) -> int:
        """The most a chunk takes here."""
        wanted = self.max_chunk or (max(1, *self.sizes) if self.sizes else None)
        if wanted is None:
            return self.published_clamp
        # A batch of the sender's own is given for its clamp; a chunk above that is admitted for the clamp.
        return wanted if self.batch_up is None else min(wanted, self.published_clamp)


def check_numbers(numbers: Numbers, *, as_json: bool) -> None:
    """Decide, print the verdict and end the command."""
    require_room(numbers)
    with requires_extra("proofs"):
        from permitflow_proofs import Undecided, decide
    try:
        decision = decide(
            numbers.row_count,
            numbers.batch,
            numbers.max_cost,
            sizes=numbers.sizes,
            flush_idle=numbers.flush_idle,
            batch_up=numbers.batch_up,
        )
    except Undecided as error:
        complain(f"undecided: {error}")
        raise typer.Exit(ExitCode.FAILS) from None
    if as_json:
        print_json(_as_json(numbers, decision))
    else:
        _print(numbers, decision)
    stop(holds=decision.is_live)


def _ways_to_room(numbers: Numbers, name: str) -> Iterator[str]:
    """A batch of 1 leaves none in a channel of one permit."""
    yield f"choose {name} below {numbers.row_count}" if numbers.row_count > 1 else "choose a larger --row-count"
    if numbers.batch_up is None:
        yield "give --max-chunk"


def require_room(numbers: Numbers) -> None:
    """End the command if the batch leaves no room for any chunk."""
    if numbers.max_cost < 1:
        name, value = ("--batch", numbers.batch) if numbers.batch_up is None else ("--batch-up", numbers.batch_up)
        unusable(
            f"{name}: the published protocol clamps chunks to row count less batch, and {numbers.row_count} - {value} "
            f"leaves no room for any; {' or '.join(_ways_to_room(numbers, name))}"
        )


def _print(numbers: Numbers, decision: "Decision") -> None:
    console = open_console()
    verdict = "live" if decision.is_live else "deadlock"
    console.print(f"{verdict}: {_question(numbers, decision)}", soft_wrap=True)
    if decision.is_live:
        console.print(f"proved, for runs of any length: {decision.explanation}", soft_wrap=True)
    else:
        console.print(decision.explanation, soft_wrap=True)
        print_run(console, decision)
    for theorem in theorems_of(decision):
        console.print(f"theorem {theorem.id} ({theorem.reference}): {theorem.statement}", soft_wrap=True)
    console.print(_advice(numbers, decision), soft_wrap=True)


def _question(numbers: Numbers, decision: "Decision") -> str:
    protocol = "with the idle flush" if numbers.flush_idle else "published protocol"
    chunks = f"chunks of at most {decision.max_cost:,}"
    if numbers.sizes is not None:
        chunks = f"chunks of {' or '.join(f'{size:,}' for size in numbers.sizes)} rows"
    batches = f"batch {numbers.batch:,}"
    if numbers.batch_up is not None:
        batches = f"batch {numbers.batch:,} at the receiver and {numbers.batch_up:,} at the sender"
    return f"row count {numbers.row_count:,}, {batches}, {chunks} ({protocol})"


def print_run(console: "Console", decision: "Decision") -> None:
    """Print the run into a deadlock."""
    from permitflow.cli.run_table import run_table

    assert decision.run is not None  # there is one for each deadlock
    console.print("A shortest run into it, in row permits; each line adds up to the row count:")
    print_table(console, run_table(decision.run.start, decision.run.steps))


def theorems_of(decision: "Decision") -> "list[Theorem]":
    """The theorems behind a verdict."""
    from permitflow_proofs import catalogue

    return [theorem for theorem in catalogue() if theorem.id in decision.theorems]


def _advice(numbers: Numbers, decision: "Decision") -> str:
    """The last line: how far one may go, or what to change."""
    chunk, batch = decision.safe_max_cost, decision.safe_batch
    if decision.is_live and numbers.flush_idle:
        return f"live up to chunks of {chunk:,}, whatever the batches"
    if decision.is_live and numbers.sizes is not None:
        return f"if chunks of other sizes come too: live up to {chunk:,} with this batch"
    if decision.is_live:
        return f"live up to chunks of {chunk:,} with this batch, and up to a batch of {batch:,} with these chunks"
    return "to be live, choose " + ", or ".join(ways_to_live(numbers, decision))


def ways_to_live(numbers: Numbers, decision: "Decision") -> list[str]:
    """What to change so that it is live: each is sufficient alone."""
    chunk, batch = decision.safe_max_cost, decision.safe_batch
    ways = []
    if chunk > 0:
        ways.append(f"chunks of at most {chunk:,} (--max-chunk {chunk})")
    if batch > 0:
        ways.append(f"a batch of at most {batch:,} (--batch {batch})")
    if not numbers.flush_idle and decision.max_cost <= numbers.row_count:
        ways.append("a receiver that returns what it holds when it is idle (--flush-idle)")
    return ways


def _as_json(numbers: Numbers, decision: "Decision") -> dict[str, object]:
    from permitflow.cli.run_table import run_as_json

    run = decision.run
    return {
        "row_count": numbers.row_count,
        "batch": numbers.batch,
        "batch_up": numbers.sender_batch,
        "max_cost": decision.max_cost,
        "sizes": None if numbers.sizes is None else list(numbers.sizes),
        "flush_idle": numbers.flush_idle,
        "verdict": "live" if decision.is_live else "deadlock",
        "holds": decision.is_live,
        "explanation": decision.explanation,
        "theorems": list(decision.theorems),
        "safe_max_cost": decision.safe_max_cost,
        "safe_batch": decision.safe_batch,
        "run": None if run is None else run_as_json(run.start, run.steps),
        "advice": _advice(numbers, decision),
    }
