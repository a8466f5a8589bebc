"""Errors across the wire: the same type with the same facts, any text in them; and what kind of stranger answers."""

import asyncio
import json
import pickle
import socket
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow import ChannelParameters
from permitflow.client import ChannelPosition, ChannelState, get
from permitflow.client.blocking import control, open_source
from permitflow.errors import (
    ChannelAbortedError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    RemoteProtocolError,
    SchemaMismatchError,
    StoreWriteError,
    TransportError,
    UnknownChannelError,
    WouldBlock,
)
from permitflow.stream.control import Positions
from permitflow.stream.frames import Abort
from permitflow.wire.arrow import MAX_MESSAGE_BYTES
from permitflow.wire.codec import decode_upstream, encode_upstream
from permitflow.wire.control_codec import decode_reply
from permitflow.wire.texts import MOST_CHARACTERS, require_text, sendable
from permitflow.wire.wire_errors import ERROR_KEY, decode_status, encode_status, error_from_status, status_of
from tests.impl.test_errors import CLASSES, sample
from tests.support.carriers import encode_reply

STAYING = {"EndOfStream", "WouldBlock"}
"""A status must not look like an ordinary end."""
TOLD = [cls for cls in CLASSES if status_of(sample(cls))[2]]


@pytest.mark.parametrize("cls", TOLD)
def test_an_error_crosses_the_wire(cls: type[PermitflowError]) -> None:
    error = sample(cls)
    arrived = error_from_status(*status_of(error), who="the exchange at here:1")
    assert type(arrived) is cls
    assert str(arrived) == str(error)
    told_facts = {name: value for name, value in error.facts.items() if name != "undelivered"}
    assert arrived.facts == told_facts
    assert all(getattr(arrived, name) == value for name, value in told_facts.items())
    assert arrived.__notes__ == ["reported by the exchange at here:1"]


def test_errors_cross_the_wire_with_a_status_that_clients_know() -> None:
    assert {cls for cls in CLASSES if issubclass(cls, RemoteProtocolError) and not cls.__subclasses__()} <= {*TOLD}
    assert not STAYING & {cls.__name__ for cls in TOLD}
    for cls, code in (
        (UnknownChannelError, "NOT_FOUND"),
        (PeerGoneError, "UNAVAILABLE"),
        (PeerTimeoutError, "DEADLINE_EXCEEDED"),
        (ChannelAbortedError, "ABORTED"),
        (SchemaMismatchError, "FAILED_PRECONDITION"),
        (WouldBlock, "INTERNAL"),
    ):
        assert status_of(sample(cls))[0] == code


def test_undelivered_rows_do_not_cross_the_wire() -> None:
    _, _, metadata = status_of(PeerGoneError(who="x", reason="y", undelivered=b"secret rows"))
    assert b"secret" not in metadata[0][1]


@pytest.mark.parametrize("text", ["a" * 100_000, "ä" * 100_000, "\udfff" * 10_000, "𝄞" * 100_000, "\n" * 10_000])
@pytest.mark.parametrize("kind", [SchemaMismatchError, UnknownChannelError, ValueError])
def test_the_longest_error_takes_less_than_6_kib_of_metadata(kind: type[Exception], text: str) -> None:
    error = {
        SchemaMismatchError: SchemaMismatchError(ours=text, theirs=text),
        UnknownChannelError: UnknownChannelError(channel=text, known=(text,) * 10_000),
    }.get(kind, ValueError(text))
    code, details, metadata = status_of(error)
    told = [b64encode(value) for _, value in metadata if isinstance(value, bytes)]
    as_grpc_writes_it = sum(1 if 0x20 <= byte <= 0x7E and byte != ord("%") else 3 for byte in details.encode())
    assert as_grpc_writes_it + sum(map(len, told)) < (6 << 10) - 256  # other trailers take some, too
    arrived = error_from_status(code, details, metadata, who="x")
    assert isinstance(arrived, TransportError if kind is ValueError else kind)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("UNAVAILABLE", PeerGoneError),
        ("CANCELLED", PeerGoneError),
        ("DEADLINE_EXCEEDED", PeerTimeoutError),
        ("UNIMPLEMENTED", TransportError),
        ("RESOURCE_EXHAUSTED", TransportError),
        ("INTERNAL", TransportError),
        (None, TransportError),
    ],
)
def test_a_status_of_grpc_itself_says_who_and_why(code: str | None, kind: type[PermitflowError]) -> None:
    error = error_from_status(code, "Socket closed", (), who="the exchange at here:1")
    assert type(error) is kind
    assert "the exchange at here:1" in str(error)
    assert "Socket closed" in str(error)


EITHER = (TransportError, PeerGoneError)


