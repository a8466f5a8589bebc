"""Who waits for whom, in an island in which nothing can happen any more."""

from typing import Any

from permitflow.stages.core.ports import Connection, Stage


def waiting_chain(exit_: Stage[Any, Any]) -> tuple[str, ...]:
    """From an exit that waits to the stage that neither has what it needs nor asks: a sentence for each step."""
    told: list[str] = []
    stage: Stage[Any, Any] = exit_
    seen = set[Stage[Any, Any]]()
    while stage not in seen:
        seen.add(stage)
        if (asked := _first(stage.inlets, wants_element=True)) is not None:
            told.append(f"{_name(stage)} waits for an element of {_name(asked.producer)}")
            stage = asked.producer
        elif (unasked := _first(stage.outlets, wants_element=False)) is not None:
            told.append(f"{_name(stage)} waits until {_name(unasked.consumer)} asks for an element")
            stage = unasked.consumer
        else:
            told.append(f"{_name(stage)} neither emits, nor asks, nor ends" if stage.outlets else "nobody asks there")
            break
    return tuple(told)


def _first(connections: list[Connection[Any]], *, wants_element: bool) -> Connection[Any] | None:
    for each in connections:
        is_open = not (each.is_in_closed or each.is_out_closed)
        if is_open and each.has_been_pulled == wants_element:
            return each
    return None


def _name(stage: Stage[Any, Any]) -> str:
    return type(stage).__name__
