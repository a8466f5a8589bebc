"""Every deliberate exception.  The type says whose fault it is, the attributes hold the facts.

``ProtocolError``: somebody broke the rules, and the stream is dead.  ``HandshakeError``: the two ends could not
agree, and no stream began.  ``ChannelError``: nobody's fault.  ``TransportError``: the carrier failed.
``StagingError``: a batch cannot be staged or published; what was published before is whole.
``TraceError``: a recording cannot be written or used; the channel that was recorded is not concerned.
``StoreError``: where an exchange keeps its rows cannot be used, or cannot write.
"""

from permitflow.errors.base import PermitflowError, printable, restored
from permitflow.errors.channel import (
    ChannelAbortedError,
    ChannelClosedError,
    ChannelError,
    EndOfStream,
    InterruptedEndError,
    PeerGoneError,
    PeerTimeoutError,
    TransportError,
    WouldBlock,
)
from permitflow.errors.handshake import (
    ChannelBusyError,
    ChannelSpentError,
    HandshakeError,
    ParameterMismatchError,
    SameHostError,
    SchemaMismatchError,
    UnknownChannelError,
    VersionMismatchError,
)
from permitflow.errors.jobs import DemoError, SparkSetupError, TaskRetryError, UnknownBatchError
from permitflow.errors.parameters import (
    ChunkTooLargeError,
    InvalidOptionError,
    InvalidParametersError,
    ParametersFileError,
)
from permitflow.errors.protocol import (
    LedgerError,
    LocalProtocolError,
    MispricedError,
    OverspendError,
    PermitOverrunError,
    ProtocolError,
    RemoteProtocolError,
    UndecodableDataError,
    UnexpectedFrameError,
    UnsplittableChunkError,
)
from permitflow.errors.query import CheckpointError, RowsLostError
from permitflow.errors.replay import (
    LogReplacedError,
    ProducerReplacedError,
    ReplayError,
    RetentionError,
    RowsForgottenError,
    RowsNotThereError,
    UnknownConsumerError,
)
from permitflow.errors.staging import StagedPartError, StagingError, StagingFullError
from permitflow.errors.store import (
    StoreError,
    StoreInUseError,
    StoreLeftoverError,
    StoreMismatchError,
    StoreUnusableError,
    StoreWriteError,
)
from permitflow.errors.trace import (
    TraceError,
    TraceMismatchError,
    TraceTruncatedError,
    TraceUnreadableError,
    TraceWriteError,
)

__all__ = [
    "ChannelAbortedError",
    "ChannelBusyError",
    "ChannelClosedError",
    "ChannelError",
    "ChannelSpentError",
    "CheckpointError",
    "ChunkTooLargeError",
    "DemoError",
    "EndOfStream",
    "HandshakeError",
    "InterruptedEndError",
    "InvalidOptionError",
    "InvalidParametersError",
    "LedgerError",
    "LocalProtocolError",
    "LogReplacedError",
    "MispricedError",
    "OverspendError",
    "ParameterMismatchError",
    "ParametersFileError",
    "PeerGoneError",
    "PeerTimeoutError",
    "PermitOverrunError",
    "PermitflowError",
    "ProducerReplacedError",
    "ProtocolError",
    "RemoteProtocolError",
    "ReplayError",
    "RetentionError",
    "RowsForgottenError",
    "RowsLostError",
    "RowsNotThereError",
    "SameHostError",
    "SchemaMismatchError",
    "SparkSetupError",
    "StagedPartError",
    "StagingError",
    "StagingFullError",
    "StoreError",
    "StoreInUseError",
    "StoreLeftoverError",
    "StoreMismatchError",
    "StoreUnusableError",
    "StoreWriteError",
    "TaskRetryError",
    "TraceError",
    "TraceMismatchError",
    "TraceTruncatedError",
    "TraceUnreadableError",
    "TraceWriteError",
    "TransportError",
    "UndecodableDataError",
    "UnexpectedFrameError",
    "UnknownBatchError",
    "UnknownChannelError",
    "UnknownConsumerError",
    "UnsplittableChunkError",
    "VersionMismatchError",
    "WouldBlock",
    "printable",
    "restored",
]

# Their names in tracebacks, logs and pickles are those by which users import them, whichever module they live in.
for _name in __all__:
    globals()[_name].__module__ = __name__
