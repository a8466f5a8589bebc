"""Messages as bytes: frames (``codec``), requests (``control_codec``), batches (``arrow``), errors (``wire_errors``).

``v1`` holds the generated protobuf modules.

Needs permitflow[grpc], but for ``v1`` and ``buffers``.
"""

import os

# Our errors report failures; gRPC's core would log the same on stderr in its own words ("Got goaway"), as
# information.  It reads this variable once, when it is loaded; a value that the user has set stands.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

# Without this, gRPC restarts in a child forked from a process that has used it, and every fifth such child crashes.
# gRPC reads it when it is loaded; a value that the user has set stands.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
