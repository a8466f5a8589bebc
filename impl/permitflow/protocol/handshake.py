"""How two ends come to the numbers by which both will count, before the first chunk.

The acceptor decides and the dialer verifies.  Each number becomes the smaller of the two wishes.  If both wishes are
live (``max_chunk_cost <= row_permits - permit_batch + 1``), so is the result: the clamp is at most that of the end
with the smaller window, and the batch at most its batch.  Afterwards no end counts with numbers of its own; an
upstream that clamps by one configuration and a downstream that batches by another would stick for ever.
"""

from permitflow.errors import InvalidParametersError, ParameterMismatchError, VersionMismatchError
from permitflow.protocol.compression import CompressionAnswer
from permitflow.protocol.frames import NOTHING_STATED, Agreement, Get, Put, SameHostAnswer, StatedParameters
from permitflow.protocol.parameters import ChannelParameters

__all__ = ["PROTOCOL_VERSION", "accept", "agree", "require_version", "verify"]

PROTOCOL_VERSION = 1

WINDOW = ("row_permits", "permit_batch", "max_chunk_cost")
NUMBERS = (*WINDOW, "barrier_permits")


def agree(own: ChannelParameters, wanted: StatedParameters) -> ChannelParameters:
    """Reconcile the peer's wishes with the parameters of this end: the smaller number wins.

    Raises:
        InvalidParametersError: the peer's wishes cannot work at all.
        ParameterMismatchError: one end splits oversize chunks, the other insists on whole ones.
    """
    if wanted == NOTHING_STATED:
        return own
    theirs = _completed(wanted, own).checked()
    if theirs.oversize is not own.oversize:
        raise ParameterMismatchError(
            name="oversize",
            ours=own.oversize.value,
            theirs=theirs.oversize.value,
            rule="must be the same at both ends",
        )
    smaller = {name: min(getattr(own, name), getattr(theirs, name)) for name in NUMBERS}
    return ChannelParameters(**smaller, oversize=own.oversize)


def _completed(wanted: StatedParameters, own: ChannelParameters) -> StatedParameters:
    """What the peer left open is as here; but a window of its own brings a batch and a clamp of its own."""
    ours = StatedParameters.of(own)
    if any(getattr(wanted, name) is not None for name in WINDOW):
        ours = ours._replace(permit_batch=None, max_chunk_cost=None)
    return ours._replace(**{name: value for name, value in wanted._asdict().items() if value is not None})


def accept(
    request: Get | Put,
    *,
    own: ChannelParameters,
    schema: bytes,
    stream: str = "",
    same_host: SameHostAnswer | None = None,
    first_row: int | None = None,
    compression: CompressionAnswer | None = None,
) -> Agreement:
    """Answer a peer that dialled.

    Raises:
        VersionMismatchError: it speaks another version.
        InvalidParametersError: its wishes cannot work at all.
        ParameterMismatchError: its wishes cannot be reconciled with ``own``.
    """
    require_version(request.protocol_version)
    agreed = agree(own, request.wanted)
    answer = None if request.compression is None else compression
    return Agreement(PROTOCOL_VERSION, StatedParameters.of(agreed), schema, stream, same_host, first_row, answer)


def verify(agreement: Agreement, *, wanted: StatedParameters) -> ChannelParameters:
    """Check what the acceptor decided: it may lie, or be wrong.

    Raises:
        VersionMismatchError: it speaks another version.
        ParameterMismatchError: a number is missing, cannot work, or exceeds what was asked for.
    """
    require_version(agreement.protocol_version)
    for name, theirs in agreement.parameters._asdict().items():
        if theirs is None:
            raise ParameterMismatchError(
                name=name, ours=getattr(wanted, name), theirs=None, rule="must be stated in the agreement"
            )
    try:
        agreed = agreement.parameters.checked()
    except InvalidParametersError as error:
        raise ParameterMismatchError(
            name=error.name, ours=getattr(wanted, error.name), theirs=error.value, rule=error.rule
        ) from error
    _require_within(agreed, wanted)
    return agreed


def _require_within(agreed: ChannelParameters, wanted: StatedParameters) -> None:
    for name in NUMBERS:
        ours, theirs = getattr(wanted, name), getattr(agreed, name)
        if ours is not None and theirs > ours:
            raise ParameterMismatchError(name=name, ours=ours, theirs=theirs, rule="must not exceed what was asked for")
    if wanted.oversize not in (None, agreed.oversize):
        raise ParameterMismatchError(
            name="oversize", ours=str(wanted.oversize), theirs=agreed.oversize.value, rule="must be what was asked for"
        )


def require_version(theirs: int) -> None:
    """Refuse a peer of another version.

    Raises:
        VersionMismatchError: the versions differ.
    """
    if theirs != PROTOCOL_VERSION:
        raise VersionMismatchError(ours=PROTOCOL_VERSION, theirs=theirs)
