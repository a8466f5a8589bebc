"""Ctrl-C is Python's, also while Z3 thinks."""

import os
import signal
import threading
from dataclasses import dataclass

import pytest
import z3

from permitflow_proofs.kernel.trail import Trail


@dataclass(frozen=True)
class Question:
    term: z3.BoolRef


def think() -> None:
    """About a sum of three cubes, until the steps that are allowed are done."""
    x, y, z = z3.Ints("x y z")
    trail = Trail(max_forks=1)
    trail.assume(Question(z3.And(x > 10, y != 0, x * x * x + y * y * y + z * z * z == 114)))
    trail.is_possible()


def test_z3_keeps_no_signal_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permitflow_proofs.kernel.trail._SOLVER_STEPS", 1_000_000)
    (seen, sent), is_over = os.pipe(), threading.Event()
    os.set_blocking(sent, False)
    count = 0

    def interrupt() -> None:
        nonlocal count
        while not is_over.wait(0.001):
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            count += 1

    handler = signal.signal(signal.SIGINT, lambda *_: None)
    before = signal.set_wakeup_fd(sent)
    sender = threading.Thread(target=interrupt)
    try:
        sender.start()
        while not count:  # it may take longer to be started than this does
            think()
    finally:
        is_over.set()
        sender.join()
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, handler)
    assert len(os.read(seen, 2**16)) == count > 0
    os.close(seen)
    os.close(sent)
