from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Oversize(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVERSIZE_UNSPECIFIED: _ClassVar[Oversize]
    OVERSIZE_SPLIT: _ClassVar[Oversize]
    OVERSIZE_WHOLE: _ClassVar[Oversize]
OVERSIZE_UNSPECIFIED: Oversize
OVERSIZE_SPLIT: Oversize
OVERSIZE_WHOLE: Oversize

class FromUpstream(_message.Message):
    __slots__ = ("frames", "padding", "body")
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[UpstreamFrame]
    padding: bytes
    body: bytes
    def __init__(self, frames: _Optional[_Iterable[_Union[UpstreamFrame, _Mapping]]] = ..., padding: _Optional[bytes] = ..., body: _Optional[bytes] = ...) -> None: ...

class FromDownstream(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[DownstreamFrame]
    def __init__(self, frames: _Optional[_Iterable[_Union[DownstreamFrame, _Mapping]]] = ...) -> None: ...

class UpstreamFrame(_message.Message):
    __slots__ = ("put", "agreement", "data", "end", "abort", "failure", "chunks")
    PUT_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    put: Put
    agreement: Agreement
    data: Data
    end: End
    abort: Abort
    failure: Failure
    chunks: Chunks
    def __init__(self, put: _Optional[_Union[Put, _Mapping]] = ..., agreement: _Optional[_Union[Agreement, _Mapping]] = ..., data: _Optional[_Union[Data, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ..., abort: _Optional[_Union[Abort, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., chunks: _Optional[_Union[Chunks, _Mapping]] = ...) -> None: ...

class DownstreamFrame(_message.Message):
    __slots__ = ("get", "agreement", "add_permits", "failure")
    GET_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    ADD_PERMITS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    get: Get
    agreement: Agreement
    add_permits: AddPermits
    failure: Failure
    def __init__(self, get: _Optional[_Union[Get, _Mapping]] = ..., agreement: _Optional[_Union[Agreement, _Mapping]] = ..., add_permits: _Optional[_Union[AddPermits, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Parameters(_message.Message):
    __slots__ = ("row_permits", "permit_batch", "max_chunk_cost", "barrier_permits", "oversize")
    ROW_PERMITS_FIELD_NUMBER: _ClassVar[int]
    PERMIT_BATCH_FIELD_NUMBER: _ClassVar[int]
    MAX_CHUNK_COST_FIELD_NUMBER: _ClassVar[int]
    BARRIER_PERMITS_FIELD_NUMBER: _ClassVar[int]
    OVERSIZE_FIELD_NUMBER: _ClassVar[int]
    row_permits: int
    permit_batch: int
    max_chunk_cost: int
    barrier_permits: int
    oversize: Oversize
    def __init__(self, row_permits: _Optional[int] = ..., permit_batch: _Optional[int] = ..., max_chunk_cost: _Optional[int] = ..., barrier_permits: _Optional[int] = ..., oversize: _Optional[_Union[Oversize, str]] = ...) -> None: ...

class Get(_message.Message):
    __slots__ = ("protocol_version", "channel", "up_actor_id", "up_fragment_id", "down_actor_id", "down_fragment_id", "wanted", "schema", "probe", "same_host")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    UP_ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    UP_FRAGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    DOWN_ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    DOWN_FRAGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    SAME_HOST_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    channel: str
    up_actor_id: int
    up_fragment_id: int
    down_actor_id: int
    down_fragment_id: int
    wanted: Parameters
    schema: bytes
    probe: bool
    same_host: SameHostOffer
    def __init__(self, protocol_version: _Optional[int] = ..., channel: _Optional[str] = ..., up_actor_id: _Optional[int] = ..., up_fragment_id: _Optional[int] = ..., down_actor_id: _Optional[int] = ..., down_fragment_id: _Optional[int] = ..., wanted: _Optional[_Union[Parameters, _Mapping]] = ..., schema: _Optional[bytes] = ..., probe: bool = ..., same_host: _Optional[_Union[SameHostOffer, _Mapping]] = ...) -> None: ...

class Put(_message.Message):
    __slots__ = ("protocol_version", "channel", "up_actor_id", "up_fragment_id", "down_actor_id", "down_fragment_id", "wanted", "schema", "same_host")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    UP_ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    UP_FRAGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    DOWN_ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    DOWN_FRAGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SAME_HOST_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    channel: str
    up_actor_id: int
    up_fragment_id: int
    down_actor_id: int
    down_fragment_id: int
    wanted: Parameters
    schema: bytes
    same_host: SameHostOffer
    def __init__(self, protocol_version: _Optional[int] = ..., channel: _Optional[str] = ..., up_actor_id: _Optional[int] = ..., up_fragment_id: _Optional[int] = ..., down_actor_id: _Optional[int] = ..., down_fragment_id: _Optional[int] = ..., wanted: _Optional[_Union[Parameters, _Mapping]] = ..., schema: _Optional[bytes] = ..., same_host: _Optional[_Union[SameHostOffer, _Mapping]] = ...) -> None: ...

class Agreement(_message.Message):
    __slots__ = ("protocol_version", "parameters", "schema", "stream", "same_host")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SAME_HOST_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    parameters: Parameters
    schema: bytes
    stream: str
    same_host: SameHostAnswer
    def __init__(self, protocol_version: _Optional[int] = ..., parameters: _Optional[_Union[Parameters, _Mapping]] = ..., schema: _Optional[bytes] = ..., stream: _Optional[str] = ..., same_host: _Optional[_Union[SameHostAnswer, _Mapping]] = ...) -> None: ...

class SameHostOffer(_message.Message):
    __slots__ = ("socket", "required")
    SOCKET_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    socket: str
    required: bool
    def __init__(self, socket: _Optional[str] = ..., required: bool = ...) -> None: ...

class SameHostAnswer(_message.Message):
    __slots__ = ("proof", "refusal")
    PROOF_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    proof: bytes
    refusal: str
    def __init__(self, proof: _Optional[bytes] = ..., refusal: _Optional[str] = ...) -> None: ...

class Permits(_message.Message):
    __slots__ = ("rows", "barriers", "watermarks")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BARRIERS_FIELD_NUMBER: _ClassVar[int]
    WATERMARKS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    barriers: int
    watermarks: int
    def __init__(self, rows: _Optional[int] = ..., barriers: _Optional[int] = ..., watermarks: _Optional[int] = ...) -> None: ...

class Data(_message.Message):
    __slots__ = ("permits", "barrier", "watermark")
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    BARRIER_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    permits: int
    barrier: Marker
    watermark: Marker
    def __init__(self, permits: _Optional[int] = ..., barrier: _Optional[_Union[Marker, _Mapping]] = ..., watermark: _Optional[_Union[Marker, _Mapping]] = ...) -> None: ...

class Chunks(_message.Message):
    __slots__ = ("rows", "permits", "size_bytes")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedScalarFieldContainer[int]
    permits: int
    size_bytes: int
    def __init__(self, rows: _Optional[_Iterable[int]] = ..., permits: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class Marker(_message.Message):
    __slots__ = ("integer", "number", "text", "data")
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    integer: int
    number: float
    text: str
    data: bytes
    def __init__(self, integer: _Optional[int] = ..., number: _Optional[float] = ..., text: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class AddPermits(_message.Message):
    __slots__ = ("permits",)
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    permits: Permits
    def __init__(self, permits: _Optional[_Union[Permits, _Mapping]] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("chunks", "rows", "barriers", "closes_channel")
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BARRIERS_FIELD_NUMBER: _ClassVar[int]
    CLOSES_CHANNEL_FIELD_NUMBER: _ClassVar[int]
    chunks: int
    rows: int
    barriers: int
    closes_channel: bool
    def __init__(self, chunks: _Optional[int] = ..., rows: _Optional[int] = ..., barriers: _Optional[int] = ..., closes_channel: bool = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: bytes
    def __init__(self, error: _Optional[bytes] = ...) -> None: ...

class Abort(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...
