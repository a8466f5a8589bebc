"""A worker that Spark uses again does not look for garbage among its imports, and no other process is changed."""

import gc
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from permitflow.spark import PermitflowDataSource


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    gc.unfreeze()  # the tests' own heap, which is frozen after their collection
    yield
    gc.collect()
    gc.freeze()


def test_a_worker_does_not_touch_what_it_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    main.__spec__ = ModuleSpec("pyspark.daemon", loader=None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr("permitflow.spark.reused_worker._Known.modules", 0)
    PermitflowDataSource({})
    frozen = gc.get_freeze_count()
    later: list[list[object]] = [[] for _ in range(100)]
    PermitflowDataSource({})
    assert 0 < gc.get_freeze_count() <= frozen, "what comes later is looked at, however often it is asked"
    assert len(later) == 100
    gc.unfreeze()
    monkeypatch.setitem(sys.modules, "imported_later", ModuleType("imported_later"))
    PermitflowDataSource({})
    assert gc.get_freeze_count()


def test_elsewhere_nothing_changes() -> None:
    PermitflowDataSource({})
    assert not gc.get_freeze_count()
