"""Nobody is lost because it is late, in real time over what no simulated loop runs: gRPC and shared memory.

tests/simulator/test_patience.py has TCP and UDP.
"""

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.process import reserved_address

pytestmark = pytest.mark.long

Start = Callable[..., Any]

CARRIERS: dict[str, tuple[str | float, ...]] = {
    "gRPC": ("--same-host", "never", "--resume-seconds", 30.0),  # its own signs of life are stopped as well
    "shared memory": ("--same-host", "require"),
}
each_carrier = pytest.mark.parametrize("carrier", CARRIERS)

ROWS = 20
PACED = ("--rows", ROWS, "--chunk-rows", 1, "--pause-seconds", 0.5)
LATE_SECONDS = 5.0
STOPPED_SECONDS = 12.0
"""More than the silence that ends a connection: 8 s."""
IN_TIME_SECONDS = 120.0
"""On a busy machine."""


def require_well(*ends: Any) -> None:
    """All rows have come, and both ends say so."""
    told = [end.ends(IN_TIME_SECONDS) for end in ends]
    assert [each["event"] for each in told] == ["done", "done"], told
    assert told[-1]["rows"] == ROWS


@each_carrier
def test_an_exchange_that_comes_last_is_met(start: Start, carrier: str) -> None:
    options = CARRIERS[carrier]
    with reserved_address() as address:
        ends = start("produce", address, *PACED, *options), start("consume", address, *options)
        time.sleep(LATE_SECONDS)
        start("serve", "--listen", address, *options)
        require_well(*ends)


@each_carrier
def test_all_may_be_stopped_for_longer_than_the_silence(start: Start, carrier: str) -> None:
    options = CARRIERS[carrier]
    serve = start("serve", "--listen", "127.0.0.1:0", *options)
    address = serve.hears("ready")["address"]
    ends = start("produce", address, *PACED, *options), start("consume", address, *options)
    for event in ("ready", "flowing"):
        ends[1].hears(event)
    everybody = serve, *ends
    for each in everybody:
        each.signal(signal.SIGSTOP)
    time.sleep(STOPPED_SECONDS)
    for each in everybody:
        each.signal(signal.SIGCONT)
    require_well(*ends)
