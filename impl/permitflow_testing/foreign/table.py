"""The flows whose ends the kit can be, by the flows' names."""

from collections.abc import Callable, Mapping

from permitflow_testing.foreign.way import Way


def _demand() -> type[Way]:
    from permitflow_testing.foreign.demand import WAY

    return WAY


def _permits() -> type[Way]:
    from permitflow_testing.foreign.permits import WAY

    return WAY


WAYS: Mapping[str, Callable[[], type[Way]]] = {"demand": _demand, "permits": _permits}


def way_of(flow: str) -> type[Way]:
    """What an end of this flow has to know."""
    return WAYS[flow]()
