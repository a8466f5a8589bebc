"""Messages between processes of one host: large ones through a ring of shared memory, all others beside it.

The ring is an anonymous file that both ends have mapped.  Descriptors and notes travel over a Unix socket.
"""
