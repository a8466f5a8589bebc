"""Write docs/reference/api.md, or the named file: the doors, and the names behind each.

A test compares docs/reference/api.md with what this would write.  The site has a page for each door, with docstrings.
"""

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from types import ModuleType

from permitflow.errors import PermitflowError

DOCUMENT = Path(__file__).resolve().parent.parent / "docs/reference/api.md"

MODULES = {
    "permitflow": "",
    "permitflow.client": "grpc",
    "permitflow.client.blocking": "grpc",
    "permitflow.client.blocking_dispatch": "grpc",
    "permitflow.dispatch": "grpc",
    "permitflow.exchange": "grpc",
    "permitflow.kafka": "kafka",
    "permitflow.metrics": "metrics",
    "permitflow.spark": "spark",
    "permitflow.stages": "",
    "permitflow.stages.blueprint": "",
    "permitflow.stages.calls": "grpc",
    "permitflow.reactive": "",
    "permitflow.mute": "",
    "permitflow.tracing": "",
    "permitflow.flows.seam": "",
    "permitflow_testing": "testing",
    "permitflow_tools.checking": "proofs",
    "permitflow_tools.simulation": "",
    "permitflow_tools.explain.own": "",
    "permitflow_model.kernel.system": "",
    "permitflow_model.kernel.explore": "",
    "permitflow_model.kernel.liveness": "",
    "permitflow_model.kernel.replay": "",
}
"""The doors, in reading order; with the extra that each needs."""

ONLY = {"permitflow_tools.explain.own": ["own_page"]}
"""The names that users need of otherwise internal modules."""

HEAD = """# What can be imported

Written by `make docs`. These modules are the doors: what is not behind one of them may move. `help(name)` tells the
rest: units, defaults, errors raised, what cancellation leaves behind. The site that `make docs` builds has a page for
each door. All errors stand at the end; they are importable from `permitflow.errors`.
"""


def reference() -> str:
    """The whole page."""
    sections = [part for name in MODULES for part in _section(importlib.import_module(name))]
    return "\n".join([HEAD, *sections, *_errors(importlib.import_module("permitflow.errors"))])


def _section(module: ModuleType) -> Iterator[str]:
    extra = MODULES[module.__name__]
    needs = f" Needs `permitflow[{extra}]`." if extra and "eeds permitflow[" not in _first_line(module) else ""
    names = ONLY.get(module.__name__) or module.__all__
    yield f"## {module.__name__}\n"
    yield fill(_first_line(module) + needs, 120) + "\n"
    yield _list(name for name in names if not _is_error(getattr(module, name)))


def _errors(module: ModuleType) -> Iterator[str]:
    yield "## permitflow.errors\n"
    yield fill(_first_line(module), 120) + "\n"
    yield _list(sorted(name for name, value in vars(module).items() if _is_error(value)))


def _list(names: Iterator[str] | list[str]) -> str:
    return fill(", ".join(f"`{name}`" for name in names), 120, break_on_hyphens=False) + "\n"


def _first_line(value: object) -> str:
    text = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return " ".join(text.split()).replace("``", "`")


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, PermitflowError)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCUMENT
    target.write_text(reference(), encoding="utf-8")
