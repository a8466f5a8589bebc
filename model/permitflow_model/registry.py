"""The protocols of this repository, each with its system, theorems and recorded runs.

A specification has a model if a file of this package is named after its module: ``some_protocol.py`` says what
``spec/some_protocol/SomeProtocol.tla`` says.  At its end the file registers the protocol's parts as ``REGISTERED``; no
other file names them.  A large specification extends modules that are its parts; each has a file of its own, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Any

from permitflow_model.kernel.system import System
from permitflow_model.manifest import module_paths
from permitflow_model.tla_values import snake_case


@dataclass(frozen=True, kw_only=True)
class Registered:
    """A protocol and its parts.

    Objects of other packages are given by name, "package.module:name", and imported on first use: a model needs neither
    solvers nor recordings.  An empty name means none.
    """

    system: System[Any, Any]
    parameters: Callable[..., Any]
    """Takes the constants, named as in Python; raises ``ValueError`` for those that the specification refuses."""

    probes: str = ""
    """The TLA+ module with the system's probes, if they have one of their own."""

    steps: str = ""
    """The TLA+ module that says what steps recorded events are; empty: each is the action of its name."""

    theorems: str = ""
    """A function without arguments that returns them."""

    flow: str = ""
    """The protocol's name in recordings."""

    def load_theorems(self) -> tuple[Any, ...]:
        """Its theorems, in the order in which they build on each other; none if it has none.

        Raises:
            ImportError: a package that they need is not installed.
        """
        return tuple(resolve_name(self.theorems)()) if self.theorems else ()


@cache
def systems() -> Mapping[str, Registered]:
    """All protocols that have a model, by the TLA+ module that says the same.

    Raises:
        ManifestError: there is no specification.
    """
    found = {}
    for name in sorted(module_paths()):
        file = f"permitflow_model.{snake_case(name)}"
        registered = getattr(import_module(file), "REGISTERED", None) if find_spec(file) else None
        if registered is not None:
            found[name] = registered
    return found


def system_of(module: str) -> Registered | None:
    """The system of a TLA+ module, or of one with probes or mistakes; None if only TLC can read the module."""
    names = (module, module.removesuffix("Mistakes"))
    return next((each for name, each in systems().items() if name in names or module == each.probes), None)


def recorded_as(flow: str) -> Registered | None:
    """The protocol with this name in recordings; None if this repository has none."""
    return next((each for each in systems().values() if flow and each.flow == flow), None)
