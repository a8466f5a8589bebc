"""Whose move an action is."""

__all__ = ["ACTORS", "actor_of"]

# Nobody decides on the network's moves; the others are where the specification's sections put them.
ACTORS = {
    "OfferChunk": "producer",
    "OfferBarrier": "producer",
    "OfferWatermark": "producer",
    "WithdrawChunk": "producer",
    "WithdrawBarrier": "producer",
    "SendChunk": "sender",
    "SendBarrier": "sender",
    "SendWatermark": "sender",
    "AddPermits": "sender",
    "Deliver": "network",
    "Consume": "consumer",
    "Flush": "receiver",
}


def actor_of(action: str) -> str:
    """Who performs an action.

    Raises:
        KeyError: the specification has no such action.
    """
    return ACTORS[action]
