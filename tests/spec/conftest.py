"""TLC's results: each model is run once per session, two at a time, whichever tests ask for it."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from permitflow_model.manifest import Model
from permitflow_model.tlc import TlcResult
from permitflow_model.tlc.check import run_model
from tests.support.specification import MODELS

TlcRun = Callable[[str], TlcResult]
"""TLC's result for a model of the manifest, by its name; with the state graph where the manifest compares it."""


# Far above what TLC takes for any of these models.
HANG_SECONDS = 250.0


@pytest.fixture(scope="session")
def spec_directory(repository: Path) -> Path:
    """The modules and the manifest."""
    return repository / "spec"


@pytest.fixture(scope="session")
def models() -> dict[str, Model]:
    """All models of the manifest."""
    return MODELS


@pytest.fixture(scope="session")
def tlc_run(request: pytest.FixtureRequest, models: dict[str, Model], spec_directory: Path) -> Iterator[TlcRun]:
    """Runs begin when the first test asks, for all models that the selected tests name as ``model_name``."""
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="tlc") as pool:
        futures: dict[str, Future[TlcResult]] = {}

        def start(name: str) -> Future[TlcResult]:
            if name not in futures:
                model = models[name]
                futures[name] = pool.submit(
                    run_model,
                    model,
                    spec_directory=spec_directory,
                    dump_graph=model.graph,
                    timeout_seconds=HANG_SECONDS,
                )
            return futures[name]

        for item in request.session.items:
            parameters = item.callspec.params if hasattr(item, "callspec") else {}
            if (name := parameters.get("model_name")) is not None:
                start(name)
        yield lambda name: start(name).result()
        pool.shutdown(cancel_futures=True)
