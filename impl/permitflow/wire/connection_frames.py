"""The frames of a connection under a stream that survives it, each with its own checksum.

Each is a message of its own; ``Acknowledged`` may also stand before a message of the stream, as if it came alone.
"""

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from permitflow.errors import UndecodableDataError
from permitflow.stream.resuming import Acknowledged, ConnectionFrame, HalfClose, Leave, Resume, Resumed
from permitflow.wire.buffers import Buffer, Received
from permitflow.wire.checksum import CHECKSUM_BYTES, CHECKSUM_KEY, checked, with_checksum
from permitflow.wire.protobuf_fields import LENGTH_DELIMITED
from permitflow.wire.protobuf_values import read_value, write_value
from permitflow.wire.v1 import exchange_pb2 as pb

CONNECTION_KEY = pb.FromUpstream.DESCRIPTOR.fields_by_name["connection"].number << 3 | LENGTH_DELIMITED
"""The first byte of the message of such a frame, in both directions, and of no other message."""
MOST_WITH_FRAME_BYTES = 1 << 10
"""The longest message of the stream that goes along with a frame.  A longer one would be copied where it is read: its
large pieces begin at multiples of 64 bytes."""
_MOST_BYTES = 256
_BEFORE_FRAME_BYTES = 2
"""The key, and the length of ``Acknowledged``."""
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


def parted(message: Received) -> tuple[Received, Received]:
    """The frame that a message begins with, and the message of the stream behind it, which may be empty.

    ``message`` begins with ``CONNECTION_KEY``.  If it was altered, all of it may count as the frame, which is found out
    when that is decoded.
    """
    end = _BEFORE_FRAME_BYTES + message[1] + CHECKSUM_BYTES if len(message) > 1 else 0
    if len(message) <= end or message[end - CHECKSUM_BYTES] != CHECKSUM_KEY:
        return message, b""
    return message[:end], message[end:]


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
