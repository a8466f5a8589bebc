"""On what a run was made: enough to compare, nothing that names the machine."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

__all__ = ["describe_machine"]

PACKAGES = ("pyarrow", "grpcio", "protobuf", "rsocket", "anyio")
_CPU_INFO = Path("/proc/cpuinfo")


def describe_machine() -> dict[str, str]:
    """Cores, processor, memory, kernel, and versions."""
    return {
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "load at the start": f"{os.getloadavg()[0]:.1f}",
        "Python": platform.python_version(),
    } | {name: found for name in PACKAGES if (found := _version(name))}


def _processor() -> str:
    if not _CPU_INFO.exists():
        return platform.processor()
    facts = dict(line.split(":", 1) for line in _CPU_INFO.read_text().splitlines() if ":" in line)
    stripped = {name.strip(): value.strip() for name, value in facts.items()}
    return stripped.get("model name", platform.machine())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
