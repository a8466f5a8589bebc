"""The durable store of an exchange cannot be used, or cannot write."""

from permitflow.errors.base import PermitflowError

__all__ = [
    "StoreError",
    "StoreInUseError",
    "StoreLeftoverError",
    "StoreMismatchError",
    "StoreUnusableError",
    "StoreWriteError",
]


class StoreError(PermitflowError):
    """Where an exchange keeps its rows does not do what it should."""


class StoreInUseError(StoreError):
    """Another exchange has it open: two of them would forget each other's rows."""

    path: str

    def __init__(self, *, path: str) -> None:
        """``path`` is the store's folder."""
        super().__init__(
            f"the store {path} is in use by another exchange: stop that one, or take another folder", path=path
        )


class StoreUnusableError(StoreError):
    """It is no store, or a newer release's, or damaged, or lacks what it confirmed.  Nothing in it was changed."""

    path: str
    reason: str

    def __init__(self, *, path: str, reason: str) -> None:
        """``path`` is the file or folder, ``reason`` says what is wrong with it and what to do."""
        super().__init__(f"{path} cannot be used as a store: {reason}", path=path, reason=reason)


class StoreLeftoverError(StoreError):
    """The store holds channels that the exchange is not to serve: nobody could read their rows."""

    path: str
    channels: tuple[str, ...]

    def __init__(self, *, path: str, channels: tuple[str, ...]) -> None:
        """``channels`` are those that nobody has asked for."""
        names = ", ".join(map(repr, channels[:20])) + (", …" if len(channels) > 20 else "")
        super().__init__(
            f"the store {path} has kept channels that are not to be served: {names}; name their streams as well, "
            "or take another folder",
            path=path,
            channels=channels,
        )


class StoreMismatchError(StoreError):
    """The store holds a channel, but not as the exchange was told to serve it.  Nothing in it was changed."""

    path: str
    channel: str
    what: str
    stored: str
    given: str

    def __init__(self, *, path: str, channel: str, what: str, stored: str, given: str) -> None:
        """``what`` differs, as in "row permits": it is one thing in the store, and another one was asked for."""
        super().__init__(
            f"channel {channel!r} was stored in {path} with {what} {stored}, and is now to have {given}: "
            "go on as it was stored, or take another folder",
            path=path,
            channel=channel,
            what=what,
            stored=stored,
            given=given,
        )


class StoreWriteError(StoreError):
    """Something could not be written: a full disk, or a broken one.  What was confirmed before is safe."""

    path: str
    reason: str

    def __init__(self, *, path: str, reason: str) -> None:
        """``reason`` is the database's own, as in "database or disk is full"."""
        super().__init__(
            f"the exchange cannot write to its store {path}: {reason}; "
            "what it has confirmed is safe, what was being written is not: send that again once the disk works",
            path=path,
            reason=reason,
        )
