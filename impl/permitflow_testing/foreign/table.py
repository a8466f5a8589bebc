"""The flows whose ends the kit can be, by the flows' names."""

from collections.abc import Mapping

from permitflow_testing.foreign.demand import DemandWay
from permitflow_testing.foreign.permits import PermitWay
from permitflow_testing.foreign.way import Way

WAYS: Mapping[str, type[Way]] = {"demand": DemandWay, "permits": PermitWay}
"""What an end of a flow has to know."""
