"""What tests of all rooms share."""

import asyncio
import gc
import inspect
import os
import selectors
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.support.turns import turns

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

    from tests.support.certificates import Certificates

T = TypeVar("T")

# A shell that starts the tests in the background lets them, and all they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How fast examples are drawn says how busy the machine is, and nothing about what is tested.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", patient, max_examples=25, derandomize=True)
# `make test-all`.
settings.register_profile("thorough", patient, max_examples=100, derandomize=True)
# `nox -s random`: forty times as long, and different in every run; what fails is kept in .hypothesis and tried first.
settings.register_profile("random", patient, max_examples=1000, print_blob=True)
# For runs that are expected to fail, and where nobody reads the failing example.
settings.register_profile("unshrunk", patient, derandomize=True, phases=(Phase.explicit, Phase.generate))
settings.load_profile("default")

# Rooms whose tests share something that is dear to make: TLC's results, a Spark session, a browser.
TOGETHER = ("tests/spec", "tests/impl/spark", "tests/permitflow_tools/explain")
# A file whose classes share nothing, and take minutes: workers share it.
BY_CLASS = ("tests/proofs/test_theorems.py",)
# A session of Spark, a browser: what needs one of these takes long, unless it is marked as a sample.
DEAR = {"driver", "one_attempt", "cluster", "connected", "browser"}
# Some tests wait most of the time: one more than there are processors.
MOST_WORKERS = 4
# Few tests that take long: begun last, they would leave the other workers without anything to do.
BEGUN_FIRST = (
    "tests/spec",
    "tests/impl/spark",
    "tests/benchmarks/test_run.py",
    "tests/proofs/test_theorems.py",
    "tests/system/test_examples.py",
    "tests/permitflow_tools/cli/test_jobs.py",
    "tests/simulator/test_mutants.py",
    "tests/tools/test_site.py",
    "tests/impl/exchange/stores/test_takeover.py",
    "tests/deploy/test_deploy.py",
    "tests/conformance/test_staging_sink.py",
    "tests/conformance/test_fan_in_streams.py",
    "tests/hostile/test_attacks.py",
    "tests/system/tpch/test_main_job.py",
    "tests/conformance/test_recorded_processes.py",
    "tests/system/tpch/test_pipeline.py",
    "tests/faults/test_faults.py",
    "tests/test_docs.py",
    "tests/conformance/test_core_follows_model.py",
    "tests/permitflow_testing/test_examples.py",
    "tests/simulator/test_simulator.py",
    "tests/permitflow_tools/cli/test_serve_replay.py",
    "tests/impl/exchange/test_same_host.py",
    "tests/conformance/test_referee.py",
    "tests/impl/wire/test_damaged_frames.py",
    "tests/simulator/test_kept.py",
    "tests/simulator/test_gate.py",
)


# Far above what any of these tests takes: it turns a hang into a failure that shows where.
HANG_SECONDS = 200.0
# Calls that were cancelled from outside end in the loop's next turns: within a second, in turns of a hundredth.
TURNS_TO_END = 100
TURN_SECONDS = 0.01


def scope_of(nodeid: str) -> str:
    """What goes to one worker: a file, a class of some, or a room."""
    file, _, test = nodeid.partition("[")[0].partition("::")
    if file in BY_CLASS:
        return f"{file}::{test.rpartition('::')[0]}"
    return next((room for room in TOGETHER if file.startswith(f"{room}/")), file)


def pytest_xdist_auto_num_workers() -> int:
    """For ``-n auto``."""
    return min(MOST_WORKERS, (os.cpu_count() or 1) + 1)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what takes long, so that ``make test`` can leave it out; a test that is a coroutine needs the event loop."""
    if not isinstance(item, pytest.Function):
        return
    if not DEAR.isdisjoint(item.fixturenames) and item.get_closest_marker("sample") is None:
        item.add_marker("long")
    if inspect.iscoroutinefunction(item.obj):
        item.fixturenames.insert(0, "run")


async def _within(test: Coroutine[Any, Any, T]) -> T:
    # One test that fails, or leaves something behind, must not fail all those after it.
    before, handler = asyncio.all_tasks(), asyncio.get_running_loop().get_exception_handler()
    try:
        async with asyncio.timeout(HANG_SECONDS):
            result = await test
        assert await _those_that_stay(asyncio.all_tasks() - before) == set(), "tasks were left behind"
        assert asyncio.get_running_loop().get_exception_handler() is handler, "a handler was left behind"
    finally:
        asyncio.get_running_loop().set_exception_handler(handler)
        for task in asyncio.all_tasks() - before:
            task.cancel()
    return result


async def _those_that_stay(tasks: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Which run on, after as many turns as an idle machine takes in a second; a busy one takes longer for the same."""
    for _ in range(TURNS_TO_END):
        if not tasks:
            break
        _, tasks = await asyncio.wait(tasks, timeout=TURN_SECONDS)
    return tasks


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine to its end in the one event loop, and insist that no task is left behind."""
    test, fixtures = pyfuncitem.obj, pyfuncitem.funcargs
    if not inspect.iscoroutinefunction(test):
        return None
    runner = fixtures["run"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(_within(test(**{name: fixtures[name] for name in inspect.signature(test).parameters})))
    return True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several workers: the longest first, then by the number of tests; each worker comes to the same order."""
    if not hasattr(config, "workerinput"):
        return
    tests = Counter(scope_of(item.nodeid) for item in items)
    ranks = {file: rank for rank, file in enumerate(BEGUN_FIRST)}

    def place(item: pytest.Item) -> tuple[int, int, str]:
        scope = scope_of(item.nodeid)
        return ranks.get(scope.partition("::")[0], len(ranks)), -tests[scope], scope

    items.sort(key=place)


