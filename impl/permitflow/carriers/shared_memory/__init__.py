"""Messages between processes of one host: large ones through a ring of shared memory, small ones over a Unix socket.

The ring is an anonymous file that both ends map.
"""

from enum import StrEnum


class SameHost(StrEnum):
    """Whether processes of one host share memory."""

    AUTO = "auto"
    """If possible, otherwise use the network stream."""
    NEVER = "never"
    """Use the network stream only."""
    REQUIRE = "require"
    """Refuse the stream if memory cannot be shared."""
