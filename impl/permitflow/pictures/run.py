"""What is to be shown: a behaviour of the permit channel, and what is to be said about it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import Parameters, State

__all__ = ["MOST_STEPS", "Run", "Section", "Verdict", "last_steps"]

MOST_STEPS = 200_000
"""Steps that a page holds at most: about 10 MB, which a browser opens in a second."""


class Verdict(StrEnum):
    """What the run shows."""

    STUCK = "stuck"
    """It ends where somebody waits and nothing can ever change that."""

    LIVE = "live"
    """It is one of many, and none of them gets stuck."""

    VALID = "valid"
    """It was recorded, and it is a behaviour of the specification."""

    INVALID = "invalid"
    """It was recorded, and what came next no behaviour allows."""


@dataclass(frozen=True)
class Section:
    """Something to be said about the last state."""

    heading: str
    items: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A behaviour and what is to be said about it."""

    title: str
    verdict: Verdict
    sentence: str
    """The verdict in one sentence."""

    parameters: Parameters
    start: State
    steps: Sequence[Step[State]]
    skipped: int = 0
    """Steps before ``start`` that are not shown."""

    is_recorded: bool = False
    """Was it recorded?  Then ``parameters`` hold no bounds that anybody chose."""

    has_every_size: bool = False
    """May chunks of every size be offered, up to the clamp?  Then ``parameters.sizes`` holds only some of them."""

    remarks: tuple[str, ...] = ()
    """About the run as a whole."""

    conclusions: tuple[Section, ...] = ()
    """About its last state."""

    @property
    def end(self) -> State:
        """The last state."""
        return self.steps[-1].state if self.steps else self.start


def last_steps(run: Run, most: int = MOST_STEPS) -> Run:
    """The run, or its end if it is too long for a page."""
    surplus = len(run.steps) - most
    if surplus <= 0:
        return run
    remark = f"The first {surplus:,} steps are left out: a page holds at most {most:,}."
    return replace(
        run,
        start=run.steps[surplus - 1].state,
        steps=run.steps[surplus:],
        skipped=run.skipped + surplus,
        remarks=(remark, *run.remarks),
    )
