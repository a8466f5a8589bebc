"""The handshake: before the first chunk, two ends agree on the flow and its numbers.

The server decides and the client verifies; the flow defines the numbers.
"""

from operator import attrgetter
from typing import Any

from permitflow.errors import ParameterMismatchError, VersionMismatchError
from permitflow.flows.byte_window import DEFAULT_WINDOW, ByteWindow, require_byte_window
from permitflow.flows.seam import Parameters
from permitflow.flows.table import flow_named
from permitflow.stream.compression import CompressionAnswer
from permitflow.stream.frames import Agreement, Get, Put, SameHostAnswer
from permitflow.stream.resuming import ResumeAnswer

PROTOCOL_VERSION = 3


def agree(own: Parameters, request: Get | Put) -> Parameters:
    """Reconcile the wishes of a client with the parameters of this end.

    Raises:
        InvalidParametersError: the wishes cannot work at all.
        ParameterMismatchError: they cannot be reconciled, or are for another flow.
    """
    flow = own.flow
    if request.flow not in ("", flow.name):
        raise ParameterMismatchError(
            name="flow", ours=flow.name, theirs=request.flow, rule="must be that of the channel"
        )
    if request.wanted is None:
        return own
    agreed: Parameters = flow.agree(own, request.wanted)
    return agreed


def agree_on_bytes(own: ByteWindow, request: Get | Put) -> ByteWindow:
    """Reconcile the client's byte window with that of this end: the smaller one wins.

    Raises:
        InvalidParametersError: the client's cannot work.
    """
    if not request.byte_window:
        return own
    theirs = ByteWindow(require_byte_window(request.byte_window))
    return min(own, theirs, key=attrgetter("window_bytes"))


def verify_bytes(agreement: Agreement, request: Get | Put) -> ByteWindow:
    """Check the server's decision.

    Raises:
        ParameterMismatchError: the byte window is missing, or exceeds the wish.
    """
    ours, theirs = request.byte_window, agreement.byte_window
    if theirs < 1:
        rule = "must be stated in the agreement, as a number of at least 1"
    elif ours and theirs > ours:
        rule = "must not exceed the wish"
    else:
        return ByteWindow(theirs)
    raise ParameterMismatchError(name="byte_window", ours=ours or None, theirs=theirs, rule=rule)


def stated(wanted: Parameters | None) -> dict[str, Any]:
    """The fields of Get and Put that state a client's wishes; empty if it accepts the channel's parameters."""
    return {} if wanted is None else {"flow": wanted.flow.name, "wanted": wanted.flow.state(wanted)}


def accept(
    request: Get | Put,
    agreed: Parameters,
    *,
    schema: bytes,
    window: ByteWindow = DEFAULT_WINDOW,
    stream: str = "",
    same_host: SameHostAnswer | None = None,
    first_row: int | None = None,
    compression: CompressionAnswer | None = None,
    resume: ResumeAnswer | None = None,
) -> Agreement:
    """Answer a client."""
    answer = None if request.compression is None else compression
    flow, parameters = agreed.flow, agreed.flow.state(agreed)
    return Agreement(
        PROTOCOL_VERSION,
        flow.name,
        parameters,
        schema,
        stream,
        same_host,
        first_row,
        answer,
        resume,
        window.window_bytes,
    )


def verify(agreement: Agreement, request: Get | Put) -> Parameters:
    """Check the server's decision; it may be wrong.

    Raises:
        ParameterMismatchError: the flow is another one, or a parameter is missing, cannot work, or exceeds the wishes.
    """
    if request.flow not in ("", agreement.flow):
        raise ParameterMismatchError(
            name="flow", ours=request.flow, theirs=agreement.flow, rule="must be the requested one"
        )
    agreed: Parameters = flow_named(agreement.flow).verify(agreement.parameters, request.wanted)
    return agreed


def own_version(theirs: int) -> int:
    """The version of a peer, before anything else is read of its first frame: in another one it may mean anything.

    Raises:
        VersionMismatchError: it is not that of this end.
    """
    if theirs != PROTOCOL_VERSION:
        raise VersionMismatchError(ours=PROTOCOL_VERSION, theirs=theirs)
    return theirs
