"""How messages travel: gRPC, TCP, memory shared by processes of one host; each is a ``Carrier``."""

import permitflow.wire  # noqa: F401  # sets what gRPC reads when it is loaded
