"""Who else may be at the other end of a connection: told by what he says first, so that an error can say what to do."""

__all__ = ["NOTHING_SAID", "SILENT", "behind_grpc", "whose"]

_IS_IT_RIGHT = "is this the exchange's address (permitflow serve)?"

NOTHING_SAID = f"it has never said a word: another program, or one that expects TLS? {_IS_IT_RIGHT}"
"""What to think of a peer that was dialled and hung up without a word."""

SILENT = "is it overloaded, or does another program listen there?"
"""What to think of a peer that takes the connection and does not answer."""

_BEGINNINGS = (
    (b"HTTP/", f"but an HTTP server's: {_IS_IT_RIGHT}"),
    (b"SSH-", f"but an SSH server's: {_IS_IT_RIGHT}"),
    (b"\x15\x03", f"but that of a server that expects TLS: {_IS_IT_RIGHT}"),
    (b"GET ", "but an HTTP client's"),
    (b"POST ", "but an HTTP client's"),
    (b"PRI * HT", "but a gRPC client's, who must dial tcp://host:port"),
    (b"\x16\x03", "but that of a client that expects TLS"),
)


def whose(first: bytes) -> str:
    """Words for the sender of these bytes, the first eight, which are not in permitflow's way."""
    if first[3:8] == b"\x04\0\0\0\0":  # HTTP/2's first frame, with settings
        return "but a gRPC server's: dial it as host:port, without tcp://"
    return next((words for beginning, words in _BEGINNINGS if first.startswith(beginning)), f"at all: {_IS_IT_RIGHT}")


def behind_grpc(details: str) -> str:
    """Who it may have been, where gRPC has found no gRPC: words to append to its own; empty if it has found one."""
    if not details.startswith("failed to connect"):
        return ""
    if "http1.x" in details:
        return f"; an HTTP server listens there: {_IS_IT_RIGHT}"
    if "Failed parsing HTTP/2" in details:
        return f"; another program listens there: {_IS_IT_RIGHT}"
    if "refused" in details:
        return "; is an exchange running there (permitflow serve)?"
    return "; it hung up without a word: another program, one that expects TLS, or an exchange at tcp://host:port?"
