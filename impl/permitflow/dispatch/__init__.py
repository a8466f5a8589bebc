"""One stream over several channels: each row goes to the channel of its key, and each barrier to all of them.

A key belongs to one of 256 virtual nodes, and each node to a channel: ``spread`` and ``vnode_of`` tell which.
``permitflow.client.dispatch`` opens the channels of an exchange.  Needs ``permitflow[grpc]``.
"""

from permitflow.dispatch.dispatcher import HashDispatcher
from permitflow.dispatch.keys import Splitter, rows_by_key, vnode_of
from permitflow.dispatch.mapping import VNODES, spread

__all__ = ["VNODES", "HashDispatcher", "Splitter", "rows_by_key", "spread", "vnode_of"]
