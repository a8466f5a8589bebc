"""The systems, found by their names: a new one is a new file, and no other file names it.

``spec/some_protocol/SomeProtocol.tla`` and ``some_protocol.py`` say the same; the file defines ``Parameters`` and
``SYSTEM``, whose module is SomeProtocol.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from permitflow_model.kernel.system import System
from permitflow_model.manifest import module_paths
from permitflow_model.tla_values import snake_case

__all__ = ["Registered", "counterpart", "system_of", "systems"]

_PROBES = "Probes"


@dataclass(frozen=True)
class Registered:
    """A system, and what belongs to it."""

    system: System[Any, Any]
    parameters: Callable[..., Any]
    """Takes the constants, named as in Python; raises ``ValueError`` for those that the specification refuses."""


def counterpart(package: str, module: str) -> ModuleType | None:
    """The module of a package that is named after a TLA+ module, if there is one."""
    name = f"{package}.{snake_case(module)}"
    return import_module(name) if find_spec(name) else None


@cache
def systems() -> Mapping[str, Registered]:
    """All systems by the TLA+ module that says the same.

    Raises:
        ManifestError: there is no specification.
    """
    found = {}
    for name in sorted(module_paths()):
        module = counterpart("permitflow_model", name)
        if module is not None and getattr(getattr(module, "SYSTEM", None), "module", None) == name:
            found[name] = Registered(module.SYSTEM, module.Parameters)
    return found


def system_of(module: str) -> Registered | None:
    """What says the same as a TLA+ module; None if only TLC can read it.  Probes belong to their system."""
    return systems().get(module.removesuffix(_PROBES))
