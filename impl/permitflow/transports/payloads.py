"""What a message carries on the wire."""

from typing import TypeAlias

__all__ = ["Marker", "Payload"]

Marker: TypeAlias = int | float | str | bytes | None
"""What a barrier or watermark carries."""

Payload: TypeAlias = bytes | Marker
"""A chunk's bytes, or what a barrier or watermark carries."""
