"""Runs that show something, chosen by rules and not by chance."""

from collections.abc import Iterator, Sequence

from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import SYSTEM, Parameters, State, cost_of

__all__ = ["fill_and_drain"]

# The sender's window is filled while nothing moves elsewhere; then all that was sent is delivered; then permits are
# used as soon as they are back.
_FILL = ("SendChunk", "SendBarrier", "SendWatermark")
_DELIVER = ("Deliver",)
# Beyond, nobody would step through it.
MOST_CHUNKS = 5_000
_DRAIN = ("AddPermits", "SendChunk", "SendBarrier", "SendWatermark", "Deliver", "Consume", "Flush")


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
    if (needed := parameters.row_count // largest) > MOST_CHUNKS:
        raise ValueError(
            f"a window of {parameters.row_count:,} row permits takes {needed:,} chunks to fill, "
            f"if they cost at most {largest:,}; a run to look at has at most {MOST_CHUNKS:,}"
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
