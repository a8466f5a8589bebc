"""Write docs/reference/api.md, or the named file: every public name, with the first line of its docstring.

A test compares docs/reference/api.md with what this would write.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import get_args

from pyspark.sql.datasource import DataSource

from permitflow.errors import PermitflowError

# Their docstrings refer to `SendEnd` and `ReceiveEnd`, which are listed already.
_TOLD_ELSEWHERE = re.compile(r"\b[Ss]ee `\w+`")

# The further methods of the ends of a remote stream.
ADDED = {
    "RemoteReceiver": ("receive_joined", "take_joined"),
    "RemoteSender": ("end", "first_row"),
    "ExchangeListener": ("write",),
}

DOCUMENT = Path(__file__).resolve().parent.parent / "docs/reference/api.md"

# The doors, in reading order; with the extra that each needs.
MODULES = {
    "permitflow": "",
    "permitflow.client": "grpc",
    "permitflow.client.blocking": "grpc",
    "permitflow.exchange": "grpc",
    "permitflow.metrics": "metrics",
    "permitflow.spark": "spark",
    "permitflow.stages": "",
    "permitflow.stages.calls": "grpc",
    "permitflow.reactive": "",
    "permitflow.mute": "",
    "permitflow.tracing": "",
    "permitflow.flows.seam": "",
    "permitflow_testing": "testing",
    "permitflow_tools.checking": "proofs",
    "permitflow_tools.explain.own": "",
    "permitflow_model.kernel.system": "",
    "permitflow_model.kernel.explore": "",
    "permitflow_model.kernel.liveness": "",
    "permitflow_model.kernel.replay": "",
}

# Of otherwise internal modules, the names that users need.
ONLY = {
    "permitflow_tools.explain.own": "own_page",
}


def reference() -> str:
    parts = [
        "# What can be imported",
        "Written by `make docs` from the first lines of docstrings; `help(name)` tells the rest: units, defaults,\n"
        "errors raised, what cancellation leaves behind. All errors stand at the end. What is not here may move;\n"
        "import these names from the modules named here, the doors:",
        "\n".join(["| Door | | Extra |", "|---|---|---|", *map(_door, MODULES)]),
    ]
    for name, extra in MODULES.items():
        parts += _section(importlib.import_module(name), extra)
    parts += _errors(importlib.import_module("permitflow.errors"))
    return "\n\n".join(parts) + "\n"


def _door(name: str) -> str:
    """A line of the table of doors."""
    extra = MODULES[name]
    link = f"[`{name}`](#{name.replace('.', '')})"
    return f"| {link} | {_first_line(importlib.import_module(name))} | {f'`{extra}`' if extra else ''} |"


def _section(module: ModuleType, extra: str) -> Iterator[str]:
    yield f"## {module.__name__}"
    needs = f" Needs `permitflow[{extra}]`." if extra and "eeds permitflow[" not in _first_line(module) else ""
    yield _first_line(module) + needs
    names = ONLY[module.__name__].split() if module.__name__ in ONLY else module.__all__
    rows = [row for name in names for row in _rows(name, getattr(module, name))]
    yield "\n".join(["| Name | |", "|---|---|", *rows])


def _rows(name: str, value: object) -> Iterator[str]:
    """A name, and the methods of its class, if it has any."""
    if isinstance(value, type) and issubclass(value, PermitflowError):
        return
    yield _row(f"{name}{_signature(value)}", value)
    if not isinstance(value, type) or is_dataclass(value) or issubclass(value, tuple | Enum | DataSource):
        return
    told = _TOLD_ELSEWHERE.search(_first_line(value))
    for method, member in _methods(value):
        if not told or method in ADDED.get(name, ()):
            yield _row(f".{method}{_signature(member)}", member)


def _methods(owner: type) -> Iterator[tuple[str, object]]:
    """The members that this package defines for a class and its bases, each once, in source order."""
    seen: set[str] = set()
    for base in owner.__mro__:
        if not base.__module__.startswith("permitflow"):
            continue
        for name, member in vars(base).items():
            is_told = isinstance(member, property) or inspect.isfunction(getattr(member, "__func__", member))
            if is_told and name not in seen and not name.startswith(("_", "test_")):
                seen.add(name)
                yield name, getattr(member, "__func__", member)


def _row(signature: str, value: object) -> str:
    return f"| `{signature}` | {_first_line(value).replace('|', chr(92) + '|')} |"


def _signature(value: object) -> str:
    """The names of the parameters; types and defaults are in the help."""
    if not inspect.isfunction(value):
        return ""
    words, is_keyword = [], False
    for parameter in inspect.signature(value).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            words.append("*")
            is_keyword = True
        options = get_args(parameter.annotation)  # keywords that are passed on: Unpack[...]
        is_unpacked = parameter.kind is parameter.VAR_KEYWORD and bool(options)
        words.extend(options[0].__annotations__ if is_unpacked else [parameter.name])
    return f"({', '.join(words)})"


def _first_line(value: object) -> str:
    text = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return " ".join(text.split()).replace("``", "`")


def _errors(module: ModuleType) -> Iterator[str]:
    yield "## permitflow.errors"
    yield _first_line(module)
    errors = sorted((each for each in vars(module).values() if _is_error(each)), key=lambda each: each.__name__)
    rows = [f"| `{error.__name__}` | `{error.__bases__[0].__name__}` | {_first_line(error)} |" for error in errors]
    yield "\n".join(["| Error | is a | |", "|---|---|---|", *rows])


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCUMENT
    target.write_text(reference(), encoding="utf-8")
