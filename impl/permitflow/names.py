"""What an exchange asks of names, and the names of a stream's channels."""

from collections import Counter
from collections.abc import Iterable, Sequence

from permitflow.errors import InvalidParametersError, printable, shortened

MOST_NAME_CHARACTERS = 200
"""An exchange may keep a name for the lifetime of the channel."""

_MOST_DIGITS = 9  # of a position in a stream


def require_name(name: str, value: str) -> None:
    """Refuse a name that is too long; ``name`` is the parameter's name.

    Raises:
        InvalidParametersError: the name has more than 200 characters.
    """
    if len(value) > MOST_NAME_CHARACTERS:
        rule = f"must have at most {MOST_NAME_CHARACTERS} characters"
        raise InvalidParametersError(name=name, value=f"{value[:MOST_NAME_CHARACTERS]}…", rule=rule)


def told(text: str, most_characters: int = MOST_NAME_CHARACTERS) -> str:
    """What an exchange has told, in one line; what is longer than any name of ours is cut."""
    return printable(shortened(text, most_characters))


def require_once_each(channels: Iterable[str]) -> None:
    """Refuse a request that names a channel twice.

    Raises:
        InvalidParametersError: it does.
    """
    for name, count in Counter(channels).items():
        if count > 1:
            raise InvalidParametersError(name="channels", value=name, rule="must not name one twice")


def stream_channels(name: str, count: int) -> tuple[str, ...]:
    """The names of a stream's channels, one for each of ``count`` partitions: name/0, name/1, …

    Raises:
        InvalidParametersError: ``count`` is below 1.
    """
    if count < 1:
        raise InvalidParametersError(name="channels", value=count, rule="must be at least 1")
    return tuple(f"{name}/{position}" for position in range(count))


def stream_and_position(channel: str) -> tuple[str, int] | None:
    """The stream of a channel, and which of its channels it is; None if its name is not like those of a stream."""
    stream, _, number = channel.rpartition("/")
    if not stream or not number.isascii() or not number.isdigit() or len(number) > _MOST_DIGITS:
        return None
    return (stream, int(number)) if str(int(number)) == number else None


def require_no_further(channel: str, known: Iterable[str], channels: int) -> None:
    """Require that the stream of a channel has no others than the first ones.

    Args:
        channel: one of them.
        known: the names of all channels that there are.
        channels: over how many rows are spread.

    Raises:
        InvalidParametersError: it has, or the channel is not one of these.
    """
    place = stream_and_position(channel)
    if place is None or place[1] >= channels:
        rule = f"must be one of the {channels} channels over which rows are spread"
        raise InvalidParametersError(name="channel", value=channel, rule=rule)
    others = [each for each in map(stream_and_position, known) if each is not None and each[0] == place[0]]
    stream, last = max(others, default=place)
    if last >= channels:
        rule = (
            f"must be at least {last + 1}, because the exchange has {stream}/{last}: spread over fewer channels, "
            "rows come to where nobody looks for their key"
        )
        raise InvalidParametersError(name="channels", value=channels, rule=rule)


def spread_over(channels: Sequence[str]) -> int:
    """The number of channels over which rows are spread, for ``put``: the exchange refuses if their stream has more.

    0: they are not the first channels of a stream.
    """
    stream = channels[0].rpartition("/")[0] if channels else ""
    return len(channels) if channels and (*channels,) == stream_channels(stream, len(channels)) else 0
