from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Parameters(_message.Message):
    __slots__ = ("inputs", "exclusive", "floating", "max_chunk_cost")
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    FLOATING_FIELD_NUMBER: _ClassVar[int]
    MAX_CHUNK_COST_FIELD_NUMBER: _ClassVar[int]
    inputs: int
    exclusive: int
    floating: int
    max_chunk_cost: int
    def __init__(self, inputs: _Optional[int] = ..., exclusive: _Optional[int] = ..., floating: _Optional[int] = ..., max_chunk_cost: _Optional[int] = ...) -> None: ...

class Feedback(_message.Message):
    __slots__ = ("credit", "resume", "revoke", "watermarks", "consumed", "barriers")
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    REVOKE_FIELD_NUMBER: _ClassVar[int]
    WATERMARKS_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_FIELD_NUMBER: _ClassVar[int]
    BARRIERS_FIELD_NUMBER: _ClassVar[int]
    credit: int
    resume: bool
    revoke: bool
    watermarks: int
    consumed: int
    barriers: int
    def __init__(self, credit: _Optional[int] = ..., resume: bool = ..., revoke: bool = ..., watermarks: _Optional[int] = ..., consumed: _Optional[int] = ..., barriers: _Optional[int] = ...) -> None: ...

class Announcement(_message.Message):
    __slots__ = ("backlog", "returned")
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    backlog: int
    returned: int
    def __init__(self, backlog: _Optional[int] = ..., returned: _Optional[int] = ...) -> None: ...
