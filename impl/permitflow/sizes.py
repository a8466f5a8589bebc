"""Sizes as people write them: ``16MiB``."""

import re

UNITS = {"B": 1, "kB": 10**3, "KiB": 1 << 10, "MB": 10**6, "MiB": 1 << 20, "GB": 10**9, "GiB": 1 << 30, "TiB": 1 << 40}
"""The bytes of each unit."""

_SIZE = re.compile(r"(\d[\d_]*\.?\d*)\s*([A-Za-z]+)")


def size(text: str) -> int:
    """Bytes of a size with its unit.

    Raises:
        ValueError: says what would be right.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or found[2] not in UNITS:
        raise ValueError(f'must be a size with its unit, as in "16MiB" ({", ".join(UNITS)})')
    size_bytes = float(found[1]) * UNITS[found[2]]
    if size_bytes >= 2**63:
        raise ValueError("must be below 2**63 bytes")
    return int(size_bytes)
