"""How messages travel: gRPC, TCP, UDP, memory shared by processes of one host; each is a ``Carrier``.

``carrier`` has that interface.  ``grpc_calls`` is gRPC; ``byte_stream`` carries messages over any ``pipe``: of ``tcp``,
of ``tls``, of ``datagrams``.  ``same_host`` begins on one of these and may change over to ``shared_memory``;
``resuming`` goes on over other connections when one is lost.  A client dials by ``calling``; an exchange listens by
``accepting``.
"""

import permitflow.wire  # noqa: F401  # sets what gRPC reads when it is loaded
