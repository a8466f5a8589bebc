"""Runs of the model as lists of actions."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from permitflow_model.kernel.system import Step
    from permitflow_model.permit_channel import State

__all__ = ["spelt"]


def spelt(steps: "Iterable[Step[State]]") -> tuple[str, ...]:
    """Each action with its arguments, as in ``OfferChunk(4)``."""
    return tuple(_action(step) for step in steps)


def _action(step: "Step[State]") -> str:
    arguments = ", ".join(map(str, step.arguments))
    return f"{step.action}({arguments})" if arguments else step.action
