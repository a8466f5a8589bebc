"""Which channel has which virtual node; sans-IO.

A key has a virtual node for ever (``keys.py``); a channel has some of the nodes.  When channels are added, nodes move
to the new ones only, and as few as make the shares equal.  Everybody who knows the number of channels knows the
mapping: two upstreams of a join agree without a message.
"""

from permitflow.errors import InvalidParametersError

VNODES = 256
"""RisingWave's number: a stream has at most this many channels, and shares of few channels differ by a percent."""


def spread(channels: int, vnodes: int = VNODES) -> tuple[int, ...]:
    """The channel of each virtual node, for this many channels.

    Raises:
        InvalidParametersError: there is no channel, or there are more channels than virtual nodes.

    Spec: Spread of HashDispatch.
    """
    return grown((0,) * require_channels(1, vnodes), channels)


def grown(owners: tuple[int, ...], channels: int) -> tuple[int, ...]:
    """The same mapping once there are ``channels`` channels: each new one takes its share of the others.

    Channel n, one after the other, gets ``len(owners) // (n + 1)`` nodes.  Each comes from the channel that has the
    most (of several from that with the lowest number), which gives its highest node.

    Raises:
        InvalidParametersError: there would be fewer channels than before, or more than virtual nodes.

    Spec: Grown of HashDispatch.
    """
    before = max(owners) + 1
    require_channels(channels, len(owners), least=before)
    owned = [[node for node, owner in enumerate(owners) if owner == channel] for channel in range(before)]
    for new in range(before, channels):
        owned.append(sorted(max(owned[:new], key=len).pop() for _ in range(len(owners) // (new + 1))))
    owner_of = {node: channel for channel, nodes in enumerate(owned) for node in nodes}
    return tuple(owner_of[node] for node in range(len(owners)))


def require_channels(channels: int, vnodes: int, *, least: int = 1) -> int:
    """Check a number of channels; return ``vnodes``.

    Raises:
        InvalidParametersError: there are fewer than ``least`` channels, or more than virtual nodes.
    """
    if not least <= channels <= vnodes:
        rule = f"must be from {least} to {vnodes}, the number of virtual nodes, to spread rows by a key"
        raise InvalidParametersError(name="channels", value=channels, rule=rule)
    return vnodes
