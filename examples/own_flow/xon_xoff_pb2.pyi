from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Parameters(_message.Message):
    __slots__ = ("high_rows",)
    HIGH_ROWS_FIELD_NUMBER: _ClassVar[int]
    high_rows: int
    def __init__(self, high_rows: _Optional[int] = ...) -> None: ...

class Feedback(_message.Message):
    __slots__ = ("is_on",)
    IS_ON_FIELD_NUMBER: _ClassVar[int]
    is_on: bool
    def __init__(self, is_on: bool = ...) -> None: ...
