"""Named channels between producers and consumers: read once, or kept until every consumer has acknowledged them.

``registry`` has the channels by their names, ``channels`` their kinds, ``books`` their ledgers, ``stores`` what keeps
rows.  ``server`` listens, and ``serving`` answers whoever has dialled.

Needs permitflow[grpc].  Names are loaded on first use: the command line needs a few of them, and must start at once.
"""

from typing import TYPE_CHECKING

import permitflow.wire  # noqa: F401  # sets what gRPC reads when it is loaded
from permitflow.names import stream_channels
from permitflow.opening import opening

if TYPE_CHECKING:
    from permitflow.carriers.security import Security
    from permitflow.exchange.access import AccessControl
    from permitflow.exchange.books.bridge import BridgeState
    from permitflow.exchange.channels.bridge_channel import BridgeChannel
    from permitflow.exchange.channels.replay_channel import ReplayChannel
    from permitflow.exchange.draining import drain
    from permitflow.exchange.limits import Limits
    from permitflow.exchange.registry import Exchange, Keeping
    from permitflow.exchange.server import ExchangeServer
    from permitflow.exchange.stores.postgres import PostgresStore
    from permitflow.exchange.stores.sqlite import SqliteStore
    from permitflow.exchange.stores.store import ChannelStore, Store
    from permitflow.stream.control import Retention
    from permitflow.stream.traffic import ChannelTraffic

__all__ = [
    "AccessControl",
    "BridgeChannel",
    "BridgeState",
    "ChannelStore",
    "ChannelTraffic",
    "Exchange",
    "ExchangeServer",
    "Keeping",
    "Limits",
    "PostgresStore",
    "ReplayChannel",
    "Retention",
    "Security",
    "SqliteStore",
    "Store",
    "drain",
    "stream_channels",
]

_ON_FIRST_USE = {
    "access": ("AccessControl",),
    "books.bridge": ("BridgeState",),
    "books.kept_barriers": ("Retention",),
    "channels.bridge_channel": ("BridgeChannel",),
    "channels.replay_channel": ("ReplayChannel",),
    "draining": ("drain",),
    "limits": ("Limits",),
    "registry": ("ChannelTraffic", "Exchange", "Keeping"),
    "server": ("ExchangeServer", "Security"),
    "stores.postgres": ("PostgresStore",),
    "stores.sqlite": ("SqliteStore",),
    "stores.store": ("ChannelStore", "Store"),
}

if not TYPE_CHECKING:
    __getattr__ = opening(__name__, _ON_FIRST_USE)