def metadata(told: object) -> tuple[tuple[str, bytes]]:
    return ((ERROR_KEY, json.dumps(told).encode()),)


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        "text",
        {},
        {"type": "EndOfStream", "message": "", "facts": {}},
        {"type": "SystemExit", "message": "", "facts": {}},
        {"type": ["x"], "message": "", "facts": {}},
        {"type": "PeerGoneError", "message": "m"},
        {"type": "PeerGoneError", "message": "m", "facts": 3},
        {"type": "PeerGoneError", "message": "m", "facts": {"who": "x"}},
        {"type": "ChannelAbortedError", "message": "m", "facts": {}},
    ],
    ids=str,
)
def test_a_peer_that_tells_nonsense_is_not_believed(told: object) -> None:
    error = error_from_status("INTERNAL", "boom", metadata(told), who="x")
    assert type(error) is TransportError


@pytest.mark.parametrize("depth", [300, 20_000])
def test_facts_that_are_too_deep_are_not_believed_and_not_fallen_for(depth: int) -> None:
    told = b'{"type": "PeerGoneError", "message": "m", "facts": {"reason": ' + b"[" * depth + b"]" * depth + b"}}"
    assert type(error_from_status("INTERNAL", "", ((ERROR_KEY, told),), who="x")) in EITHER


# As Python reads a file name that is no UTF-8.
NAME = b"/data/\xff.csv".decode(errors="surrogateescape")
REASON, ARRIVES = f"cannot read {NAME}", "cannot read /data/?.csv"
texts = st.text(st.characters(exclude_categories=[]), max_size=20)


@given(texts, st.integers(1, 20))
def test_a_sent_text_is_the_beginning_and_utf_8_can_hold_it(text: str, most: int) -> None:
    sent = sendable(text, most)
    require_text("a text", sent)
    assert len(sent) == min(len(text), most)
    kept = text if len(text) <= most else text[: most - 1]
    assert all(one in (another, "?") for one, another in zip(sent, kept, strict=False))


def aborted(reason: str) -> str:
    (message,) = encode_upstream([Abort(reason)])
    (frame,) = decode_upstream(b"".join(message))
    assert isinstance(frame, Abort)
    return frame.reason


def positioned(reason: str) -> str:
    channel: ChannelPosition[pa.Schema] = ChannelPosition(
        "c", 0, 0, ChannelState.BROKEN, reason, ChannelParameters(row_permits=8), None, ""
    )
    reply = decode_reply(encode_reply(Positions((channel,))))
    assert isinstance(reply, Positions)
    return reply.channels[0].reason


@pytest.mark.parametrize("through", [aborted, positioned])
def test_the_reason_of_a_channels_end_arrives_whatever_is_in_it(through: Any) -> None:
    assert through("well") == "well"
    assert through(REASON) == ARRIVES
    assert through("x" * (MAX_MESSAGE_BYTES + 1)) == "x" * (MOST_CHARACTERS - 1) + "…"


ERRORS = [StoreWriteError(path=NAME, reason=REASON), ChannelAbortedError(channel="c", reason=REASON), OSError(REASON)]


def over_grpc(error: Exception) -> PermitflowError:
    code, details, metadata = status_of(error)
    details.encode()
    return error_from_status(code, details, metadata, who="the exchange")


def over_tcp(error: Exception) -> PermitflowError:
    return decode_status(encode_status(error), who="the exchange")


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("over", [over_grpc, over_tcp])
def test_an_error_arrives_whatever_is_in_its_words(over: Any, error: Exception) -> None:
    arrived = over(error)
    assert ARRIVES in str(arrived)
    require_text("an error", f"{arrived} {arrived.facts}")


HOSTILE = "\x1b[2Ja\r\n2026-01-01 ERROR forged\x9b1A\u2028\u202eb"
SHOWN = r"\x1b[2Ja\r\n2026-01-01 ERROR forged\x9b1A\u2028\u202eb"


def test_an_errors_words_are_printable_and_its_facts_unchanged() -> None:
    error = ChannelAbortedError(channel="c", reason=HOSTILE)
    for one in (error, pickle.loads(pickle.dumps(error)), over_grpc(error), over_tcp(error)):
        assert isinstance(one, ChannelAbortedError)
        assert str(one) == one.message == f"channel 'c' was aborted: {SHOWN}"
        assert one.reason == HOSTILE
    assert str(over_grpc(OSError(HOSTILE))).startswith(f"the stream with the exchange failed: OSError: {SHOWN}")


def test_a_peer_that_tells_an_error_cannot_forge_lines() -> None:
    told = json.dumps({"type": "PeerGoneError", "message": HOSTILE, "facts": {"who": HOSTILE, "reason": ""}}).encode()
    error = error_from_status(None, None, (("permitflow-error-bin", told),), who="x")
    assert (str(error), error.facts["who"]) == (SHOWN, HOSTILE)
    assert SHOWN in str(error_from_status(None, HOSTILE, (), who="x"))


