"""What tests of all rooms share."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

# A shell that starts the tests in the background lets them, and all they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("default", deadline=None, derandomize=True)
# `--hypothesis-profile=ci`: ten times as long, and different in every run.
settings.register_profile("ci", deadline=None, max_examples=1000)
# For runs that are expected to fail, and where nobody reads the failing example.
settings.register_profile("unshrunk", deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate))
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
