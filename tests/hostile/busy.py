"""A process as busy as an attacker, which attacks nobody: what a neighbour loses to it is the machine's matter."""

import time
from typing import Final

_TURN_SECONDS: Final = 0.01


def be_busy(share: float, seconds: float) -> None:
    """Take this share of a processor for so long."""
    until = time.monotonic() + seconds
    while (now := time.monotonic()) < until:
        turn_ends, spent = now + _TURN_SECONDS, time.thread_time() + share * _TURN_SECONDS
        while time.thread_time() < spent and time.monotonic() < until:
            pass
        time.sleep(max(0.0, turn_ends - time.monotonic()))