@pytest.mark.parametrize(
    "told",
    [
        {"message": "the table is gone"},
        {"type": "NoSuchTable", "message": "the table is gone"},
        {"type": "PeerGoneError", "message": "the table is gone", "facts": {}},
        {"type": ["PeerGoneError"], "message": "the table is gone", "facts": None},
    ],
    ids=["alone", "of an unknown type", "without facts", "malformed"],
)
def test_the_message_of_an_error_of_any_type_is_told(told: dict[str, object]) -> None:
    metadata = (("permitflow-error-bin", json.dumps(told).encode()),)
    assert "the table is gone" in str(error_from_status("ABORTED", "", metadata, who="x"))


@pytest.mark.parametrize("told", [b"", b"[]", b'{"message": 7}', b"{", b"[" * 100_000])
def test_an_error_without_a_message_leaves_the_status(told: bytes) -> None:
    error = error_from_status("ABORTED", "details", (("permitflow-error-bin", told),), who="x")
    assert str(error) == "the stream with x failed: details (gRPC status ABORTED)"


GUARD_SECONDS = 60.0
HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
SSH = b"SSH-2.0-OpenSSH_9.6\r\n"
SETTINGS = b"\0\0\x12\x04\0\0\0\0\0"


@contextmanager
def stranger(greeting: bytes) -> Iterator[str]:
    """Listen; greet each client after its first bytes, and hang up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # it was shut down
                return
            with connection, suppress(OSError):  # he may have hung up
                connection.recv(1 << 16)
                connection.sendall(greeting)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def dial_blocking(address: str, run: asyncio.Runner) -> None:
    open_source(address, "orders/0", timeout_seconds=GUARD_SECONDS)


def dial_asyncio(address: str, run: asyncio.Runner) -> None:
    # gRPC takes a stranger for an exchange that is about to start, and tries for as long as it may.
    seconds = GUARD_SECONDS if address.startswith("tcp://") else 0.5

    async def dial() -> None:
        async with get(address, "orders/0", connect_timeout_seconds=seconds):
            pass

    run.run(dial())


def ask(address: str, run: asyncio.Runner | None = None, seconds: float = GUARD_SECONDS) -> None:
    with control(address, timeout_seconds=seconds) as questions:
        questions.statistics()


Dial = Callable[[str, asyncio.Runner], None]


@pytest.mark.parametrize("details", ["ping timeout", "Stream removed (ping timeout)"])
def test_an_end_that_was_stopped_is_asked_whether_it_was(details: str) -> None:
    """gRPC says the same of both ends."""
    error = error_from_status("UNAVAILABLE", details, (), who="the exchange")
    assert isinstance(error, PeerGoneError)
    assert "or was this process stopped or suspended?" in str(error)


def test_one_that_takes_the_connection_and_is_silent_may_be_stopped() -> None:
    """gRPC gives up after 20 seconds of its own."""
    details = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: connection attempt timed out"
    error = error_from_status("UNAVAILABLE", f"{details} before receiving SETTINGS frame", (), who="the exchange")
    assert "is it overloaded or stopped" in str(error)


@pytest.mark.parametrize("dial", [dial_blocking, dial_asyncio, ask])
@pytest.mark.parametrize(
    ("scheme", "greeting", "told"),
    [
        ("tcp://", HTTP, "an HTTP server's"),
        ("tcp://", SSH, "an SSH server's"),
        ("tcp://", SETTINGS, "a gRPC server's: dial it as host:port"),
        ("tcp://", b"", "it has never said a word"),
        ("", HTTP, "an HTTP server listens there"),
        ("", SSH, "another program listens there"),
        ("", b"", "it hung up without a word"),
    ],
)
def test_the_error_says_who_is_there(
    monkeypatch: pytest.MonkeyPatch, run: asyncio.Runner, dial: Dial, scheme: str, greeting: bytes, told: str
) -> None:
    monkeypatch.setattr("permitflow.carriers.grpc_calls._REASON_SECONDS", GUARD_SECONDS)
    with stranger(greeting) as address, pytest.raises(PermitflowError) as caught:
        dial(scheme + address, run)
    assert told in caught.value.message
    assert scheme + address in caught.value.message


def test_one_that_does_not_answer_may_be_another_program() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        for scheme in ("tcp://", ""):
            with pytest.raises(PeerTimeoutError, match="does another program listen there"):
                ask(f"{scheme}127.0.0.1:{port}", seconds=0.1)


def test_a_port_without_a_listener_wants_an_exchange() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        for scheme in ("tcp://", ""):
            with pytest.raises(PeerGoneError, match="is an exchange running there"):
                ask(f"{scheme}127.0.0.1:{port}")
