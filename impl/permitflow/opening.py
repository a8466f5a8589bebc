"""Packages whose names are imported on first use, because importing all of them takes long or needs an extra."""

from collections.abc import Callable, Collection, Mapping
from importlib import import_module

__all__ = ["opening"]


def opening(package: str, places: Mapping[str, Collection[str]]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package.

    Args:
        package: its ``__name__``.
        places: names by the module that defines them, relative to the package.  A name that equals its module's name
            cannot be among them: the import system would replace it by the module.
    """
    module_of = {name: module for module, names in places.items() for name in names}

    def find(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    return find
