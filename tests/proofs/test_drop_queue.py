"""The parameters of a queue that drops have ranges."""

from dataclasses import replace

import pytest

from permitflow_model.drop_queue import Parameters

OLDEST = Parameters(capacity=6, arrivals=2, services=1, resend=3, drops="oldest")
INCOMING = Parameters(capacity=3, arrivals=2, services=1, resend=3, drops="incoming")


@pytest.mark.parametrize("name", ["capacity", "arrivals", "services", "resend"])
def test_parameters_that_the_specification_refuses_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        replace(OLDEST, **{name: 0})  # type: ignore[arg-type]  # they are numbers
