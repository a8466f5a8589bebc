"""A wrong parameter is refused where it is given, and by its name."""

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest

from permitflow.errors import InvalidParametersError
from permitflow.stages import Source, async_callback, open_run

STREAM: Any = Source([1])


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: STREAM.buffer("3"), "capacity must be at least 1, and a whole number, not '3'"),
        (lambda: STREAM.buffer(0), "capacity must be at least 1, and a whole number, not 0"),
        (lambda: STREAM.buffer(True), "capacity must be at least 1, and a whole number, not True"),
        (lambda: STREAM.buffer(3, "dropHead"), r"overflow must be one of Overflow.BLOCK, .*, not 'dropHead'"),
        (lambda: async_callback(None), "capacity must be at least 0, and a whole number, not None"),  # type: ignore[arg-type]  # the wrong use itself
        (lambda: async_callback(-1), "capacity must be at least 0, and a whole number, not -1"),
        (lambda: async_callback(1, max_waiting=0), "max_waiting must be at least 1.*, not 0"),
        (lambda: STREAM.unbounded(alarm=0), "alarm must be at least 1, and a whole number, not 0"),
        (lambda: STREAM.batch(0, max), "max_elements must be at least 1, and a whole number, not 0"),
        (lambda: STREAM.batch_weighted(0, int, max), "max_weight must be above 0, .*, not 0"),
        (lambda: STREAM.conflate(max, supervision="stop"), "supervision must be one of Supervision.S.*, not 'stop'"),
        (lambda: STREAM.broadcast(0), "branches must be at least 1.*, not 0"),
        (open_run, "sources must be at least 1.*, not 0"),
        (lambda: STREAM.throttle(2, 1e-9), ".* at least a nanosecond.*"),
        (lambda: STREAM.throttle("1", 1), "cost must be at least 1, and a whole number, not '1'"),
        (lambda: STREAM.throttle(1, inf), "per_seconds must be above 0, and a finite number, not inf"),
        (lambda: STREAM.throttle(1, None), "per_seconds must be above 0, and a finite number, not None"),
        (lambda: STREAM.throttle(1, 1, burst=0.5), "burst must be at least 0, and a whole number, not 0.5"),
        (lambda: STREAM.throttle(1, 1, mode="shape"), r"mode must be one of ThrottleMode.SHAPE, .*, not 'shape'"),
        (lambda: STREAM.async_boundary("8"), "prefetch must be a power of two, not '8'"),
        (lambda: STREAM.frames(10, 80), "delimiter must be bytes or text, and not empty, not 10"),
        (lambda: STREAM.frames("", 80), "delimiter must be bytes or text, and not empty, not ''"),
        (lambda: STREAM.frames("\n", None), "max_length must be at least 1, and a whole number, not None"),
        (lambda: STREAM.rechunk(2.5), "rows must be at least 1, and a whole number, not 2.5"),
        (lambda: STREAM.merge([2]), r"another stream must be a Source\(elements\), not \[2\]"),
        (lambda: STREAM.zip(None), r"another stream must be a Source\(elements\), not None"),
    ],
)
def test_a_wrong_parameter_is_refused_by_its_name(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(InvalidParametersError, match=f"^{complaint}$"):
        make()


@pytest.mark.parametrize("cost", [nan, "1", None, -1])
async def test_an_element_whose_cost_is_no_number_fails_the_stream(cost: Any) -> None:
    with pytest.raises(InvalidParametersError, match="cost must be at least 0, and a whole number"):
        await anext(Source([1]).throttle(1, 1.0, cost_of=lambda _: cost).open())
