from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Sign(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SIGN_UNSPECIFIED: _ClassVar[Sign]
    SIGN_ASK: _ClassVar[Sign]
    SIGN_ANSWER: _ClassVar[Sign]

class Codec(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CODEC_UNSPECIFIED: _ClassVar[Codec]
    CODEC_LZ4: _ClassVar[Codec]
    CODEC_ZSTD: _ClassVar[Codec]

class EndOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    END_OUTCOME_UNSPECIFIED: _ClassVar[EndOutcome]
    END_OUTCOME_CONSUMED: _ClassVar[EndOutcome]
    END_OUTCOME_CANCELLED: _ClassVar[EndOutcome]
    END_OUTCOME_ACCEPTED: _ClassVar[EndOutcome]

class ChannelState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHANNEL_STATE_UNSPECIFIED: _ClassVar[ChannelState]
    CHANNEL_STATE_OPEN: _ClassVar[ChannelState]
    CHANNEL_STATE_ENDED: _ClassVar[ChannelState]
    CHANNEL_STATE_BROKEN: _ClassVar[ChannelState]

class Retention(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RETENTION_UNSPECIFIED: _ClassVar[Retention]
    RETENTION_ONCE: _ClassVar[Retention]
    RETENTION_REPLAY: _ClassVar[Retention]
SIGN_UNSPECIFIED: Sign
SIGN_ASK: Sign
SIGN_ANSWER: Sign
CODEC_UNSPECIFIED: Codec
CODEC_LZ4: Codec
CODEC_ZSTD: Codec
END_OUTCOME_UNSPECIFIED: EndOutcome
END_OUTCOME_CONSUMED: EndOutcome
END_OUTCOME_CANCELLED: EndOutcome
END_OUTCOME_ACCEPTED: EndOutcome
CHANNEL_STATE_UNSPECIFIED: ChannelState
CHANNEL_STATE_OPEN: ChannelState
CHANNEL_STATE_ENDED: ChannelState
CHANNEL_STATE_BROKEN: ChannelState
RETENTION_UNSPECIFIED: Retention
RETENTION_ONCE: Retention
RETENTION_REPLAY: Retention

class FromUpstream(_message.Message):
    __slots__ = ("frames", "padding", "body", "connection", "sign", "no_checksum", "checksum")
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    SIGN_FIELD_NUMBER: _ClassVar[int]
    NO_CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[UpstreamFrame]
    padding: bytes
    body: bytes
    connection: ConnectionFrame
    sign: Sign
    no_checksum: int
    checksum: int
    def __init__(self, frames: _Optional[_Iterable[_Union[UpstreamFrame, _Mapping]]] = ..., padding: _Optional[bytes] = ..., body: _Optional[bytes] = ..., connection: _Optional[_Union[ConnectionFrame, _Mapping]] = ..., sign: _Optional[_Union[Sign, str]] = ..., no_checksum: _Optional[int] = ..., checksum: _Optional[int] = ...) -> None: ...

class FromDownstream(_message.Message):
    __slots__ = ("frames", "connection", "sign", "no_checksum", "checksum")
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    SIGN_FIELD_NUMBER: _ClassVar[int]
    NO_CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[DownstreamFrame]
    connection: ConnectionFrame
    sign: Sign
    no_checksum: int
    checksum: int
    def __init__(self, frames: _Optional[_Iterable[_Union[DownstreamFrame, _Mapping]]] = ..., connection: _Optional[_Union[ConnectionFrame, _Mapping]] = ..., sign: _Optional[_Union[Sign, str]] = ..., no_checksum: _Optional[int] = ..., checksum: _Optional[int] = ...) -> None: ...

class ConnectionFrame(_message.Message):
    __slots__ = ("resume", "resumed", "acknowledged", "half_close", "leave")
    RESUME_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    HALF_CLOSE_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    resume: Resume
    resumed: Resumed
    acknowledged: Acknowledged
    half_close: HalfClose
    leave: Leave
    def __init__(self, resume: _Optional[_Union[Resume, _Mapping]] = ..., resumed: _Optional[_Union[Resumed, _Mapping]] = ..., acknowledged: _Optional[_Union[Acknowledged, _Mapping]] = ..., half_close: _Optional[_Union[HalfClose, _Mapping]] = ..., leave: _Optional[_Union[Leave, _Mapping]] = ...) -> None: ...

class Resume(_message.Message):
    __slots__ = ("token", "attempt", "received")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    token: bytes
    attempt: int
    received: int
    def __init__(self, token: _Optional[bytes] = ..., attempt: _Optional[int] = ..., received: _Optional[int] = ...) -> None: ...

class Resumed(_message.Message):
    __slots__ = ("received",)
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    received: int
    def __init__(self, received: _Optional[int] = ...) -> None: ...

class Acknowledged(_message.Message):
    __slots__ = ("received",)
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    received: int
    def __init__(self, received: _Optional[int] = ...) -> None: ...

class HalfClose(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Leave(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UpstreamFrame(_message.Message):
    __slots__ = ("put", "agreement", "failure", "chunks", "barrier", "watermark", "announcement", "end", "abort")
    PUT_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    BARRIER_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    ANNOUNCEMENT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    put: Put
    agreement: Agreement
    failure: Failure
    chunks: Chunks
    barrier: Marker
    watermark: Marker
    announcement: bytes
    end: End
    abort: Abort
    def __init__(self, put: _Optional[_Union[Put, _Mapping]] = ..., agreement: _Optional[_Union[Agreement, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., chunks: _Optional[_Union[Chunks, _Mapping]] = ..., barrier: _Optional[_Union[Marker, _Mapping]] = ..., watermark: _Optional[_Union[Marker, _Mapping]] = ..., announcement: _Optional[bytes] = ..., end: _Optional[_Union[End, _Mapping]] = ..., abort: _Optional[_Union[Abort, _Mapping]] = ...) -> None: ...

class DownstreamFrame(_message.Message):
    __slots__ = ("get", "agreement", "failure", "feedback", "returned_bytes", "cancel", "ended")
    GET_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    FEEDBACK_FIELD_NUMBER: _ClassVar[int]
    RETURNED_BYTES_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    get: Get
    agreement: Agreement
    failure: Failure
    feedback: bytes
    returned_bytes: int
    cancel: Cancel
    ended: Ended
    def __init__(self, get: _Optional[_Union[Get, _Mapping]] = ..., agreement: _Optional[_Union[Agreement, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., feedback: _Optional[bytes] = ..., returned_bytes: _Optional[int] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., ended: _Optional[_Union[Ended, _Mapping]] = ...) -> None: ...

class Get(_message.Message):
    __slots__ = ("protocol_version", "channel", "flow", "wanted", "byte_window", "schema", "probe", "from_row", "to_row", "consumer", "log_id", "columns", "with_time", "same_host", "compression", "resume")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    BYTE_WINDOW_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    FROM_ROW_FIELD_NUMBER: _ClassVar[int]
    TO_ROW_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    WITH_TIME_FIELD_NUMBER: _ClassVar[int]
    SAME_HOST_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    channel: str
    flow: str
    wanted: bytes
    byte_window: int
    schema: bytes
    probe: bool
    from_row: int
    to_row: int
    consumer: str
    log_id: str
    columns: _containers.RepeatedScalarFieldContainer[str]
    with_time: bool
    same_host: SameHostOffer
    compression: CompressionOffer
    resume: ResumeOffer
    def __init__(self, protocol_version: _Optional[int] = ..., channel: _Optional[str] = ..., flow: _Optional[str] = ..., wanted: _Optional[bytes] = ..., byte_window: _Optional[int] = ..., schema: _Optional[bytes] = ..., probe: bool = ..., from_row: _Optional[int] = ..., to_row: _Optional[int] = ..., consumer: _Optional[str] = ..., log_id: _Optional[str] = ..., columns: _Optional[_Iterable[str]] = ..., with_time: bool = ..., same_host: _Optional[_Union[SameHostOffer, _Mapping]] = ..., compression: _Optional[_Union[CompressionOffer, _Mapping]] = ..., resume: _Optional[_Union[ResumeOffer, _Mapping]] = ...) -> None: ...

class Put(_message.Message):
    __slots__ = ("protocol_version", "channel", "flow", "wanted", "byte_window", "schema", "producer", "staging", "attempt", "total", "spread_over", "failed_job", "job_channels", "job_since_row", "job_log_id", "same_host", "compression", "resume")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    BYTE_WINDOW_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    STAGING_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    SPREAD_OVER_FIELD_NUMBER: _ClassVar[int]
    FAILED_JOB_FIELD_NUMBER: _ClassVar[int]
    JOB_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    JOB_SINCE_ROW_FIELD_NUMBER: _ClassVar[int]
    JOB_LOG_ID_FIELD_NUMBER: _ClassVar[int]
    SAME_HOST_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    channel: str
    flow: str
    wanted: bytes
    byte_window: int
    schema: bytes
    producer: str
    staging: Staging
    attempt: TaskAttempt
    total: JobTotal
    spread_over: int
    failed_job: str
    job_channels: _containers.RepeatedScalarFieldContainer[str]
    job_since_row: int
    job_log_id: str
    same_host: SameHostOffer
    compression: CompressionOffer
    resume: ResumeOffer
    def __init__(self, protocol_version: _Optional[int] = ..., channel: _Optional[str] = ..., flow: _Optional[str] = ..., wanted: _Optional[bytes] = ..., byte_window: _Optional[int] = ..., schema: _Optional[bytes] = ..., producer: _Optional[str] = ..., staging: _Optional[_Union[Staging, _Mapping]] = ..., attempt: _Optional[_Union[TaskAttempt, _Mapping]] = ..., total: _Optional[_Union[JobTotal, _Mapping]] = ..., spread_over: _Optional[int] = ..., failed_job: _Optional[str] = ..., job_channels: _Optional[_Iterable[str]] = ..., job_since_row: _Optional[int] = ..., job_log_id: _Optional[str] = ..., same_host: _Optional[_Union[SameHostOffer, _Mapping]] = ..., compression: _Optional[_Union[CompressionOffer, _Mapping]] = ..., resume: _Optional[_Union[ResumeOffer, _Mapping]] = ...) -> None: ...

class Agreement(_message.Message):
    __slots__ = ("protocol_version", "stream", "flow", "parameters", "byte_window", "schema", "first_row", "same_host", "compression", "resume")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    BYTE_WINDOW_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    FIRST_ROW_FIELD_NUMBER: _ClassVar[int]
    SAME_HOST_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    stream: str
    flow: str
    parameters: bytes
    byte_window: int
    schema: bytes
    first_row: int
    same_host: SameHostAnswer
    compression: CompressionAnswer
    resume: ResumeAnswer
    def __init__(self, protocol_version: _Optional[int] = ..., stream: _Optional[str] = ..., flow: _Optional[str] = ..., parameters: _Optional[bytes] = ..., byte_window: _Optional[int] = ..., schema: _Optional[bytes] = ..., first_row: _Optional[int] = ..., same_host: _Optional[_Union[SameHostAnswer, _Mapping]] = ..., compression: _Optional[_Union[CompressionAnswer, _Mapping]] = ..., resume: _Optional[_Union[ResumeAnswer, _Mapping]] = ...) -> None: ...

class SameHostOffer(_message.Message):
    __slots__ = ("socket", "is_required")
    SOCKET_FIELD_NUMBER: _ClassVar[int]
    IS_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    socket: str
    is_required: bool
    def __init__(self, socket: _Optional[str] = ..., is_required: bool = ...) -> None: ...

class SameHostAnswer(_message.Message):
    __slots__ = ("proof", "refusal")
    PROOF_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    proof: bytes
    refusal: str
    def __init__(self, proof: _Optional[bytes] = ..., refusal: _Optional[str] = ...) -> None: ...

class ResumeOffer(_message.Message):
    __slots__ = ("token", "seconds")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    token: bytes
    seconds: float
    def __init__(self, token: _Optional[bytes] = ..., seconds: _Optional[float] = ...) -> None: ...

class ResumeAnswer(_message.Message):
    __slots__ = ("seconds",)
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    def __init__(self, seconds: _Optional[float] = ...) -> None: ...

class CompressionOffer(_message.Message):
    __slots__ = ("codecs", "wanted")
    CODECS_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    codecs: _containers.RepeatedScalarFieldContainer[Codec]
    wanted: Codec
    def __init__(self, codecs: _Optional[_Iterable[_Union[Codec, str]]] = ..., wanted: _Optional[_Union[Codec, str]] = ...) -> None: ...

class CompressionAnswer(_message.Message):
    __slots__ = ("codec", "refusal")
    CODEC_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    codec: Codec
    refusal: str
    def __init__(self, codec: _Optional[_Union[Codec, str]] = ..., refusal: _Optional[str] = ...) -> None: ...

class Chunks(_message.Message):
    __slots__ = ("rows", "size_bytes", "uncompressed_bytes")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNCOMPRESSED_BYTES_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedScalarFieldContainer[int]
    size_bytes: int
    uncompressed_bytes: int
    def __init__(self, rows: _Optional[_Iterable[int]] = ..., size_bytes: _Optional[int] = ..., uncompressed_bytes: _Optional[int] = ...) -> None: ...

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

class End(_message.Message):
    __slots__ = ("chunks", "rows", "barriers", "closes_channel", "until")
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BARRIERS_FIELD_NUMBER: _ClassVar[int]
    CLOSES_CHANNEL_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    chunks: int
    rows: int
    barriers: int
    closes_channel: bool
    until: EndOutcome
    def __init__(self, chunks: _Optional[int] = ..., rows: _Optional[int] = ..., barriers: _Optional[int] = ..., closes_channel: bool = ..., until: _Optional[_Union[EndOutcome, str]] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Ended(_message.Message):
    __slots__ = ("outcome",)
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    outcome: EndOutcome
    def __init__(self, outcome: _Optional[_Union[EndOutcome, str]] = ...) -> None: ...

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

class Staging(_message.Message):
    __slots__ = ("query", "batch", "partition", "attempt")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    query: str
    batch: int
    partition: int
    attempt: str
    def __init__(self, query: _Optional[str] = ..., batch: _Optional[int] = ..., partition: _Optional[int] = ..., attempt: _Optional[str] = ...) -> None: ...

class TaskAttempt(_message.Message):
    __slots__ = ("job", "partition", "attempt", "is_retry")
    JOB_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    IS_RETRY_FIELD_NUMBER: _ClassVar[int]
    job: str
    partition: int
    attempt: int
    is_retry: bool
    def __init__(self, job: _Optional[str] = ..., partition: _Optional[int] = ..., attempt: _Optional[int] = ..., is_retry: bool = ...) -> None: ...

class JobTotal(_message.Message):
    __slots__ = ("job", "rows")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    job: str
    rows: int
    def __init__(self, job: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...

class ControlRequest(_message.Message):
    __slots__ = ("positions", "acknowledge", "publish", "discard", "close", "statistics", "channels", "add", "remove", "reset", "purge", "peek", "prepare", "rollback", "checksum")
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    DISCARD_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    ADD_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    PURGE_FIELD_NUMBER: _ClassVar[int]
    PEEK_FIELD_NUMBER: _ClassVar[int]
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    ROLLBACK_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    positions: PositionsRequest
    acknowledge: AcknowledgeRequest
    publish: PublishRequest
    discard: DiscardRequest
    close: CloseRequest
    statistics: StatisticsRequest
    channels: ChannelsRequest
    add: AddStreamRequest
    remove: RemoveRequest
    reset: ResetRequest
    purge: PurgeRequest
    peek: PeekRequest
    prepare: PrepareRequest
    rollback: RollbackRequest
    checksum: int
    def __init__(self, positions: _Optional[_Union[PositionsRequest, _Mapping]] = ..., acknowledge: _Optional[_Union[AcknowledgeRequest, _Mapping]] = ..., publish: _Optional[_Union[PublishRequest, _Mapping]] = ..., discard: _Optional[_Union[DiscardRequest, _Mapping]] = ..., close: _Optional[_Union[CloseRequest, _Mapping]] = ..., statistics: _Optional[_Union[StatisticsRequest, _Mapping]] = ..., channels: _Optional[_Union[ChannelsRequest, _Mapping]] = ..., add: _Optional[_Union[AddStreamRequest, _Mapping]] = ..., remove: _Optional[_Union[RemoveRequest, _Mapping]] = ..., reset: _Optional[_Union[ResetRequest, _Mapping]] = ..., purge: _Optional[_Union[PurgeRequest, _Mapping]] = ..., peek: _Optional[_Union[PeekRequest, _Mapping]] = ..., prepare: _Optional[_Union[PrepareRequest, _Mapping]] = ..., rollback: _Optional[_Union[RollbackRequest, _Mapping]] = ..., checksum: _Optional[int] = ...) -> None: ...

class ControlReply(_message.Message):
    __slots__ = ("positions", "published", "discarded", "statistics", "channels", "changed", "peeked", "checksum")
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    DISCARDED_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    PEEKED_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    positions: Positions
    published: Published
    discarded: Discarded
    statistics: Statistics
    channels: Channels
    changed: Changed
    peeked: Peeked
    checksum: int
    def __init__(self, positions: _Optional[_Union[Positions, _Mapping]] = ..., published: _Optional[_Union[Published, _Mapping]] = ..., discarded: _Optional[_Union[Discarded, _Mapping]] = ..., statistics: _Optional[_Union[Statistics, _Mapping]] = ..., channels: _Optional[_Union[Channels, _Mapping]] = ..., changed: _Optional[_Union[Changed, _Mapping]] = ..., peeked: _Optional[_Union[Peeked, _Mapping]] = ..., checksum: _Optional[int] = ...) -> None: ...

class PositionsRequest(_message.Message):
    __slots__ = ("consumer", "channels")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    channels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, consumer: _Optional[str] = ..., channels: _Optional[_Iterable[str]] = ...) -> None: ...

class AcknowledgeRequest(_message.Message):
    __slots__ = ("consumer", "rows")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    rows: _containers.RepeatedCompositeFieldContainer[ChannelRow]
    def __init__(self, consumer: _Optional[str] = ..., rows: _Optional[_Iterable[_Union[ChannelRow, _Mapping]]] = ...) -> None: ...

class ChannelRow(_message.Message):
    __slots__ = ("channel", "row", "log_id", "next_barrier")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    NEXT_BARRIER_FIELD_NUMBER: _ClassVar[int]
    channel: str
    row: int
    log_id: str
    next_barrier: int
    def __init__(self, channel: _Optional[str] = ..., row: _Optional[int] = ..., log_id: _Optional[str] = ..., next_barrier: _Optional[int] = ...) -> None: ...

class Positions(_message.Message):
    __slots__ = ("channels",)
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    channels: _containers.RepeatedCompositeFieldContainer[ChannelPosition]
    def __init__(self, channels: _Optional[_Iterable[_Union[ChannelPosition, _Mapping]]] = ...) -> None: ...

class ChannelPosition(_message.Message):
    __slots__ = ("channel", "acknowledged_row", "next_row", "state", "reason", "flow", "parameters", "schema", "log_id", "limit_rows", "barriers", "waiting_rows", "waiting_seconds", "expired_row")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_ROW_FIELD_NUMBER: _ClassVar[int]
    NEXT_ROW_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_ROWS_FIELD_NUMBER: _ClassVar[int]
    BARRIERS_FIELD_NUMBER: _ClassVar[int]
    WAITING_ROWS_FIELD_NUMBER: _ClassVar[int]
    WAITING_SECONDS_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_ROW_FIELD_NUMBER: _ClassVar[int]
    channel: str
    acknowledged_row: int
    next_row: int
    state: ChannelState
    reason: str
    flow: str
    parameters: bytes
    schema: bytes
    log_id: str
    limit_rows: int
    barriers: _containers.RepeatedCompositeFieldContainer[KeptBarrier]
    waiting_rows: int
    waiting_seconds: float
    expired_row: int
    def __init__(self, channel: _Optional[str] = ..., acknowledged_row: _Optional[int] = ..., next_row: _Optional[int] = ..., state: _Optional[_Union[ChannelState, str]] = ..., reason: _Optional[str] = ..., flow: _Optional[str] = ..., parameters: _Optional[bytes] = ..., schema: _Optional[bytes] = ..., log_id: _Optional[str] = ..., limit_rows: _Optional[int] = ..., barriers: _Optional[_Iterable[_Union[KeptBarrier, _Mapping]]] = ..., waiting_rows: _Optional[int] = ..., waiting_seconds: _Optional[float] = ..., expired_row: _Optional[int] = ...) -> None: ...

class KeptBarrier(_message.Message):
    __slots__ = ("number", "row")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    number: int
    row: int
    def __init__(self, number: _Optional[int] = ..., row: _Optional[int] = ...) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("query", "batch", "parts")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    query: str
    batch: int
    parts: _containers.RepeatedCompositeFieldContainer[StagedPart]
    def __init__(self, query: _Optional[str] = ..., batch: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[StagedPart, _Mapping]]] = ...) -> None: ...

class PrepareRequest(_message.Message):
    __slots__ = ("query", "batch", "parts")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    query: str
    batch: int
    parts: _containers.RepeatedCompositeFieldContainer[StagedPart]
    def __init__(self, query: _Optional[str] = ..., batch: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[StagedPart, _Mapping]]] = ...) -> None: ...

class StagedPart(_message.Message):
    __slots__ = ("channel", "partition", "attempt", "rows")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    channel: str
    partition: int
    attempt: str
    rows: int
    def __init__(self, channel: _Optional[str] = ..., partition: _Optional[int] = ..., attempt: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...

class Published(_message.Message):
    __slots__ = ("was_published", "last_batch")
    WAS_PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    LAST_BATCH_FIELD_NUMBER: _ClassVar[int]
    was_published: bool
    last_batch: int
    def __init__(self, was_published: bool = ..., last_batch: _Optional[int] = ...) -> None: ...

class DiscardRequest(_message.Message):
    __slots__ = ("query", "batch", "parts")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    query: str
    batch: int
    parts: _containers.RepeatedCompositeFieldContainer[StagedPart]
    def __init__(self, query: _Optional[str] = ..., batch: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[StagedPart, _Mapping]]] = ...) -> None: ...

class Discarded(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    def __init__(self, rows: _Optional[int] = ...) -> None: ...

class CloseRequest(_message.Message):
    __slots__ = ("consumer", "channels")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    channels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, consumer: _Optional[str] = ..., channels: _Optional[_Iterable[str]] = ...) -> None: ...

class StatisticsRequest(_message.Message):
    __slots__ = ("channels", "first")
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    channels: _containers.RepeatedScalarFieldContainer[str]
    first: int
    def __init__(self, channels: _Optional[_Iterable[str]] = ..., first: _Optional[int] = ...) -> None: ...

class Statistics(_message.Message):
    __slots__ = ("at_seconds", "channels")
    AT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    at_seconds: float
    channels: _containers.RepeatedCompositeFieldContainer[ChannelTraffic]
    def __init__(self, at_seconds: _Optional[float] = ..., channels: _Optional[_Iterable[_Union[ChannelTraffic, _Mapping]]] = ...) -> None: ...

class ChannelTraffic(_message.Message):
    __slots__ = ("channel", "state", "reason", "window_rows", "producers", "consumers", "rows_in", "rows_out", "rows_held", "peak_rows_held", "rows_with_consumers", "waiting_seconds", "consumer_waiting_seconds", "kept", "compressed_streams", "gauges", "consumer_gauges", "consumer_stopped_seconds", "resumes", "suspended_streams", "purged_rows", "byte_window", "bytes_held", "peak_bytes_held", "bytes_with_consumers", "expired_rows")
    class CompressedStreamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class GaugesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class ConsumerGaugesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WINDOW_ROWS_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    ROWS_IN_FIELD_NUMBER: _ClassVar[int]
    ROWS_OUT_FIELD_NUMBER: _ClassVar[int]
    ROWS_HELD_FIELD_NUMBER: _ClassVar[int]
    PEAK_ROWS_HELD_FIELD_NUMBER: _ClassVar[int]
    ROWS_WITH_CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    WAITING_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_WAITING_SECONDS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    COMPRESSED_STREAMS_FIELD_NUMBER: _ClassVar[int]
    GAUGES_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GAUGES_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_STOPPED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RESUMES_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_STREAMS_FIELD_NUMBER: _ClassVar[int]
    PURGED_ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTE_WINDOW_FIELD_NUMBER: _ClassVar[int]
    BYTES_HELD_FIELD_NUMBER: _ClassVar[int]
    PEAK_BYTES_HELD_FIELD_NUMBER: _ClassVar[int]
    BYTES_WITH_CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_ROWS_FIELD_NUMBER: _ClassVar[int]
    channel: str
    state: str
    reason: str
    window_rows: int
    producers: int
    consumers: int
    rows_in: int
    rows_out: int
    rows_held: int
    peak_rows_held: int
    rows_with_consumers: int
    waiting_seconds: float
    consumer_waiting_seconds: float
    kept: Kept
    compressed_streams: _containers.ScalarMap[str, int]
    gauges: _containers.ScalarMap[str, int]
    consumer_gauges: _containers.ScalarMap[str, int]
    consumer_stopped_seconds: float
    resumes: int
    suspended_streams: int
    purged_rows: int
    byte_window: int
    bytes_held: int
    peak_bytes_held: int
    bytes_with_consumers: int
    expired_rows: int
    def __init__(self, channel: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., window_rows: _Optional[int] = ..., producers: _Optional[int] = ..., consumers: _Optional[int] = ..., rows_in: _Optional[int] = ..., rows_out: _Optional[int] = ..., rows_held: _Optional[int] = ..., peak_rows_held: _Optional[int] = ..., rows_with_consumers: _Optional[int] = ..., waiting_seconds: _Optional[float] = ..., consumer_waiting_seconds: _Optional[float] = ..., kept: _Optional[_Union[Kept, _Mapping]] = ..., compressed_streams: _Optional[_Mapping[str, int]] = ..., gauges: _Optional[_Mapping[str, int]] = ..., consumer_gauges: _Optional[_Mapping[str, int]] = ..., consumer_stopped_seconds: _Optional[float] = ..., resumes: _Optional[int] = ..., suspended_streams: _Optional[int] = ..., purged_rows: _Optional[int] = ..., byte_window: _Optional[int] = ..., bytes_held: _Optional[int] = ..., peak_bytes_held: _Optional[int] = ..., bytes_with_consumers: _Optional[int] = ..., expired_rows: _Optional[int] = ...) -> None: ...

class Kept(_message.Message):
    __slots__ = ("next_row", "acknowledged", "staged_rows", "published_rows", "expired_row", "kept_bytes", "in_doubt_rows", "log_id")
    class AcknowledgedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NEXT_ROW_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    STAGED_ROWS_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_ROWS_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_ROW_FIELD_NUMBER: _ClassVar[int]
    KEPT_BYTES_FIELD_NUMBER: _ClassVar[int]
    IN_DOUBT_ROWS_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    next_row: int
    acknowledged: _containers.ScalarMap[str, int]
    staged_rows: int
    published_rows: int
    expired_row: int
    kept_bytes: int
    in_doubt_rows: int
    log_id: str
    def __init__(self, next_row: _Optional[int] = ..., acknowledged: _Optional[_Mapping[str, int]] = ..., staged_rows: _Optional[int] = ..., published_rows: _Optional[int] = ..., expired_row: _Optional[int] = ..., kept_bytes: _Optional[int] = ..., in_doubt_rows: _Optional[int] = ..., log_id: _Optional[str] = ...) -> None: ...

class ChannelsRequest(_message.Message):
    __slots__ = ("channels", "first")
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    channels: _containers.RepeatedScalarFieldContainer[str]
    first: int
    def __init__(self, channels: _Optional[_Iterable[str]] = ..., first: _Optional[int] = ...) -> None: ...

class AddStreamRequest(_message.Message):
    __slots__ = ("stream", "channels", "retention", "consumers", "kept_rows", "staging_rows", "schema", "flow", "parameters", "byte_window", "target_latency_seconds", "expire_seconds", "expire_bytes")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    KEPT_ROWS_FIELD_NUMBER: _ClassVar[int]
    STAGING_ROWS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    BYTE_WINDOW_FIELD_NUMBER: _ClassVar[int]
    TARGET_LATENCY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_BYTES_FIELD_NUMBER: _ClassVar[int]
    stream: str
    channels: int
    retention: Retention
    consumers: _containers.RepeatedScalarFieldContainer[str]
    kept_rows: int
    staging_rows: int
    schema: bytes
    flow: str
    parameters: bytes
    byte_window: int
    target_latency_seconds: float
    expire_seconds: float
    expire_bytes: int
    def __init__(self, stream: _Optional[str] = ..., channels: _Optional[int] = ..., retention: _Optional[_Union[Retention, str]] = ..., consumers: _Optional[_Iterable[str]] = ..., kept_rows: _Optional[int] = ..., staging_rows: _Optional[int] = ..., schema: _Optional[bytes] = ..., flow: _Optional[str] = ..., parameters: _Optional[bytes] = ..., byte_window: _Optional[int] = ..., target_latency_seconds: _Optional[float] = ..., expire_seconds: _Optional[float] = ..., expire_bytes: _Optional[int] = ...) -> None: ...

class RemoveRequest(_message.Message):
    __slots__ = ("channels", "force")
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    channels: _containers.RepeatedScalarFieldContainer[str]
    force: bool
    def __init__(self, channels: _Optional[_Iterable[str]] = ..., force: bool = ...) -> None: ...

class ResetRequest(_message.Message):
    __slots__ = ("channels", "force")
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    channels: _containers.RepeatedScalarFieldContainer[str]
    force: bool
    def __init__(self, channels: _Optional[_Iterable[str]] = ..., force: bool = ...) -> None: ...

class PurgeRequest(_message.Message):
    __slots__ = ("channels", "consumer")
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    channels: _containers.RepeatedScalarFieldContainer[str]
    consumer: str
    def __init__(self, channels: _Optional[_Iterable[str]] = ..., consumer: _Optional[str] = ...) -> None: ...

class RollbackRequest(_message.Message):
    __slots__ = ("channels",)
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    channels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, channels: _Optional[_Iterable[str]] = ...) -> None: ...

class PeekRequest(_message.Message):
    __slots__ = ("channel", "rows", "consumer")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    channel: str
    rows: int
    consumer: str
    def __init__(self, channel: _Optional[str] = ..., rows: _Optional[int] = ..., consumer: _Optional[str] = ...) -> None: ...

class Channels(_message.Message):
    __slots__ = ("channels",)
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    channels: _containers.RepeatedCompositeFieldContainer[ListedChannel]
    def __init__(self, channels: _Optional[_Iterable[_Union[ListedChannel, _Mapping]]] = ...) -> None: ...

class ListedChannel(_message.Message):
    __slots__ = ("traffic", "retention", "schema", "connections", "limit_rows", "is_durable", "flow", "parameters")
    TRAFFIC_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_ROWS_FIELD_NUMBER: _ClassVar[int]
    IS_DURABLE_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    traffic: ChannelTraffic
    retention: Retention
    schema: bytes
    connections: _containers.RepeatedCompositeFieldContainer[Connection]
    limit_rows: int
    is_durable: bool
    flow: str
    parameters: bytes
    def __init__(self, traffic: _Optional[_Union[ChannelTraffic, _Mapping]] = ..., retention: _Optional[_Union[Retention, str]] = ..., schema: _Optional[bytes] = ..., connections: _Optional[_Iterable[_Union[Connection, _Mapping]]] = ..., limit_rows: _Optional[int] = ..., is_durable: bool = ..., flow: _Optional[str] = ..., parameters: _Optional[bytes] = ...) -> None: ...

class Connection(_message.Message):
    __slots__ = ("stream", "peer", "direction", "state", "is_suspended", "rows_held")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    IS_SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    ROWS_HELD_FIELD_NUMBER: _ClassVar[int]
    stream: str
    peer: str
    direction: str
    state: str
    is_suspended: bool
    rows_held: int
    def __init__(self, stream: _Optional[str] = ..., peer: _Optional[str] = ..., direction: _Optional[str] = ..., state: _Optional[str] = ..., is_suspended: bool = ..., rows_held: _Optional[int] = ...) -> None: ...

class Changed(_message.Message):
    __slots__ = ("channels",)
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    channels: _containers.RepeatedCompositeFieldContainer[ChangedChannel]
    def __init__(self, channels: _Optional[_Iterable[_Union[ChangedChannel, _Mapping]]] = ...) -> None: ...

class ChangedChannel(_message.Message):
    __slots__ = ("channel", "rows", "barriers", "streams")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BARRIERS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    channel: str
    rows: int
    barriers: int
    streams: int
    def __init__(self, channel: _Optional[str] = ..., rows: _Optional[int] = ..., barriers: _Optional[int] = ..., streams: _Optional[int] = ...) -> None: ...

class Peeked(_message.Message):
    __slots__ = ("schema", "batches")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    schema: bytes
    batches: _containers.RepeatedCompositeFieldContainer[PeekedBatch]
    def __init__(self, schema: _Optional[bytes] = ..., batches: _Optional[_Iterable[_Union[PeekedBatch, _Mapping]]] = ...) -> None: ...

class PeekedBatch(_message.Message):
    __slots__ = ("rows", "data")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    rows: int
    data: bytes
    def __init__(self, rows: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...
