"""Runs of the permit channel that are made to be looked at: into a deadlock, or a window that is filled and drained."""

from collections.abc import Iterator, Sequence

from permitflow.errors import counted
from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import SYSTEM, Parameters, State, cost_of, is_stuck
from permitflow_tools.explain.looks.permit_channel.look import LOOK
from permitflow_tools.explain.run import ExplainedRun, RunOutcome, Section

# A reader would not step through more.
_MOST_CHUNKS = 5_000
# The sender's window is filled while nothing moves elsewhere; then all that was sent is delivered; then permits are
# used as soon as they are back.
_FILL = ("SendChunk", "SendBarrier", "SendWatermark")
_DELIVER = ("Deliver",)
_DRAIN = ("AddPermits", *_FILL, "Deliver", "Consume", "Flush")


class _Teller:
    """Takes steps of the model, one after the other."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.state = SYSTEM.initial(parameters)
        self.steps: list[Step[State]] = []

    def can(self, action: str, *arguments: int) -> bool:
        return SYSTEM.is_enabled(action, self.state, self.parameters, *arguments)

    def take(self, action: str, *arguments: int) -> None:
        self.state = SYSTEM.perform(action, self.state, self.parameters, *arguments)
        self.steps.append(Step(action, arguments, self.state))

    def take_while_possible(self, actions: Sequence[str]) -> None:
        while (action := next((name for name in actions if self.can(name)), None)) is not None:
            self.take(action)


def fill_and_drain(parameters: Parameters) -> list[Step[State]]:
    """Chunks are sent until one has to wait, then everything is consumed; deterministic.

    A barrier and a watermark follow the first chunk, where the channel knows them.

    Raises:
        ValueError: it takes too many chunks to fill the window.
    """
    largest = cost_of(max(parameters.sizes), parameters)
    if (needed := parameters.row_permits // largest) > _MOST_CHUNKS:
        raise ValueError(
            f"a window of {parameters.row_permits:,} row permits takes {needed:,} chunks to fill, "
            f"if they cost at most {largest:,}; a run to look at has at most {_MOST_CHUNKS:,}"
        )
    teller = _Teller(parameters)
    for size in _sizes(parameters.sizes):
        teller.take("OfferChunk", size)
        teller.take_while_possible(_FILL)
        if not teller.can("OfferChunk", size):
            break
        for offer in ("OfferBarrier", "OfferWatermark"):
            if not any(step.action == offer for step in teller.steps) and teller.can(offer):
                teller.take(offer)
                teller.take_while_possible(_FILL)
    teller.take_while_possible(_DELIVER)
    teller.take_while_possible(_DRAIN)
    return teller.steps


def _sizes(allowed: Sequence[int]) -> Iterator[int]:
    """A half, a quarter and all of the largest, again and again, as far as such sizes are allowed."""
    largest = max(allowed)
    while True:
        for part in (2, 4, 1):
            wanted = max(1, largest // part)
            yield min(allowed, key=lambda size, wanted=wanted: (abs(size - wanted), size))  # type: ignore[misc]


def stuck_run(
    parameters: Parameters, start: State, steps: Sequence[Step[State]], *, advice: Sequence[str] = ()
) -> ExplainedRun:
    """A run into a stuck state; ``advice`` says what would help.

    Raises:
        ValueError: the last state is not stuck.
    """
    end = steps[-1].state if steps else start
    return ExplainedRun(
        look=LOOK,
        title=f"{_in_numbers(parameters)}: this channel can get stuck",
        verdict=RunOutcome.STUCK,
        sentence=f"After {counted(len(steps), 'step')} {in_words(end, parameters)}.",
        parameters=parameters,
        start=start,
        steps=steps,
        conclusions=(Section("What would help, each alone", tuple(advice)),) if advice else (),
    )


def live_run(parameters: Parameters, *, because: str = "") -> ExplainedRun:
    """A run of a channel that never gets stuck: the window is filled and drained again.

    That it never does the caller must know, and may say why.

    Raises:
        ValueError: the window takes too many chunks.
    """
    return ExplainedRun(
        look=LOOK,
        title=f"{_in_numbers(parameters)}: this channel never gets stuck",
        verdict=RunOutcome.LIVE,
        sentence="Every message that waits is sent, in every run. This run fills the window and drains it again.",
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
    if state.waiting.head().kind == "barrier":
        return "a barrier waits, and nothing can ever bring a barrier permit"
    cost, rows, kept = state.waiting.head().cost, state.permits.rows, state.unreturned
    keeps = f", the receiver keeps {kept:,} until it holds {parameters.permit_batch:,}" if kept else ""
    return f"a chunk that needs {cost:,} permits waits, {rows:,} are at the sender{keeps}, and nothing can move"


def _in_numbers(parameters: Parameters) -> str:
    return (
        f"row permits {parameters.row_permits:,}, permit batch {parameters.permit_batch:,}, "
        f"chunks of at most {parameters.max_chunk_cost:,}"
    )
