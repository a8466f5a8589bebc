"""One stream over several channels: each row goes to the channel of its key, and each barrier to all of them.

A key belongs to one of 256 virtual nodes, and each node to a channel: ``spread`` and ``vnode_of`` tell which.
``permitflow.client.dispatch`` opens the channels of an exchange.  Needs ``permitflow[grpc]``.
"""

from typing import TYPE_CHECKING

from permitflow.dispatch.mapping import VNODES, spread
from permitflow.opening import opening

if TYPE_CHECKING:
    from permitflow.dispatch.dispatcher import HashDispatcher
    from permitflow.dispatch.keys import Splitter, rows_by_key, vnode_of

__all__ = ["VNODES", "HashDispatcher", "Splitter", "rows_by_key", "spread", "vnode_of"]

# A driver of Spark looks at the mapping only, and need not load Arrow for that.
_ON_FIRST_USE = {"dispatcher": ("HashDispatcher",), "keys": ("Splitter", "rows_by_key", "vnode_of")}

if not TYPE_CHECKING:
    __getattr__ = opening(__name__, _ON_FIRST_USE)
