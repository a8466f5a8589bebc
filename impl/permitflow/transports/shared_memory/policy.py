"""The user's choice; loads neither gRPC nor Arrow."""

from enum import StrEnum

__all__ = ["SameHost"]


class SameHost(StrEnum):
    """Whether processes of one host share memory."""

    AUTO = "auto"
    """If they can."""
    NEVER = "never"
    """All goes over the network's own stream."""
    REQUIRE = "require"
    """Or the stream is refused."""
