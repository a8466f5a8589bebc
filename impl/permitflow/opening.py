"""Packages whose names are imported on first use, because importing all of them takes long, or that need an extra."""

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from importlib.util import find_spec


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


def require_extra(extra: str, *packages: str) -> None:
    """Say which extra is missing, before an import would say which module is.

    Raises:
        ModuleNotFoundError: one of the packages is not installed.
    """
    for package in packages:
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"{package} is not installed: pip install 'permitflow[{extra}]'", name=package)
