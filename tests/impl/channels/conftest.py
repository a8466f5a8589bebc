"""What tests of channels inside a process share."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

# Callbacks of callbacks: more than any chain of wake-ups in these tests is long.
TURNS = 20


async def _settle() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


@pytest.fixture
def settle() -> Callable[[], Awaitable[None]]:
    """Let every task run until it waits for something."""
    return _settle
