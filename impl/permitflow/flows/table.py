"""The flows by their names: those of this package, and those that a program has registered by itself."""

from collections.abc import Callable, Mapping

from permitflow.errors import ParameterMismatchError
from permitflow.flows.seam import Flow, registered
from permitflow.names import MOST_NAME_CHARACTERS


def _permits() -> Flow:
    from permitflow.flows.permits.agreement import PERMITS

    return PERMITS


def _gate() -> Flow:
    from permitflow.flows.gate.core import GATE

    return GATE


def _demand() -> Flow:
    from permitflow.flows.demand.core import DEMAND

    return DEMAND


def _squelch() -> Flow:
    from permitflow.flows.squelch.core import SQUELCH

    return SQUELCH


FLOWS: Mapping[str, Callable[[], Flow]] = {
    "demand": _demand,
    "gate": _gate,
    "permits": _permits,
    "squelch": _squelch,
}
"""Each flow of this package; its module is imported on first use."""


def flow_named(name: str) -> Flow:
    """The flow of this name: one of this package, or a registered one.

    Raises:
        ParameterMismatchError: no flow has this name.
    """
    if name in FLOWS:
        return FLOWS[name]()
    try:
        return registered()[name]
    except KeyError:
        raise ParameterMismatchError(
            name="flow",
            ours=", ".join(flow_names()),
            theirs=name[:MOST_NAME_CHARACTERS],
            rule="must be one that both ends know",
        ) from None


def flow_names() -> list[str]:
    """The names of all flows: those of this package and the registered ones."""
    return sorted({*FLOWS, *registered()})
