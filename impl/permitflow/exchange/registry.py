"""The channels of an exchange by their names."""

import pyarrow as pa

from permitflow.channels.names import stream_channels
from permitflow.errors import InvalidParametersError, UnknownChannelError
from permitflow.exchange.bridge_channel import BridgeChannel
from permitflow.exchange.readiness import Readiness
from permitflow.exchange.statistics import BridgeStatistics
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.transports.same_host import SameHost

__all__ = ["Exchange", "stream_channels"]


class Exchange:
    """Named channels, each a bridge from producers to a consumer.  For one event loop."""

    def __init__(
        self,
        *,
        parameters: ChannelParameters | None = None,
        record: RecorderFactory | None = None,
        same_host: SameHost = SameHost.AUTO,
    ) -> None:
        """Start without channels.

        Args:
            parameters: of channels that are added without parameters of their own.
            record: opens the recorders of all ends inside the exchange: the two of each channel, and one of each
                stream that a producer or consumer opens.
            same_host: whether to share memory with those that run on this host.
        """
        self._parameters = parameters or ChannelParameters()
        self._channels: dict[str, BridgeChannel] = {}
        self.record = record
        self.same_host = same_host
        self.readiness = Readiness()

    def add_channel(
        self, name: str, parameters: ChannelParameters | None = None, schema: pa.Schema | None = None
    ) -> BridgeChannel:
        """Add a channel.

        Args:
            name: unique among the channels of this exchange.
            parameters: of the channel, and the most that is granted to each stream of it.
            schema: of its chunks; by default that of the first producer.

        Raises:
            InvalidParametersError: the name is empty, or taken.
        """
        if not name:
            raise InvalidParametersError(name="channel", value=name, rule="must not be empty")
        if name in self._channels:
            raise InvalidParametersError(name="channel", value=name, rule="must be a name that is not in use")
        channel = BridgeChannel(name, parameters or self._parameters, schema, self.record)
        self._channels[name] = channel
        return channel

    def remove_channel(self, name: str) -> None:
        """Forget a channel, so that its name is free; producers and consumers that are connected get an error.

        Raises:
            UnknownChannelError: there is none of this name.
        """
        self.channel(name).abort("it was removed from the exchange")
        del self._channels[name]

    def channel(self, name: str) -> BridgeChannel:
        """The channel of this name.

        Raises:
            UnknownChannelError: there is none.
        """
        try:
            return self._channels[name]
        except KeyError:
            raise UnknownChannelError(channel=name, known=tuple(self._channels)) from None

    def statistics(self) -> tuple[BridgeStatistics, ...]:
        """What has happened so far, channel by channel in the order in which they were added."""
        return tuple(channel.statistics() for channel in self._channels.values())
