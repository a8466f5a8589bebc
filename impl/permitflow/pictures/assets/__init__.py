"""The files that pages and drawings are made of."""

from importlib.resources import files

__all__ = ["asset"]


def asset(name: str) -> str:
    """The text of one of them."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
