"""How the two ends of a permit channel agree on its parameters, and what the flow is made of."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from permitflow.errors import ParameterMismatchError
from permitflow.flows import seam
from permitflow.flows.permits.core import PermitReceiver, PermitSender
from permitflow.flows.permits.parameters import ChannelParameters, Permits
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.flows.recording import ActionTable
from permitflow.flows.seam import Flow, Inbound, Outbound, Wishes

GAUGE_HELP: Mapping[str, str] = {
    "row_permits_here": "Row permits at the sender, unspent; while the channel is idle, all that are not withheld.",
    "unreturned_permits": "Row permits of consumed chunks that the receiver has not returned yet.",
    "withheld_permits": "Row permits that the receiver grants when its application first asks, or its target grows.",
    "target_permits": "Row permits that the receiver lets circulate: less than the window if it aims at a latency.",
}


class PermitFlow(Flow):
    """The server decides and the client verifies: each number becomes the smaller of the two wishes.

    If both wishes are live (``max_chunk_cost <= row_permits - permit_batch + 1``), so is the result: its
    ``max_chunk_cost`` and ``permit_batch`` are at most those of the end with the smaller window.  Both ends count with
    the agreed numbers; an upstream with one configuration and a downstream with another could deadlock.
    """

    feedback: ClassVar[type[tuple[Any, ...]]] = Permits
    table: ClassVar[ActionTable] = PERMIT_ACTIONS
    gauge_help: ClassVar[Mapping[str, str]] = GAUGE_HELP
    as_wished: ClassVar[Collection[str]] = ("oversize",)
    least_stated: ClassVar[Mapping[str, int]] = {"permit_batch": 1, "max_chunk_cost": 1, "initial_permits": 0}
    leading: ClassVar[Collection[str]] = ("row_permits", "permit_batch", "max_chunk_cost")
    following: ClassVar[Collection[str]] = ("permit_batch", "max_chunk_cost", "initial_permits")
    outbound: ClassVar[type[Outbound[Any]]] = PermitSender
    inbound: ClassVar[type[Inbound[Any]]] = PermitReceiver

    @property
    def wire(self) -> Any:
        """Its messages in protobuf."""
        from permitflow.wire.v1 import permits_pb2

        return permits_pb2

    def agree(self, own: ChannelParameters, wanted: Wishes) -> ChannelParameters:
        """Reconcile the peer's wishes with the parameters of this end: the smaller number wins.

        Raises:
            InvalidParametersError: the peer's wishes cannot work at all.
            ParameterMismatchError: one end splits oversize chunks, the other insists on whole ones.
        """
        agreed: ChannelParameters = super().agree(own, wanted)
        if wanted.oversize not in (None, own.oversize):
            rule = "must be the same at both ends"
            raise ParameterMismatchError(
                name="oversize", ours=own.oversize.value, theirs=str(wanted.oversize), rule=rule
            )
        return agreed

    def verify(self, agreed: Wishes, wanted: Wishes | None) -> ChannelParameters:
        """As for every flow; an agreement that says nothing of ``initial_permits`` withholds none."""
        if agreed.initial_permits is None:
            agreed = agreed._replace(initial_permits=agreed.row_permits)
        parameters: ChannelParameters = super().verify(agreed, wanted)
        return parameters


PERMITS = PermitFlow()
seam.register(PERMITS, ChannelParameters)
