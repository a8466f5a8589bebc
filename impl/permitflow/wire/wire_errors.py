"""Errors across the wire: a gRPC status for every peer, and the typed error for peers that know it.

The first bytes of another program identify it, so that the error can say what to do.
"""

import inspect
import json
import re
from collections.abc import Iterable

from permitflow import errors
from permitflow.errors import PeerGoneError, PeerTimeoutError, PermitflowError, TransportError, printable
from permitflow.wire.texts import sendable

_IS_IT_RIGHT = "is this the exchange's address (permitflow serve)?"
NOTHING_SAID = f"it has never said a word: another program, or one that expects TLS? {_IS_IT_RIGHT}"
"""The likely cause when a dialled peer hung up silently."""
SILENT = "is it overloaded, or does another program listen there?"
"""The likely cause when a peer accepts the connection and does not answer."""
Metadata = tuple[tuple[str, str | bytes], ...]
ERROR_KEY = "permitflow-error-bin"
"""Trailing metadata: the error's type, message and facts as JSON."""
TLS_ALERT, TLS_HELLO = b"\x15\x03", b"\x16\x03"
"""The first bytes of an end that expects TLS: of a server that was told something else, and of a client."""
_BEGINNINGS = (
    (b"HTTP/", f"but an HTTP server's: {_IS_IT_RIGHT}"),
    (b"SSH-", f"but an SSH server's: {_IS_IT_RIGHT}"),
    (b"GET ", "but an HTTP client's"),
    (b"POST ", "but an HTTP client's"),
    (b"PRI * HT", "but a gRPC client's, who must dial tcp://host:port"),
)
# A client that accepts 8 KiB of metadata, as most do, breaks its whole connection where more comes.  In base64 and
# percent-encoded, all of it stays below 6 KiB.
_ERROR_BYTES = 3_600
_DETAILS_BYTES = 1_000
# Texts and lists are cut to the first of these lengths with which an error is short enough.
_CHARACTERS = (2_000, 1_000, 500, 250, 120, 60, 30)
_MOST_ITEMS = 20
CROSSING = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, PermitflowError) and kind.status
}
"""The errors that cross the wire, by name."""
_CODE = re.compile("[A-Z_]{1,30}")
_UNREADABLE = "it ended the stream with a status that cannot be read"
# gRPC's words at an end whose ping was not answered in time, also if it was itself stopped meanwhile.
_PING_TIMEOUT = "ping timeout"
FACTS = {
    kind: {
        parameter.name
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name != "undelivered"
    }
    for kind in CROSSING.values()
}
"""The facts without which an error of a type cannot be made."""


def status_of(error: BaseException) -> tuple[str, str, Metadata]:
    """The status, its text and the trailing metadata that tell a peer about an error."""
    if isinstance(error, PermitflowError) and error.status:
        return error.status, _details(error.message), ((ERROR_KEY, encode_error(error)),)
    return "INTERNAL", _details(printable(f"{type(error).__name__}: {error}")), ()


def _details(text: str) -> str:
    """The beginning of a text, short enough as gRPC writes it: "%" and all but ASCII take three letters a byte."""
    for most in _CHARACTERS:
        found = sendable(text, most)
        if sum(1 if 32 <= byte < 127 and byte != 37 else 3 for byte in found.encode()) <= _DETAILS_BYTES:
            return found
    return ""


def encode_error(error: PermitflowError) -> bytes:
    """An error as JSON: its type, its message and its facts, all shortened as far as necessary."""
    facts = {name: value for name, value in error.facts.items() if name != "undelivered"}
    for most in _CHARACTERS:
        plain = {name: _encode_fact(value, most) for name, value in facts.items()}
        content = {"type": type(error).__name__, "message": sendable(error.message, most), "facts": plain}
        if len(encoded := json.dumps(content, ensure_ascii=False).encode()) <= _ERROR_BYTES:
            break
    return encoded


