"""What the bytes of a message are."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | memoryview

Received: TypeAlias = Buffer
"""A received message.  A view may lie in shared memory, which the sender reuses once no object refers to it."""
