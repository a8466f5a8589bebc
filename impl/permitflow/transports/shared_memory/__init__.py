"""Messages between processes of one host: large ones through a ring of shared memory, all others beside it.

The ring is an anonymous file that both ends have mapped.  Descriptors and notes travel over a Unix socket.
"""

from enum import StrEnum

__all__ = ["SameHost"]


class SameHost(StrEnum):
    """Whether processes of one host share memory: the user's choice.  Loads neither gRPC nor Arrow."""

    AUTO = "auto"
    """If they can."""
    NEVER = "never"
    """All goes over the network's own stream."""
    REQUIRE = "require"
    """Or the stream is refused."""
