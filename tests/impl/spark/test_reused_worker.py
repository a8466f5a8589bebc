"""A worker that Spark uses again does not look for garbage among its imports, and nobody else's choice is changed."""

import gc
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
from pyspark.sql.types import StructType

from permitflow.spark.reused_worker import leave_imports_alone
from permitflow.spark.source import PermitflowDataSource


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    assert not gc.get_freeze_count()
    yield
    gc.unfreeze()


@pytest.fixture
def in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permitflow.spark.reused_worker._Known.modules", 0)
    main = ModuleType("__main__")
    main.__spec__ = ModuleSpec("pyspark.daemon", loader=None)
    monkeypatch.setitem(sys.modules, "__main__", main)


@pytest.mark.usefixtures("in_a_worker")
def test_a_worker_leaves_what_it_has_imported_alone() -> None:
    leave_imports_alone()
    assert gc.get_freeze_count()


@pytest.mark.usefixtures("in_a_worker")
def test_so_does_the_worker_that_only_makes_a_source() -> None:
    PermitflowDataSource({})
    assert gc.get_freeze_count()


@pytest.mark.usefixtures("in_a_worker")
def test_what_is_imported_later_is_left_alone_later(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_imports_alone()
    gc.unfreeze()
    monkeypatch.setitem(sys.modules, "imported_later", ModuleType("imported_later"))
    leave_imports_alone()
    assert gc.get_freeze_count()


@pytest.mark.usefixtures("in_a_worker")
@pytest.mark.parametrize("plan", ["reader", "streamReader"])
def test_planning_does_so(plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = PermitflowDataSource({"address": "127.0.0.1:1", "stream": "orders", "channels": "2"})
    # Spark plans in another worker than the one that has made the source.
    monkeypatch.setattr("permitflow.spark.reused_worker._Known.modules", 0)
    gc.unfreeze()
    getattr(source, plan)(StructType())
    assert gc.get_freeze_count()


@pytest.mark.usefixtures("in_a_worker")
def test_what_comes_later_is_looked_at_however_often_it_is_asked() -> None:
    leave_imports_alone()
    frozen = gc.get_freeze_count()
    later: list[list[object]] = [[] for _ in range(100)]
    leave_imports_alone()
    assert gc.get_freeze_count() <= frozen
    assert len(later) == 100


def test_elsewhere_nothing_changes() -> None:
    leave_imports_alone()
    assert not gc.get_freeze_count()
