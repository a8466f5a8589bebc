from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Parameters(_message.Message):
    __slots__ = ("high", "low", "capacity", "rate", "signal_delay", "data_delay", "repeat", "losses")
    HIGH_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_DELAY_FIELD_NUMBER: _ClassVar[int]
    DATA_DELAY_FIELD_NUMBER: _ClassVar[int]
    REPEAT_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    high: int
    low: int
    capacity: int
    rate: int
    signal_delay: int
    data_delay: int
    repeat: int
    losses: int
    def __init__(self, high: _Optional[int] = ..., low: _Optional[int] = ..., capacity: _Optional[int] = ..., rate: _Optional[int] = ..., signal_delay: _Optional[int] = ..., data_delay: _Optional[int] = ..., repeat: _Optional[int] = ..., losses: _Optional[int] = ...) -> None: ...

class Feedback(_message.Message):
    __slots__ = ("stop",)
    STOP_FIELD_NUMBER: _ClassVar[int]
    stop: bool
    def __init__(self, stop: bool = ...) -> None: ...
