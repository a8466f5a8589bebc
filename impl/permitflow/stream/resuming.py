"""What the two ends of a stream tell each other so that it survives its connection: values as they travel.

``ResumeOffer`` and ``ResumeAnswer`` are parts of the handshake.  The others are frames of a connection, not of the
stream: they travel alone, and only ``HalfClose`` counts among the stream's messages.  A position counts the messages
of one direction from the beginning of the stream.
"""

from typing import NamedTuple, TypeAlias

TOKEN_BYTES = 16
"""As many as nobody can guess."""


class ResumeOffer(NamedTuple):
    """The dialler would go on over another connection if this one is lost."""

    token: bytes
    """The token of this stream alone: ``TOKEN_BYTES`` that nobody can guess."""
    seconds: float
    """How long the dialler will try after each cut."""


class ResumeAnswer(NamedTuple):
    """The acceptor's answer to a ``ResumeOffer``."""

    seconds: float
    """How long it will wait after each cut; 0: not at all."""


class Resume(NamedTuple):
    """The first frame of a dialler that goes on with its stream over this connection."""

    token: bytes
    attempt: int
    """It counts up with each new connection: an older one that comes later is refused."""
    received: int
    """The position of the acceptor's messages: all before it are acknowledged."""


class Resumed(NamedTuple):
    """The acceptor's answer: the stream goes on over this connection."""

    received: int
    """The position of the dialler's messages."""


class Acknowledged(NamedTuple):
    """The messages before this position have come."""

    received: int


class HalfClose(NamedTuple):
    """No message of the dialler follows."""


class Leave(NamedTuple):
    """The dialler leaves before the end of the stream, and will not come again."""


ConnectionFrame: TypeAlias = Resume | Resumed | Acknowledged | HalfClose | Leave
