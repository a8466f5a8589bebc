"""One stream between two processes: ``handshake``, ``frames``, ``session``; requests, ``control``; no I/O."""
