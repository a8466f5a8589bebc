"""The parameters of a token bucket have ranges."""

from dataclasses import replace

import pytest

from permitflow_model.token_bucket import Parameters

SMALL = Parameters(capacity=2, period=2, max_cost=3, room=3, window=5)


@pytest.mark.parametrize("name", ["capacity", "period", "max_cost", "room", "window"])
def test_parameters_that_the_specification_refuses_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        replace(SMALL, **{name: -1})  # type: ignore[arg-type]  # they are numbers
