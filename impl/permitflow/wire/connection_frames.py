"""The frames of a connection under a stream that survives it: each is a message of its own, with its own checksum."""

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from permitflow.errors import UndecodableDataError
from permitflow.stream.resuming import Acknowledged, ConnectionFrame, HalfClose, Leave, Resume, Resumed
from permitflow.wire.buffers import Buffer, Received
from permitflow.wire.checksum import checked, with_checksum
from permitflow.wire.protobuf_fields import LENGTH_DELIMITED
from permitflow.wire.protobuf_values import read_value, write_value
from permitflow.wire.v1 import exchange_pb2 as pb

CONNECTION_KEY = pb.FromUpstream.DESCRIPTOR.fields_by_name["connection"].number << 3 | LENGTH_DELIMITED
"""The first byte of the message of such a frame, in both directions, and of no other message."""
_MOST_BYTES = 256
_NAMES: dict[type[ConnectionFrame], str] = {
    Resume: "resume",
    Resumed: "resumed",
    Acknowledged: "acknowledged",
    HalfClose: "half_close",
    Leave: "leave",
}


def encode_connection_frame(frame: ConnectionFrame) -> Sequence[Buffer]:
    """The message of a frame, in pieces."""
    message = pb.FromUpstream()
    write_value(getattr(message.connection, _NAMES[type(frame)]), frame)
    return with_checksum([message.SerializeToString()])


def decode_connection_frame(message: Received) -> ConnectionFrame:
    """The frame in a message that begins with ``CONNECTION_KEY``.

    Raises:
        AlteredMessageError: the message was altered on its path.
        UndecodableDataError: it holds no such frame, or something beside it.
    """
    body = checked(message)  # an altered key makes such a frame of another message
    if len(message) > _MOST_BYTES:
        raise _undecodable(message, f"a frame of a connection takes at most {_MOST_BYTES}")
    decoded = pb.FromUpstream()
    try:
        decoded.ParseFromString(bytes(body))
    except DecodeError as error:
        raise _undecodable(message, str(error)) from error
    name = decoded.connection.WhichOneof("frame")
    if name is None or decoded.frames or decoded.body or decoded.sign:
        raise _undecodable(message, "it holds no frame of a connection, or other frames beside it")
    frame: ConnectionFrame = read_value(getattr(decoded.connection, name))
    return frame


def _undecodable(message: Received, reason: str) -> UndecodableDataError:
    return UndecodableDataError(what=f"a message of {len(message)} bytes", reason=reason)
