"""Watches the traffic of an exchange's channels at intervals, without an event loop."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from permitflow.carriers.security import Security
from permitflow.client.blocking import BlockingControl
from permitflow.client.survey import Survey
from permitflow.stream.traffic import Rates, Statistics, rates_between


@dataclass(frozen=True, slots=True)
class TrafficReading:
    """The traffic at one moment."""

    at_seconds: float
    """The time by the exchange's clock."""
    flows: list[Rates]
    """The traffic of every channel since the previous look."""
    survey: Survey = field(default_factory=Survey)
    """Of several exchanges: where each channel is, and what is amiss."""

    def as_json(self) -> dict[str, object]:
        """The look as an object for one line of a file."""
        flows = [self.survey.of(flow.traffic.channel) | flow.as_json() for flow in self.flows]
        return {"at_seconds": self.at_seconds, "channels": flows, **self.survey.as_json()}


class TrafficWatch:
    """Watches channels of one exchange over one stream, dialled when needed.  For one thread."""

    def __init__(
        self,
        address: str,
        channels: Sequence[str] = (),
        *,
        timeout_seconds: float = 10.0,
        security: Security | None = None,
    ) -> None:
        """Nothing is dialled yet.

        Args:
            address: of the exchange, as for ``control``.
            channels: names; none: all channels.
            timeout_seconds: the longest wait for an answer.
            security: as for ``control``.
        """
        self._security = security
        self._address = address
        self._channels = tuple(channels)
        self._timeout_seconds = timeout_seconds
        self._control: BlockingControl | None = None
        self._before: Statistics | None = None

    def look(self) -> TrafficReading:
        """Ask now.  After an error, the next look dials again.  If there are several exchanges, one answer is enough.

        Raises:
            InvalidParametersError: the address is malformed.
            UnknownChannelError: the exchange has no such channel.
            PermitflowError: no server answers at this address in time.
        """
        if self._control is None:
            # The user's screen asks again in any case, and shows meanwhile that the exchange is away.
            self._control = BlockingControl(self._address, self._timeout_seconds, 0, self._security)
        try:
            now = self._control.statistics(self._channels, partial=True)
            survey = self._control.survey()
        except BaseException:
            self.close()
            raise
        before, self._before = self._before, now
        return TrafficReading(now.at_seconds, rates_between(before, now), survey)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the stream, if there is one."""
        control, self._control = self._control, None
        if control is not None:
            control.close()
