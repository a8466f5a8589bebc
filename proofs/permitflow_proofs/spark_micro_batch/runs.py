"""Runs of a streaming query with symbolic parameters: how its replay buffer fills.

One obligation stands for the step from any number of rows to the next, so that by induction every number is reached.
"""

from collections.abc import Callable

from permitflow_model.spark_micro_batch import SYSTEM, Parameters, State
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.runs import Move, take
from permitflow_proofs.kernel.symbols import assume, natural

__all__ = ["BATCH_DONE", "filled", "filling", "unacknowledged", "unacknowledging"]

_HANDED_OVER: tuple[Move, ...] = (("Offer", (1,)), ("Produce", ()))
_RUN: tuple[Move, ...] = (("RunTask", ()), ("Stage", ()), ("Publish", ()), ("WriteCommitLog", ()))
_LOGGED: tuple[Move, ...] = (("PlanBatch", ()), ("WriteOffsetLog", ()))

BATCH_DONE: tuple[Move, ...] = (*_LOGGED, ("Acknowledge", ()), *_RUN)
"""A whole batch of a query that acknowledges in ``commit``."""

_CRASHED_BEFORE_COMMIT: tuple[Move, ...] = (*_LOGGED, ("CrashDriver", ()), ("Restart", ()), *_RUN)


def filled(parameters: Parameters, rows: int) -> State:
    """The exchange has so many rows, and the query has not begun."""
    return SYSTEM.initial(parameters)._replace(produced=rows)


def unacknowledged(parameters: Parameters, rows: int, faults: int) -> State:
    """So many rows were read, each in a batch of its own, and none was acknowledged; so many faults are left."""
    return SYSTEM.initial(parameters)._replace(
        produced=rows, start=rows - 1 if rows > 0 else 0, end=rows, output=rows, faults=faults
    )


def _starts(any_parameters: Callable[[], Parameters], rows: int) -> bool:
    parameters = any_parameters()
    start = SYSTEM.initial(parameters)
    return start == filled(parameters, rows) and start == unacknowledged(parameters, rows, parameters.faults)


def _fills(any_parameters: Callable[[], Parameters], too_many: int) -> bool:
    parameters, rows = any_parameters(), natural("rows_before")
    assume(rows < parameters.row_count + too_many)
    assume(rows < parameters.horizon)
    return take(SYSTEM, parameters, filled(parameters, rows), _HANDED_OVER) == filled(parameters, rows + 1)


def _stays(any_parameters: Callable[[], Parameters], too_many: int) -> bool:
    parameters, rows, faults = any_parameters(), natural("rows_before"), natural("faults_before", 1)
    assume(rows < parameters.row_count + too_many)
    assume(rows < parameters.horizon)
    before, after = (unacknowledged(parameters, rows + more, faults - more) for more in (0, 1))
    return take(SYSTEM, parameters, before, [*_HANDED_OVER, *_CRASHED_BEFORE_COMMIT]) == after


def _starting(any_parameters: Callable[[], Parameters]) -> SymbolicObligation:
    return SymbolicObligation(
        "it starts with no row", lambda: _starts(any_parameters, 0), lambda: _starts(any_parameters, 1), "with one"
    )


def filling(any_parameters: Callable[[], Parameters]) -> tuple[SymbolicObligation, ...]:
    """The exchange may be given any number of rows, up to its permits, before the query begins."""
    return (
        _starting(any_parameters),
        SymbolicObligation(
            "a chunk of one row is taken over, if there is a permit",
            lambda: _fills(any_parameters, 0),
            lambda: _fills(any_parameters, 1),
            "without a permit",
        ),
    )


def unacknowledging(any_parameters: Callable[[], Parameters]) -> tuple[SymbolicObligation, ...]:
    """Any number of rows, up to the permits, may be read and committed, and not one acknowledged."""
    return (
        _starting(any_parameters),
        SymbolicObligation(
            "a batch of one row is committed, and not acknowledged, if the driver crashes before commit is called",
            lambda: _stays(any_parameters, 0),
            lambda: _stays(any_parameters, 1),
            "without a permit",
        ),
    )
