"""One cell of a grid: which numbers, and what becomes of them."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from permitflow.checking.deciding import answer_for, overspend_of
from permitflow.checking.exploring import explored, model_of, most_states
from permitflow.checking.grid import Grid
from permitflow.errors import InvalidParametersError
from permitflow.parameters_file.read import KEYS
from permitflow.simulation.setting import Setting
from permitflow.simulation.sweep import Point
from permitflow_model.kernel.explore import Graph, StateLimitReached
from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import Parameters, State

__all__ = ["MOST_STATES", "Cell", "Check", "Finding", "Verdict", "cells_of", "check_cell"]

MOST_STATES = 1_000_000
"""Of one channel: about a gigabyte and a minute."""

Verdict = Literal["live", "deadlock", "overspend", "violation", "impossible", "too large", "undecided"]


class Check(StrEnum):
    """How a cell is checked."""

    DECIDE = "decide"
    """By the theorems: at once, for numbers of any size.  Needs ``permitflow[proofs]``."""

    EXPLORE = "explore"
    """By the model: every state that can be reached is visited, which only small numbers allow."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of numbers."""

    point: Point
    setting: Setting | None
    """None if there is no such channel."""

    reason: str = ""
    """Why there is none."""

    @property
    def states(self) -> int:
        """How many there are at most."""
        return 0 if self.setting is None else most_states(model_of(self.setting))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of one combination of numbers."""

    values: Mapping[str, int]
    """By the name of the axis, in rows."""

    verdict: Verdict
    reason: str
    """Of the verdict, in words."""

    run: tuple[str, ...] = ()
    """The actions of a shortest run into a deadlock."""

    max_cost: int | None = None
    """The most a chunk costs here."""

    safe_max_cost: int | None = None
    """The most a chunk may cost, as the theorems say; only if decided."""

    safe_batch: int | None = None
    """The largest batch with which such chunks are live, as the theorems say; only if decided."""

    states: int | None = None
    """How many can be reached; only if explored."""

    depth: int | None = None
    """States on the longest shortest path; only if explored."""

    seconds: float = 0.0
    """That it took."""

    @property
    def holds(self) -> bool:
        """Is it live, and nothing else wrong?"""
        return self.verdict == "live"


def cells_of(grid: Grid) -> list[Cell]:
    """All combinations; the last axis turns fastest."""
    return [_cell(grid.setting, point) for point in grid.points()]


def check_cell(check: Check, cell: Cell, *, max_states: int = MOST_STATES) -> Finding:
    """Check one combination.

    Args:
        check: how.
        cell: what.
        max_states: to explore at most; beyond it the verdict is "too large".
    """
    values = {name: int(value) for name, value in cell.point.values.items()}
    if cell.setting is None:
        return Finding(values=values, verdict="impossible", reason=cell.reason)
    begin = time.perf_counter()
    finding = _decided(cell.setting, values) if check is Check.DECIDE else _explored(cell.setting, values, max_states)
    return replace(finding, seconds=time.perf_counter() - begin)


def _cell(setting: Setting, point: Point) -> Cell:
    try:
        return Cell(point, point.applied_to(setting))
    except InvalidParametersError as error:
        reason = f"{KEYS.get(error.name, error.name)} {error.rule.replace('row_permits', 'row_count')}"
        return Cell(point, None, reason)


def _decided(setting: Setting, values: Mapping[str, int]) -> Finding:
    from permitflow_proofs import Undecided

    try:
        answer = answer_for(setting)
    except Undecided as error:
        return Finding(values=values, verdict="undecided", reason=str(error))
    decision = answer.decision
    return Finding(
        values=values,
        verdict=answer.verdict,
        reason=decision.explanation if answer.verdict != "overspend" else answer.overspend,
        run=() if decision.run is None else tuple(map(_spelt, decision.run.steps)),
        max_cost=decision.max_cost,
        safe_max_cost=decision.safe_max_cost,
        safe_batch=decision.safe_batch,
    )


def _explored(setting: Setting, values: Mapping[str, int], max_states: int) -> Finding:
    parameters = model_of(setting)
    # With chunks of one row everything that may be, is reached, so one need not run into the limit to know of it.
    if 1 in parameters.sizes and (states := most_states(parameters)) > max_states:
        return _too_large(values, f"it has {states:,} states", max_states)
    try:
        graph = explored(parameters, max_states=max_states)
    except StateLimitReached:
        return _too_large(values, f"it has up to {most_states(parameters):,} states", max_states)
    verdict, reason, run = _verdict(setting, parameters, graph)
    return Finding(
        values=values,
        verdict=verdict,
        reason=reason,
        run=run,
        max_cost=parameters.clamp,
        states=graph.state_count,
        depth=graph.depth,
    )


def _too_large(values: Mapping[str, int], size: str, max_states: int) -> Finding:
    return Finding(values=values, verdict="too large", reason=f"{size}, and at most {max_states:,} are explored")


def _verdict(setting: Setting, parameters: Parameters, graph: Graph[State]) -> tuple[Verdict, str, tuple[str, ...]]:
    """The verdict, its reason, and the run that shows it."""
    broken = {violation.invariant: violation for violation in graph.violations}
    stuck = broken.pop("NeverStuck", None) or graph.deadlock
    if broken:
        name, violation = next(iter(broken.items()))
        return "violation", f"{name} does not hold", tuple(map(_spelt, violation.steps))
    if stuck is not None:
        end = stuck.steps[-1].state
        (waiting,) = end.waiting
        reason = (
            f"a chunk of {waiting.cost:,} waits for ever: of {parameters.row_count:,} permits the sender has "
            f"{end.permits.rows:,}, the receiver keeps back {end.unreturned:,}"
        )
        return "deadlock", reason, tuple(map(_spelt, stuck.steps))
    if overspend := overspend_of(setting):
        return "overspend", overspend, ()
    return "live", f"all {graph.state_count:,} states were visited, and none of them is stuck", ()


def _spelt(step: Step[State]) -> str:
    arguments = ", ".join(map(str, step.arguments))
    return f"{step.action}({arguments})" if arguments else step.action
