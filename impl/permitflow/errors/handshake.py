"""The two ends could not agree, and no stream began."""

from permitflow.errors.base import PermitflowError

__all__ = [
    "ChannelBusyError",
    "ChannelSpentError",
    "HandshakeError",
    "ParameterMismatchError",
    "SameHostError",
    "SchemaMismatchError",
    "UnknownChannelError",
    "VersionMismatchError",
]


class HandshakeError(PermitflowError):
    """The two ends could not agree; no stream began."""


class UnknownChannelError(HandshakeError):
    """The exchange has no such channel."""

    channel: str
    known: tuple[str, ...]

    def __init__(self, *, channel: str, known: tuple[str, ...] = ()) -> None:
        """``known`` lists the channels that exist."""
        names = ", ".join(known[:20]) + (", …" if len(known) > 20 else "") if known else "none"
        super().__init__(f"unknown channel {channel!r}; known channels: {names}", channel=channel, known=known)


class ChannelBusyError(HandshakeError):
    """The channel has a consumer already, and serves one at a time."""

    channel: str
    consumer: str

    def __init__(self, *, channel: str, consumer: str) -> None:
        """``consumer`` is whoever reads the channel now."""
        super().__init__(
            f"channel {channel!r} is being read by {consumer}; one consumer at a time",
            channel=channel,
            consumer=consumer,
        )


class ChannelSpentError(HandshakeError):
    """The channel's data are gone: somebody has read them, or was to read them and left."""

    channel: str

    def __init__(self, *, channel: str, reason: str) -> None:
        """``reason`` says who, as in "it was read to its end by …"."""
        super().__init__(
            f"channel {channel!r} cannot be read any more: {reason}; a channel is read once",
            channel=channel,
            reason=reason,
        )


class VersionMismatchError(HandshakeError):
    """The peer speaks another version of the protocol."""

    def __init__(self, *, ours: int, theirs: int) -> None:
        """Protocol versions."""
        super().__init__(f"the peer speaks protocol version {theirs}, this end {ours}", ours=ours, theirs=theirs)


class SchemaMismatchError(HandshakeError):
    """The peer's schema differs from the channel's."""

    def __init__(self, *, ours: str, theirs: str) -> None:
        """The fields in which they differ, as text."""
        super().__init__(f"schemas differ: here {ours}; at the peer {theirs}", ours=ours, theirs=theirs)


class SameHostError(HandshakeError):
    """Memory was to be shared, and cannot be."""

    reason: str

    def __init__(self, *, who: str, reason: str) -> None:
        """``who`` is the peer in words; the reason says which end refuses, and why."""
        super().__init__(f"no memory can be shared with {who}: {reason}", who=who, reason=reason)


class ParameterMismatchError(HandshakeError):
    """The two ends' parameters cannot be reconciled."""

    name: str

    def __init__(self, *, name: str, ours: object, theirs: object, rule: str) -> None:
        """``rule`` says what would be acceptable."""
        super().__init__(
            f"{name} {rule}; this end has {ours!r}, the peer {theirs!r}",
            name=name,
            ours=ours,
            theirs=theirs,
            rule=rule,
        )
