"""Frames to bytes and back.

What is ready together is encoded together, as one message of the carrier (a train), because a message costs gRPC
far more than a frame.  The frames carry chunks as bytes; ``permitflow.transports.arrow`` makes those.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from google.protobuf.message import DecodeError

from permitflow.errors import UndecodableDataError
from permitflow.protocol.frames import Data, DownstreamFrame, UpstreamFrame
from permitflow.transports.carrier import Received
from permitflow.transports.frame_readers import DOWNSTREAM_READERS, UPSTREAM_READERS
from permitflow.transports.frame_writers import DOWNSTREAM_WRITERS, UPSTREAM_WRITERS
from permitflow.transports.payloads import Payload
from permitflow.wire.v1 import exchange_pb2 as pb

__all__ = ["TRAIN_BYTES", "decode_downstream", "decode_upstream", "encode_downstream", "encode_upstream"]

# grpcio copies each message as a whole, so longer trains gain nothing; four fit into its send buffers.
TRAIN_BYTES = 1 << 20

F = TypeVar("F")


def encode_upstream(frames: Iterable[UpstreamFrame[Payload]]) -> list[bytes]:
    """Encode what an upstream writes: messages of about ``TRAIN_BYTES``, or of one frame that is larger.

    Raises:
        InvalidParametersError: a barrier or watermark carries something that the wire does not.
    """
    trains: list[bytes] = []
    train, size = pb.FromUpstream(), 0
    for frame in frames:
        weight = _weight(frame)
        if size and size + weight > TRAIN_BYTES:
            trains.append(train.SerializeToString())
            train, size = pb.FromUpstream(), 0
        UPSTREAM_WRITERS[type(frame)](train.frames.add(), frame)
        size += weight
    if size:
        trains.append(train.SerializeToString())
    return trains


def encode_downstream(frames: Iterable[DownstreamFrame]) -> list[bytes]:
    """Encode what a downstream writes: one message, or none if there are no frames."""
    train = pb.FromDownstream()
    for frame in frames:
        DOWNSTREAM_WRITERS[type(frame)](train.frames.add(), frame)
    return [train.SerializeToString()] if train.frames else []


def decode_upstream(data: Received) -> list[UpstreamFrame[Payload]]:
    """Decode what an upstream wrote.

    Raises:
        UndecodableDataError: these bytes are no frames of this version of the protocol.
    """
    return _decode(pb.FromUpstream(), data, UPSTREAM_READERS)


def decode_downstream(data: Received) -> list[DownstreamFrame]:
    """Decode what a downstream wrote.

    Raises:
        UndecodableDataError: these bytes are no frames of this version of the protocol.
    """
    return _decode(pb.FromDownstream(), data, DOWNSTREAM_READERS)


def _weight(frame: UpstreamFrame[Payload]) -> int:
    if isinstance(frame, Data) and isinstance(frame.message.payload, bytes):
        return len(frame.message.payload) + 32
    return 32


def _decode(
    train: pb.FromUpstream | pb.FromDownstream, data: Received, readers: dict[str, Callable[..., F]]
) -> list[F]:
    try:
        train.ParseFromString(data)  # type: ignore[arg-type]  # takes every buffer, though its stubs do not say so
    except DecodeError as error:
        raise UndecodableDataError(what=f"a message of {len(data)} bytes", reason=str(error)) from error
    return [_read(frame, readers) for frame in train.frames]


def _read(frame: pb.UpstreamFrame | pb.DownstreamFrame, readers: dict[str, Callable[..., F]]) -> F:
    name = frame.WhichOneof("frame")
    if name is None:
        raise UndecodableDataError(what="a frame", reason=f"it is none of {', '.join(readers)}")
    return readers[name](getattr(frame, name))
