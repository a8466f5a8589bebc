"""Waits of commands that move rows: they end with the user's time-out, and say meanwhile whom they wait for."""

import math
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

import typer

from permitflow.errors import PeerTimeoutError, ResumeTimeoutError, printable

T = TypeVar("T")

SLICE_SECONDS = 5.0
"""The user hears why after this long without progress."""


class Patience:
    """Repeats a call that times out after ``SLICE_SECONDS``, until the whole wait is too long."""

    def __init__(self, timeout_seconds: float | None) -> None:
        """``timeout_seconds``: the longest wait without progress; None: as long as the other side is alive."""
        self._timeout_seconds = math.inf if timeout_seconds is None else timeout_seconds
        self.slice_seconds = min(SLICE_SECONDS, self._timeout_seconds)
        self._told = ""

    def __call__(self, call: Callable[[], T]) -> T:
        """The result of a call that may be repeated after a time-out.

        Raises:
            PeerTimeoutError: the whole wait was too long.
        """
        began = monotonic()
        while True:
            tried = monotonic()
            try:
                return call()
            except ResumeTimeoutError:
                raise
            except PeerTimeoutError as error:
                now = monotonic()
                # One that comes at once has ended the stream, and would come again.
                if now - tried < self.slice_seconds / 2 or now - began >= self._timeout_seconds:
                    raise
                self._tell(str(error))

    def _tell(self, why: str) -> None:
        if why != self._told:
            self._told = why
            typer.echo(printable(f"waiting: {why}"), err=True)
