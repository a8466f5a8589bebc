from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Parameters(_message.Message):
    __slots__ = ("row_permits", "permit_batch", "max_chunk_cost", "barrier_permits", "oversize", "initial_permits")
    ROW_PERMITS_FIELD_NUMBER: _ClassVar[int]
    PERMIT_BATCH_FIELD_NUMBER: _ClassVar[int]
    MAX_CHUNK_COST_FIELD_NUMBER: _ClassVar[int]
    BARRIER_PERMITS_FIELD_NUMBER: _ClassVar[int]
    OVERSIZE_FIELD_NUMBER: _ClassVar[int]
    INITIAL_PERMITS_FIELD_NUMBER: _ClassVar[int]
    row_permits: int
    permit_batch: int
    max_chunk_cost: int
    barrier_permits: int
    oversize: str
    initial_permits: int
    def __init__(self, row_permits: _Optional[int] = ..., permit_batch: _Optional[int] = ..., max_chunk_cost: _Optional[int] = ..., barrier_permits: _Optional[int] = ..., oversize: _Optional[str] = ..., initial_permits: _Optional[int] = ...) -> None: ...

class Feedback(_message.Message):
    __slots__ = ("rows", "barriers", "watermarks")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BARRIERS_FIELD_NUMBER: _ClassVar[int]
    WATERMARKS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    barriers: int
    watermarks: int
    def __init__(self, rows: _Optional[int] = ..., barriers: _Optional[int] = ..., watermarks: _Optional[int] = ...) -> None: ...