def _encode_fact(value: object, most_characters: int) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, tuple | list):
        # The shorter the texts, the fewer of them.
        items = value[: min(_MOST_ITEMS, most_characters // 6)]
        return [_encode_fact(item, most_characters) for item in items]
    return sendable(str(value), most_characters)


def error_from_status(
    code: str | None, details: str | None, metadata: Iterable[tuple[str, str | bytes]], *, who: str
) -> PermitflowError:
    """The error that the peer sent, or the one that matches gRPC's own status.

    Args:
        code: the name of the status with which the stream ended, as gRPC spells it; None: it is unknown.
        details: its text.
        metadata: the trailing metadata.
        who: the peer in words, as in "the exchange at localhost:5000".
    """
    told = ""
    for key, value in metadata:
        if key == ERROR_KEY and isinstance(value, bytes):
            if (error := decode_error(value, who=who)) is not None:
                return error
            told = told_reason(value)
    stranger = stranger_behind_grpc(details or "")
    reason = f"{details or told or 'no details'} (gRPC status {code or 'unknown'}){stranger}"
    if _PING_TIMEOUT in (details or ""):
        reason += "; is it stopped or overloaded, or was this process stopped or suspended?"
    if code in ("UNAVAILABLE", "CANCELLED"):
        return PeerGoneError(who=who, reason=reason)
    if code == "DEADLINE_EXCEEDED":
        return PeerTimeoutError(who=who, reason=reason)
    return TransportError(f"the stream with {who} failed: {reason}", code=code or "unknown")


def encode_status(error: Exception) -> bytes:
    """Encode a status as bytes, for a carrier without its own."""
    code, text, metadata = status_of(error)
    told_error = next((value.decode() for _, value in metadata if isinstance(value, bytes)), None)
    return json.dumps({"code": code, "details": text, "error": told_error}).encode()


def decode_status(value: bytes, *, who: str) -> PermitflowError:
    """Decode the error from a status as bytes."""
    try:
        content = json.loads(value)
        code, details, error = content["code"], sendable(str(content["details"])), content["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return PeerGoneError(who=who, reason=_UNREADABLE)
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        return PeerGoneError(who=who, reason=_UNREADABLE)
    metadata = ((ERROR_KEY, error.encode(errors="replace")),) if isinstance(error, str) else ()
    return error_from_status(code, details, metadata, who=who)


def told_reason(value: bytes) -> str:
    """The message of a peer's error of any type, such as one that another language has made; empty: there is none."""
    try:
        message = json.loads(value)["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return printable(sendable(message, _CHARACTERS[0])) if isinstance(message, str) else ""


def decode_error(value: bytes, *, who: str) -> PermitflowError | None:
    """Decode a peer's error, if it has a type that may cross the wire, with at least the facts of this type."""
    try:
        content = json.loads(value)
        kind, message = CROSSING[content["type"]], str(content["message"])
        facts = {name: _decode_fact(content["facts"][name]) for name in FACTS[kind]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    error = errors.restored(kind, sendable(message), facts)
    error.add_note(f"reported by {who}")
    return error


def _decode_fact(value: object) -> object:
    if isinstance(value, str):  # JSON can hold what UTF-8 cannot; the text may go to other peers, or to a disk
        return sendable(value)
    if isinstance(value, dict):  # no fact is one
        return sendable(str(value))
    return tuple(_decode_fact(item) for item in value) if isinstance(value, list) else value


def copy_error(error: PermitflowError, undelivered: object) -> PermitflowError:
    """Copy an error for one more caller, with its undelivered chunks."""
    facts = error.facts
    if isinstance(error, PeerGoneError | errors.ChannelClosedError):
        facts["undelivered"] = undelivered
    repeated = errors.restored(type(error), error.message, facts)
    repeated.__cause__ = error.__cause__
    for note in getattr(error, "__notes__", ()):
        repeated.add_note(note)
    return repeated


def forget_frames(error: BaseException | None) -> None:
    """Drop the tracebacks of a handled error and of its causes.

    Their frames hold the refused message.  Errors, frames and task groups form cycles, so that the message would stay
    in memory until garbage collection, which counts objects, not their bytes.
    """
    while error is not None:
        following = error.__cause__ or error.__context__
        error.__traceback__ = error.__context__ = None
        error = following


def stranger_who_says(first: bytes) -> str:
    """Describe the sender of these first eight bytes, which are not permitflow's."""
    if first[3:8] == b"\x04\0\0\0\0":  # HTTP/2's first frame, with settings
        return "but a gRPC server's: dial it as host:port, without tcp://"
    return next((words for beginning, words in _BEGINNINGS if first.startswith(beginning)), f"at all: {_IS_IT_RIGHT}")


def stranger_behind_grpc(details: str) -> str:
    """Describe a peer that gRPC reports not to speak gRPC, to append to gRPC's words; empty if it does."""
    if not details.startswith("failed to connect"):
        return ""
    if "http1.x" in details:
        return f"; an HTTP server listens there: {_IS_IT_RIGHT}"
    if "Failed parsing HTTP/2" in details:
        return f"; another program listens there: {_IS_IT_RIGHT}"
    if "timed out before" in details:
        return "; it took the connection and said nothing: is it overloaded or stopped, or is another program there?"
    if "refused" in details:
        return "; is an exchange running there (permitflow serve)?"
    return "; it hung up without a word: another program, one that expects TLS, or an exchange at tcp://host:port?"
