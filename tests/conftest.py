"""What tests of all rooms share."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout: tests read sources and specifications there, never installed copies."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def run() -> Iterator[asyncio.Runner]:
    """The one event loop of the session: ``run.run(coroutine)``.

    grpc.aio keeps the first event loop of the process; a second one would find its objects dead.
    """
    with asyncio.Runner() as runner:
        yield runner
