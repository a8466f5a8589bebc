"""The rulebooks of flows by the flows' names."""

from collections.abc import Mapping

from permitflow.errors import InvalidParametersError
from permitflow_testing.rulebooks import demand, permits
from permitflow_testing.rules import Rulebook

RULEBOOKS: Mapping[str, Rulebook] = {"demand": demand.RULEBOOK, "permits": permits.RULEBOOK}
"""Flows with rules for other implementations."""


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
    return RULEBOOKS[flow]
