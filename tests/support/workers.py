"""Processes that work for this one."""

import psutil

__all__ = ["workers"]


def workers() -> set[psutil.Process]:
    """Those that this process has, whoever has started them: compare sets."""
    return {child for child in psutil.Process().children() if _is_worker(child)}


def _is_worker(child: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(child.cmdline())
    except psutil.Error:  # a child of another test, which has ended
        return False
