"""How everything here is measured: variants in turns, and processes beside the one that measures."""

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["CHECKOUT", "Partner", "in_turns", "partner", "serving"]

CHECKOUT = Path(__file__).resolve().parent.parent

K = TypeVar("K")
V = TypeVar("V")


def in_turns(variants: Mapping[K, Callable[[], V]], rounds: int, order: random.Random) -> dict[K, list[V]]:
    """Run each variant once in each round, in another order each time; the n-th result of each is of the n-th round.

    A disturbance of the machine affects all variants of a round alike, so ratios are taken round by round.
    """
    found: dict[K, list[V]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name in order.sample(list(variants), len(variants)):
            found[name].append(variants[name]())
    return found


class Partner:
    """Another process that runs a module of this checkout; both sides send lines of JSON."""

    def __init__(self, module: str, *arguments: object) -> None:
        """Start it; see ``partner``."""
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def hears(self) -> dict[str, Any]:
        """The next message of the process.

        Raises:
            AssertionError: it has ended instead.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"{self._module} has ended; its reason stands above"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def tell(self, **facts: object) -> None:
        """Say something."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(facts) + "\n")

    def has_ended(self) -> bool:
        """By itself, until now?"""
        return self._process.poll() is not None

    def close(self) -> None:
        """Close its input, and wait for its end."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def partner(module: str, *arguments: object) -> Iterator[Partner]:
    """A process for the block; it ends by itself when nothing more is said to it, and is killed if the block fails."""
    process = Partner(module, *arguments)
    try:
        yield process
    except BaseException:
        process.kill()
        raise
    process.close()


@contextmanager
def serving(*options: str) -> Iterator[tuple[str, int]]:
    """``permitflow serve`` for the block: its address, and the id of its process."""
    command = [sys.executable, "-m", "permitflow.cli", "serve", "--quiet", *options]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            # "listening at ADDRESS"
            yield process.stdout.readline().rsplit(maxsplit=1)[-1], process.pid
        finally:
            process.kill()
