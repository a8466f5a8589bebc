"""``AdaptiveGate.tla``, action for action: a gate that changes how many floating buffers it lends while it runs.

Each action but ``Resize`` is the one of the gate, ``input_gate.py``; ``Borrow`` has one more condition.
docs/protocols/adaptive-window.md explains it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from permitflow_model import input_gate_credit
from permitflow_model.input_gate import SYSTEM as GATE
from permitflow_model.input_gate import floating_here, needs_to_move
from permitflow_model.input_gate_credit import Channel
from permitflow_model.kernel.family import Family
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(input_gate_credit.Parameters):
    """The constants of the specification: those of the gate, and one more."""

    floor: int = 0
    """A target is at least this."""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        super().__post_init__()
        if not 0 <= self.floor <= self.floating:
            raise ValueError(f"floor must be in 0 .. floating = {self.floating}, not {self.floor}")


class State(NamedTuple):
    """The variables of the specification."""

    channels: Family[Channel]
    pool: int
    epoch: int
    failed: bool
    target: int
    """This many floating buffers may be lent."""


def gate_in(state: State) -> input_gate_credit.State:
    """The gate, without the target."""
    return input_gate_credit.State(state.channels, state.pool, state.epoch, state.failed)


def initial(parameters: Parameters) -> State:
    """The gate at its start: the whole pool may be lent."""
    return State(*input_gate_credit.initial(parameters), target=parameters.floating)


def lent(state: State, parameters: Parameters) -> int:
    """Floating buffers that channels have."""
    return parameters.floating - state.pool


def is_target(target: int, parameters: Parameters) -> bool:
    """May this be the target?"""
    return parameters.floor <= target <= parameters.floating


def resize(state: State, parameters: Parameters, target: int) -> State:
    """The gate has measured its consumer: this many floating buffers may be lent."""
    require(target != state.target)
    require(is_target(target, parameters))
    return state._replace(target=target)


def borrow(state: State, parameters: Parameters, name: int) -> State:
    """The pool lends one more, but none beyond the target."""
    require(lent(state, parameters) < state.target)
    return State(*input_gate_credit.borrow(gate_in(state), parameters, name), target=state.target)


def target_ok(state: State, parameters: Parameters) -> bool:
    """Whatever is measured, the target is within its bounds."""
    return is_target(state.target, parameters)


def target_bounds(state: State, parameters: Parameters) -> bool:
    """Once no more is lent than the target, the target is the bound of data for which own buffers are not enough."""
    here = state.channels.sum_of(floating_here, parameters)
    return lent(state, parameters) > state.target or here <= state.target


def _of_gate(action: Action[input_gate_credit.State, input_gate_credit.Parameters]) -> Action[State, Parameters]:
    """The same action, which keeps the target."""

    def perform(state: State, parameters: Parameters, *arguments: int) -> State:
        return State(*action.perform(gate_in(state), parameters, *arguments), target=state.target)

    perform.__name__, perform.__doc__ = action.perform.__name__, action.perform.__doc__
    return Action(
        action.name,
        perform,
        action.arguments,
        is_environment=action.is_environment,
        is_arrival=action.is_arrival,
        end=action.end,
        members=None if action.members is None else _channels,
    )


def _holds_of_gate(name: str) -> Callable[[State, Parameters], bool]:
    holds = GATE.invariants[name]
    return lambda state, parameters: holds(gate_in(state), parameters)


def _channels(state: State) -> Family[Channel]:
    return state.channels


def _targets(parameters: Parameters) -> Iterator[tuple[int]]:
    return ((target,) for target in range(parameters.floating + 1))


_BORROW = GATE.action("Borrow")
_OWN: Mapping[str, Action[State, Parameters]] = {
    "Borrow": Action("Borrow", borrow, _BORROW.arguments, end=_BORROW.end, members=_channels)
}
_ACTIONS = tuple(_OWN.get(action.name) or _of_gate(action) for action in GATE.actions)
_RESIZE: Action[State, Parameters] = Action("Resize", resize, _targets, is_environment=True, end="receiver")


def _nothing_withheld(state: State, parameters: Parameters) -> bool:
    if lent(state, parameters) != state.target:
        return True
    gate = gate_in(state)
    return not _BORROW.by_some(gate, partial(GATE.is_enabled, "Borrow", gate, parameters))


SYSTEM: System[State, Parameters] = System(
    module="AdaptiveGate",
    initial=initial,
    actions=(
        *(action for action in _ACTIONS if action.is_environment),
        _RESIZE,
        *(action for action in _ACTIONS if not action.is_environment),
    ),
    invariants={
        **{name: _holds_of_gate(name) for name in ("TypeOK", "Conservation", "Bounded")},
        "TargetOK": target_ok,
        "TargetBounds": target_bounds,
    },
    # Without exclusive buffers, ``floor`` must be at least 1.
    must_move=lambda state, _: needs_to_move(gate_in(state)),
    probes={
        "WithinTargetProbe": lambda state, parameters: lent(state, parameters) <= state.target,
        "NothingWithheldProbe": _nothing_withheld,
    },
)

REGISTERED = Registered(
    system=SYSTEM,
    parameters=Parameters,
    theorems="permitflow_proofs.adaptive_gate:theorems",
)