def pytest_collection() -> None:
    """While modules are loaded there is little garbage."""
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Modules and tests stay until the end, so the garbage collector need not look at them again."""
    gc.enable()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LoadScopeScheduling":
    """With several workers, the tests of a file go to the same one, and so do those of some rooms."""
    from xdist.scheduler import LoadScopeScheduling

    class RoomScheduling(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    config.option.loadscopereorder = False  # it would be by the number of tests alone
    return RoomScheduling(config, log)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout: tests read sources and specifications there, never installed copies."""
    return Path(__file__).resolve().parent.parent


class CountedRests(selectors.DefaultSelector):
    """Counts how often the event loop had nothing to do."""

    rests = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.rests += timeout is None or timeout > 0
        return super().select(timeout)


@pytest.fixture(scope="session")
def run() -> Iterator[asyncio.Runner]:
    """The one event loop of the session: ``run.run(coroutine)``.

    grpc.aio keeps the first event loop of the process; a second one would find its objects dead.
    """
    selector = CountedRests()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        yield runner
        before = selector.rests
        for _ in range(TURNS_TO_END):  # on a busy machine, the time of one is over before the loop can rest
            if selector.rests == before:
                runner.run(asyncio.sleep(TURN_SECONDS))
        assert selector.rests > before, "a test left callbacks behind that call each other for ever"


@pytest.fixture
def complete(run: asyncio.Runner) -> Callable[[Coroutine[Any, Any, T]], T]:
    """As a test that is a coroutine, for tests that do more than that."""
    return lambda test: run.run(_within(test))


@pytest.fixture
def unhandled(run: asyncio.Runner) -> Iterator[list[dict[str, Any]]]:
    """What the event loop is told that nobody has handled, instead of its log."""
    contexts = list[dict[str, Any]]()
    run.get_loop().set_exception_handler(lambda _, context: contexts.append(context))
    yield contexts
    run.get_loop().set_exception_handler(None)


@pytest.fixture
def settle() -> Callable[[], Awaitable[None]]:
    """Let every task run until it waits for something."""
    return turns


@pytest.fixture(params=["127.0.0.1:0", "tcp://127.0.0.1:0"], ids=["gRPC", "TCP"])
def listen(request: pytest.FixtureRequest) -> str:
    """Where an exchange shall listen, over gRPC or over TCP."""
    return str(request.param)


@pytest.fixture(params=["gRPC", "TCP", "shared memory"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test over all paths, and say how statistics call it.

    Every exchange refuses to share memory, and is served over gRPC or over TCP; or all of a stream goes through the
    ring.
    """
    from permitflow.carriers.shared_memory import link
    from permitflow.client import SameHost
    from permitflow.exchange import Exchange, ExchangeServer

    taken: str = request.param
    is_shared = taken == "shared memory"
    assert Exchange.__init__.__kwdefaults__ is not None
    policy = SameHost.AUTO if is_shared else SameHost.NEVER
    monkeypatch.setitem(Exchange.__init__.__kwdefaults__, "same_host", policy)
    monkeypatch.setattr(link, "RING_FROM_BYTES", 1)
    if taken == "TCP":
        monkeypatch.setattr(ExchangeServer.__init__, "__defaults__", ("tcp://127.0.0.1:0",))
    return taken if is_shared else "network"


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> "Certificates":
    """Of an authority of these tests; a key takes some milliseconds."""
    # Not for every process that runs one test: it takes longer than all else here.
    from tests.support.certificates import Certificates

    return Certificates(tmp_path_factory.mktemp("certificates"))
