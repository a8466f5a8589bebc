"""How channels are named."""

from permitflow.errors import InvalidParametersError

__all__ = ["stream_channels"]


def stream_channels(name: str, count: int) -> tuple[str, ...]:
    """Names of the channels of a stream that is cut into ``count`` partitions: name/0, name/1, …

    Raises:
        InvalidParametersError: there must be at least one channel.
    """
    if count < 1:
        raise InvalidParametersError(name="channels", value=count, rule="must be at least 1")
    return tuple(f"{name}/{position}" for position in range(count))
