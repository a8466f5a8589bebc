"""Draws what hostile peers say for as long as one likes, one target after the other."""

import asyncio
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.hostile import arrow, byte_grammar, grammar, memory, sockets

EXAMPLES_AT_ONCE = 100
"""Then the next target has its turn."""
_KEPT = ".hypothesis/examples"

Try = Callable[[Any], object]


@contextmanager
def _memory() -> Iterator[tuple[st.SearchStrategy[Any], Try]]:
    yield st.lists(grammar.sessions(), min_size=1, max_size=3), memory.attack


@contextmanager
def _schemas() -> Iterator[tuple[st.SearchStrategy[Any], Try]]:
    yield arrow.hostile_schemas, arrow.decode_schema


@contextmanager
def _chunks() -> Iterator[tuple[st.SearchStrategy[Any], Try]]:
    yield arrow.chunks(), arrow.decode_chunk


@cache
def _runner() -> asyncio.Runner:
    """gRPC keeps the first event loop of the process; a second one would find its objects dead."""
    return asyncio.Runner()


def _at(scheme: str, peers: st.SearchStrategy[Any]) -> Any:
    @contextmanager
    def opened() -> Iterator[tuple[st.SearchStrategy[Any], Try]]:
        yield (
            st.lists(peers, min_size=1, max_size=3),
            lambda several: _runner().run(sockets.attack(scheme, several)),
        )

    return opened


TARGETS = {
    "messages": _memory,
    "tcp": _at("tcp://", byte_grammar.over_tcp),
    "udp": _at("udp://", byte_grammar.over_udp),
    "http2": _at("", byte_grammar.over_http2),
    "schemas": _schemas,
    "chunks": _chunks,
}
"""What is attacked, by name: each opens it, and gives what is drawn, and what tries it."""


def fuzz(names: list[str], seconds: float) -> bool:
    """Attack these targets in turns, until the time is over or something is found; was nothing found?"""
    until, tried = time.monotonic() + seconds, dict.fromkeys(names, 0)
    is_well = True
    while is_well and time.monotonic() < until:
        for name in names:
            with TARGETS[name]() as (drawn, attempt):
                is_well = _attack(name, drawn, attempt, tried, until)
            if not is_well or time.monotonic() > until:
                break
    for name, count in tried.items():
        print(f"{name:10} {count:9,} attempts")
    print("nothing was found" if is_well else "FOUND: see above; make it an @example of the target's test")
    return is_well


def _attack(name: str, drawn: st.SearchStrategy[Any], attempt: Try, tried: dict[str, int], until: float) -> bool:
    @settings(
        max_examples=EXAMPLES_AT_ONCE,
        database=DirectoryBasedExampleDatabase(_KEPT),
        deadline=None,
        derandomize=False,
        phases=(Phase.reuse, Phase.generate, Phase.shrink),
        suppress_health_check=tuple(HealthCheck),
        print_blob=True,
    )
    @given(drawn)
    def once(value: Any) -> None:
        if time.monotonic() > until:
            return
        tried[name] += 1
        attempt(value)

    once.__qualname__ = f"fuzz_{name}"
    try:
        once()
    except Exception:
        print(f"{name}:", file=sys.stderr)
        traceback.print_exc()
        return False
    return True
