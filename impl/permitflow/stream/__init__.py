"""One stream between two processes: handshake, frames, session; requests to an exchange; no I/O."""
