"""Finds the ways: every module of this folder that has ``WAYS``."""

import importlib
import pkgutil
from functools import cache

import benchmarks.peers
from benchmarks.peers.way import Group, Way

__all__ = ["find_ways", "load_ways"]

_NO_PEERS = ("registry", "way")
_ORDER = list(Group)


def load_ways(module_name: str) -> tuple[Way, ...]:
    """The ways of one module; loads nothing else, since each process needs only its own libraries."""
    module = importlib.import_module(f"benchmarks.peers.{module_name}")
    ways: tuple[Way, ...] = getattr(module, "WAYS", ())
    return ways


@cache
def find_ways() -> tuple[dict[str, tuple[str, Way]], dict[str, str]]:
    """All ways by name, each with its module; and the modules that cannot be loaded, each with the reason."""
    found: list[tuple[str, Way]] = []
    skipped: dict[str, str] = {}
    for module in pkgutil.iter_modules(benchmarks.peers.__path__):
        if module.name in _NO_PEERS:
            continue
        try:
            found += [(module.name, way) for way in load_ways(module.name)]
        except ModuleNotFoundError as missing:
            skipped[module.name] = f"needs {missing.name}: pip install 'permitflow[bench]'"
    found.sort(key=lambda item: _ORDER.index(item[1].group))
    return {way.name: (module, way) for module, way in found}, skipped
