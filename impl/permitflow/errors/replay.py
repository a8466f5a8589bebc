"""A channel that keeps its rows is asked for something that it cannot do, or does not keep them."""

from permitflow.errors.base import PermitflowError

__all__ = [
    "LogReplacedError",
    "ProducerReplacedError",
    "ReplayError",
    "RetentionError",
    "RowsForgottenError",
    "RowsNotThereError",
    "UnknownConsumerError",
]


class ReplayError(PermitflowError):
    """Rows cannot be kept, read again or acknowledged as it was asked; what the channel keeps is as it was."""


class RetentionError(ReplayError):
    """The channel does not keep its rows, or keeps nothing but rows."""

    channel: str
    retention: str
    rule: str

    def __init__(self, *, channel: str, retention: str, rule: str) -> None:
        """``retention`` is the channel's; the rule says what it cannot do, as in "cannot be read by ranges"."""
        super().__init__(
            f"channel {channel!r}, whose retention is {retention}, {rule}",
            channel=channel,
            retention=retention,
            rule=rule,
        )


class UnknownConsumerError(ReplayError):
    """Nobody has declared this consumer: rows that it needs may be gone already."""

    channel: str
    consumer: str
    known: tuple[str, ...]

    def __init__(self, *, channel: str, consumer: str, known: tuple[str, ...]) -> None:
        """``known`` lists the consumers for which the channel keeps rows."""
        names = ", ".join(map(repr, known[:20])) + (", …" if len(known) > 20 else "")
        super().__init__(
            f"channel {channel!r} keeps no rows for a consumer {consumer!r}; it does for: {names}",
            channel=channel,
            consumer=consumer,
            known=known,
        )


class RowsForgottenError(ReplayError):
    """The consumer has acknowledged these rows: they need not be kept any more."""

    channel: str
    wanted_row: int
    first_kept_row: int

    def __init__(self, *, channel: str, wanted_row: int, first_kept_row: int) -> None:
        """``first_kept_row`` is the first one that this consumer may still read."""
        super().__init__(
            f"row {wanted_row} of channel {channel!r} was acknowledged and is forgotten; the first row that can still "
            f"be read is {first_kept_row}",
            channel=channel,
            wanted_row=wanted_row,
            first_kept_row=first_kept_row,
        )


class RowsNotThereError(ReplayError):
    """The channel never had these rows, or has them no more since it lost all it had."""

    channel: str
    wanted_row: int
    next_row: int

    def __init__(self, *, channel: str, wanted_row: int, next_row: int) -> None:
        """``wanted_row`` is the end of what was asked for, ``next_row`` the number of the next row that will come."""
        super().__init__(
            f"channel {channel!r} has no rows up to {wanted_row}: its next one will be row {next_row}; has an "
            "exchange without a durable store started again?",
            channel=channel,
            wanted_row=wanted_row,
            next_row=next_row,
        )


class LogReplacedError(ReplayError):
    """The rows are those of another log than the one that is meant: what that one had and kept is lost."""

    channel: str
    wanted_log: str
    log: str

    def __init__(self, *, channel: str, wanted_log: str, log: str) -> None:
        """Names of logs."""
        super().__init__(
            f"channel {channel!r} has a new log, {log!r}: the rows of {wanted_log!r} are lost, and the same numbers "
            "mean other rows now; an exchange without a durable store has started again",
            channel=channel,
            wanted_log=wanted_log,
            log=log,
        )


class ProducerReplacedError(ReplayError):
    """A producer of the same name has come: it goes on where this one has got to."""

    channel: str
    producer: str
    by: str

    def __init__(self, *, channel: str, producer: str, by: str) -> None:
        """``by`` is the address of the newer one."""
        super().__init__(
            f"producer {producer!r} of channel {channel!r} was replaced by a newer one of the same name at {by}; "
            "each producer needs a name of its own",
            channel=channel,
            producer=producer,
            by=by,
        )
