"""How everything here is measured: variants take turns, and other processes run beside the measuring one."""

import asyncio
import multiprocessing
import random
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar

from tests.support import serving as processes

CHECKOUT = Path(__file__).resolve().parent.parent
SPAWNING = multiprocessing.get_context("spawn")
# A guard against hangs, which measures nothing.
ENDING_SECONDS = 60.0
# Of all that is drawn.
SEED = 1

Role: TypeAlias = Callable[..., Coroutine[Any, Any, None] | None]
K = TypeVar("K")
V = TypeVar("V")


def in_turns(variants: Mapping[K, Callable[[], V]], rounds: int) -> dict[K, list[V]]:
    """Run each variant once in each round, in another order each time, the same in each run.

    The n-th result of each is of the n-th round.

    A disturbance of the machine affects all variants of a round alike, so ratios are taken round by round.
    """
    found: dict[K, list[V]] = {name: [] for name in variants}
    order = random.Random(SEED)
    for _ in range(rounds):
        for name in order.sample(list(variants), len(variants)):
            found[name].append(variants[name]())
    return found


class PartnerFailedError(Exception):
    """Another process has ended, or has not answered in time."""


class Partner:
    """Another process, which runs ``function(pipe, *arguments)``, or a coroutine; both sides send objects.

    Use it in a block.  The function may take ``EOFError``, of a pipe whose other side is closed, for its end.
    """

    def __init__(self, function: Role, *arguments: object) -> None:
        self._pipe, theirs = SPAWNING.Pipe()
        self._process = SPAWNING.Process(target=_run, args=(function, theirs, *arguments))
        self._process.start()
        theirs.close()

    def tell(self, message: object = None) -> None:
        """Say something.

        Raises:
            PartnerFailedError: the process has ended.
        """
        try:
            self._pipe.send(message)
        except OSError as error:
            raise PartnerFailedError("a process has ended; its reason stands above") from error

    def hears(self, beside: "Partner | None" = None, seconds: float | None = None) -> Any:
        """The next message of the process.

        Raises:
            PartnerFailedError: it has ended instead, or the one beside it without which no message would come; or it is
                silent for this many seconds.
        """
        ready = wait([self._pipe, *([beside._process.sentinel] if beside else [])], seconds)
        if not ready:
            raise PartnerFailedError(f"no answer within {seconds:g} s")
        with suppress(EOFError, OSError):
            if self._pipe in ready:
                return self._pipe.recv()
        raise PartnerFailedError("a process has ended; its reason stands above")

    def fileno(self) -> int:
        """For an event loop that waits for its messages."""
        return self._pipe.fileno()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None, "it was started"
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Close its pipe, and wait for its end; kill it if that takes too long."""
        self._pipe.close()
        self._process.join(ENDING_SECONDS)
        self._process.kill()
        self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _run(function: Role, pipe: object, *arguments: object) -> None:
    # Ctrl-C is for the parent, which ends the others by closing their pipes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError):
        if (coroutine := function(pipe, *arguments)) is not None:
            asyncio.run(coroutine)


@contextmanager
def serving(*options: str) -> Iterator[tuple[str, int]]:
    """``permitflow serve`` for the block: its address, and the id of its process."""
    with processes.serving("--quiet", *options) as process:
        yield processes.address_of(process), process.pid
