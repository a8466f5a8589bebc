"""The rulebooks of flows by the flows' names."""

from collections.abc import Callable, Mapping

from permitflow.errors import InvalidParametersError
from permitflow_testing.rules import Rulebook


def _demand() -> Rulebook:
    from permitflow_testing.rulebooks.demand import RULEBOOK

    return RULEBOOK


def _permits() -> Rulebook:
    from permitflow_testing.rulebooks.permits import RULEBOOK

    return RULEBOOK


RULEBOOKS: Mapping[str, Callable[[], Rulebook]] = {
    "demand": _demand,
    "permits": _permits,
}
"""Flows with rules for other implementations; a rulebook is imported on first use."""


def flows() -> list[str]:
    """The names of the flows that have a rulebook."""
    return sorted(RULEBOOKS)


def rulebook_of(flow: str) -> Rulebook:
    """The rulebook of a flow.

    Raises:
        InvalidParametersError: the flow has none.
    """
    if flow not in RULEBOOKS:
        raise InvalidParametersError(name="flow", value=flow, rule=f"must be one of {', '.join(flows())}")
    return RULEBOOKS[flow]()
