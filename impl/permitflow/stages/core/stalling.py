"""Who waits for whom, and for whom nothing can come any more, in an island whose events have all been run."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from permitflow.stages.core.ports import Connection, Stage


def without_hope(waiting: Iterable[Stage[Any, Any]], movers: Iterable[Stage[Any, Any]]) -> list[Stage[Any, Any]]:
    """The waiting exits to which nothing can come, whatever the movers do: their sources, calls and timers.

    Nothing is told too early, because every stage is asked at which of its connections it might act; what it answers
    is too much, if it is not known.
    """
    coming: defaultdict[Stage[Any, Any], set[Connection[Any]]] = defaultdict(set)
    ahead: list[Stage[Any, Any]] = []

    def act(stage: Stage[Any, Any], connections: Iterable[Connection[Any]]) -> None:
        for connection in connections:
            other = connection.producer if connection.consumer is stage else connection.consumer
            if connection not in coming[other]:
                coming[other].add(connection)
                ahead.append(other)

    for mover in movers:
        act(mover, [*mover.inlets, *mover.outlets])
    while ahead:
        stage = ahead.pop()
        act(stage, stage.may_act_at(coming[stage]))
    return [stage for stage in waiting if stage.inlet not in coming[stage]]


def waiting_chain(exit_: Stage[Any, Any]) -> tuple[str, ...]:
    """The way from an exit that waits to the stages that wait for each other in a ring: a sentence for each step.

    Or to a stage that neither has what it needs nor asks.
    """
    told: list[str] = []
    stage, is_asked = exit_, True
    seen = set[Connection[Any]]()
    while True:
        asked, unasked = _first(stage.inlets, is_asked=True), _first(stage.outlets, is_asked=False)
        # Who is asked lacks an element, and who does not ask has one too many.
        followed = asked if asked is not None and (is_asked or unasked is None) else unasked
        if followed in seen:
            break
        if followed is None:
            told.append(f"{_name(stage)} neither emits, nor asks, nor ends" if stage.outlets else "nobody asks there")
            break
        seen.add(followed)
        if followed is asked:
            told.append(f"{_name(stage)} waits for an element of {_name(followed.producer)}")
            stage, is_asked = followed.producer, True
        else:
            told.append(f"{_name(stage)} waits until {_name(followed.consumer)} asks for an element")
            stage, is_asked = followed.consumer, False
    return tuple(told)


def _first(connections: list[Connection[Any]], *, is_asked: bool) -> Connection[Any] | None:
    for each in connections:
        is_open = not (each.is_in_closed or each.is_out_closed)
        if is_open and each.has_been_pulled == is_asked:
            return each
    return None


def _name(stage: Stage[Any, Any]) -> str:
    return type(stage).__name__
