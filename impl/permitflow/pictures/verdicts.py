"""Runs with their verdicts: a channel that gets stuck, and one that never does."""

from collections.abc import Sequence

from permitflow.pictures.run import Run, Section, Verdict
from permitflow.pictures.stories import fill_and_drain
from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import SYSTEM, Parameters, State, is_stuck

__all__ = ["in_words", "live_run", "stuck_run"]


def stuck_run(parameters: Parameters, start: State, steps: Sequence[Step[State]], *, advice: Sequence[str] = ()) -> Run:
    """A run into a stuck state; ``advice`` says what would help.

    Raises:
        ValueError: the last state is not stuck.
    """
    end = steps[-1].state if steps else start
    return Run(
        title=f"{_in_numbers(parameters)}: this channel can get stuck",
        verdict=Verdict.STUCK,
        sentence=f"After {len(steps):,} {'step' if len(steps) == 1 else 'steps'} {in_words(end, parameters)}.",
        parameters=parameters,
        start=start,
        steps=steps,
        conclusions=(Section("What would help, each alone", tuple(advice)),) if advice else (),
    )


def live_run(parameters: Parameters, *, because: str = "") -> Run:
    """A run of a channel that never gets stuck: the window is filled and drained again.

    That it never does the caller must know, and may say why.

    Raises:
        ValueError: the window takes too many chunks.
    """
    return Run(
        title=f"{_in_numbers(parameters)}: this channel never gets stuck",
        verdict=Verdict.LIVE,
        sentence="Whoever waits will be served, in every run. This one fills the window and drains it again.",
        parameters=parameters,
        start=SYSTEM.initial(parameters),
        steps=fill_and_drain(parameters),
        remarks=(because,) if because else (),
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


def _in_numbers(parameters: Parameters) -> str:
    return f"ROW_COUNT {parameters.row_count:,}, batch {parameters.batch:,}, chunks up to {parameters.clamp:,}"
