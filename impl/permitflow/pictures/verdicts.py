"""Runs with their verdicts: a channel that gets stuck, and one that never does."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from permitflow.pictures.run import Run, Section, Verdict
from permitflow.pictures.stories import fill_and_drain
from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import SYSTEM, Parameters, State, is_stuck

__all__ = ["IsLive", "in_words", "live_run", "stuck_run", "what_would_help"]

IsLive = Callable[[Parameters], bool]
"""Decides whether a channel with these parameters can never get stuck."""


def stuck_run(
    parameters: Parameters, start: State, steps: Sequence[Step[State]], *, is_live: IsLive | None = None
) -> Run:
    """A run into a stuck state.  With ``is_live`` it also says which change of one number would help.

    Raises:
        ValueError: the last state is not stuck.
    """
    end = steps[-1].state if steps else start
    help_ = what_would_help(parameters, is_live) if is_live else ()
    return Run(
        title=f"{_in_numbers(parameters)}: this channel can get stuck",
        verdict=Verdict.STUCK,
        sentence=f"After {len(steps):,} steps {in_words(end, parameters)}.",
        parameters=parameters,
        start=start,
        steps=steps,
        conclusions=(Section("What would help, each alone", help_),) if help_ else (),
    )


def live_run(parameters: Parameters) -> Run:
    """A run of a channel that never gets stuck, which the caller must know: the window is filled and drained again."""
    return Run(
        title=f"{_in_numbers(parameters)}: this channel never gets stuck",
        verdict=Verdict.LIVE,
        sentence="Whoever waits will be served, in every run. This one fills the window and drains it again.",
        parameters=parameters,
        start=SYSTEM.initial(parameters),
        steps=fill_and_drain(parameters),
    )


def in_words(state: State, parameters: Parameters) -> str:
    """What a stuck channel looks like.

    Raises:
        ValueError: it is not stuck.
    """
    if not is_stuck(state, parameters):
        raise ValueError(f"the channel is not stuck in {state}")
    if state.waiting.is_empty():
        return "a barrier waits, and nothing can ever bring a barrier permit"
    cost, rows, kept = state.waiting.head().cost, state.permits.rows, state.unreturned
    keeps = f", the receiver keeps {kept:,} until it holds {parameters.batch:,}" if kept else ""
    return f"a chunk that needs {cost:,} permits waits, {rows:,} are at the sender{keeps}, and nothing can move"


def what_would_help(parameters: Parameters, is_live: IsLive) -> tuple[str, ...]:
    """Changes of one number each that keep the channel from getting stuck; the smallest of each kind."""
    return tuple(_changes(parameters, is_live))


def _changes(parameters: Parameters, is_live: IsLive) -> Iterator[str]:
    clamp, batch, row_count = parameters.clamp, parameters.batch, parameters.row_count
    if (least := _nearest(clamp, 1, lambda value: is_live(replace(parameters, clamp=value)))) is not None:
        yield f"chunks that cost at most {least:,} permits instead of {clamp:,}"
    if (least := _nearest(batch, 1, lambda value: is_live(replace(parameters, batch=value)))) is not None:
        yield f"a batch of {least:,} instead of {batch:,}"
    # With this many, the largest chunk fits beside everything that a batch can hold back.
    most = max(row_count, clamp + batch)
    if (least := _nearest(row_count, most, lambda value: is_live(replace(parameters, row_count=value)))) is not None:
        yield f"{least:,} row permits instead of {row_count:,}"
    if not parameters.flush_idle and is_live(replace(parameters, flush_idle=True)):
        yield "an idle receiver that returns what is below the batch (FlushIdle)"


def _nearest(bad: int, end: int, is_good: Callable[[int], bool]) -> int | None:
    """The good number nearest to ``bad`` on the way to ``end``: beyond it all are good.  None if ``end`` is not."""
    if end == bad or not is_good(end):
        return None
    good = end
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if is_good(middle) else (good, middle)
    return good


def _in_numbers(parameters: Parameters) -> str:
    return f"ROW_COUNT {parameters.row_count:,}, batch {parameters.batch:,}, chunks up to {parameters.clamp:,}"
