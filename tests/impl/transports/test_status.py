"""A typed error arrives as the same type with the same facts; other statuses become errors that say who."""

import json
from base64 import b64encode
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow import errors
from permitflow.errors import (
    ChannelAbortedError,
    EndOfStream,
    InvalidParametersError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    PermitOverrunError,
    SchemaMismatchError,
    TransportError,
    UnexpectedFrameError,
    UnknownChannelError,
)
from permitflow.transports.connection import GET_STREAM, PUT_STREAM
from permitflow.transports.wire_errors import ERROR_KEY, error_from_status, status_of

SAMPLES: list[tuple[PermitflowError, grpc.StatusCode]] = [
    (UnknownChannelError(channel="x", known=("a", "b")), grpc.StatusCode.NOT_FOUND),
    (InvalidParametersError(name="row_permits", value=0, rule="must be at least 2"), grpc.StatusCode.INVALID_ARGUMENT),
    (errors.UndecodableDataError(what="a chunk", reason="no"), grpc.StatusCode.INVALID_ARGUMENT),
    (errors.ChunkTooLargeError(rows=1, size_bytes=3, limit_bytes=2), grpc.StatusCode.INVALID_ARGUMENT),
    (PermitOverrunError(permit_class="rows", returned=5, outstanding=3), grpc.StatusCode.FAILED_PRECONDITION),
    (
        errors.OverspendError(permit_class="rows", cost=5, available=3),
        grpc.StatusCode.FAILED_PRECONDITION,
    ),
    (
        errors.MispricedError(kind="chunk", rows=5, permits=1, cost=5),
        grpc.StatusCode.FAILED_PRECONDITION,
    ),
    (UnexpectedFrameError(frame="Data", expected="Put"), grpc.StatusCode.FAILED_PRECONDITION),
    (errors.LedgerError(what="rows", here=1, peer=2), grpc.StatusCode.FAILED_PRECONDITION),
    (errors.VersionMismatchError(ours=1, theirs=2), grpc.StatusCode.FAILED_PRECONDITION),
    (SchemaMismatchError(ours="a: int64", theirs="ä: int64"), grpc.StatusCode.FAILED_PRECONDITION),
    (
        errors.ParameterMismatchError(name="oversize", ours="split", theirs="whole", rule="must be the same"),
        grpc.StatusCode.FAILED_PRECONDITION,
    ),
    (errors.ChannelBusyError(channel="x", consumer="y"), grpc.StatusCode.FAILED_PRECONDITION),
    (errors.ChannelSpentError(channel="x", reason="y"), grpc.StatusCode.FAILED_PRECONDITION),
    (errors.ChannelClosedError(end="sender"), grpc.StatusCode.FAILED_PRECONDITION),
    (ChannelAbortedError(channel="x", reason="y"), grpc.StatusCode.ABORTED),
    (errors.RetentionError(channel="x", retention="once", rule="no"), grpc.StatusCode.FAILED_PRECONDITION),
    (errors.UnknownConsumerError(channel="x", consumer="y", known=("z",)), grpc.StatusCode.NOT_FOUND),
    (errors.RowsForgottenError(channel="x", wanted_row=1, first_kept_row=2), grpc.StatusCode.OUT_OF_RANGE),
    (errors.RowsNotThereError(channel="x", wanted_row=2, next_row=1), grpc.StatusCode.OUT_OF_RANGE),
    (errors.LogReplacedError(channel="x", wanted_log="y", log="z"), grpc.StatusCode.DATA_LOSS),
    (errors.ProducerReplacedError(channel="x", producer="y", by="z"), grpc.StatusCode.ABORTED),
    (PeerGoneError(who="x", reason="y"), grpc.StatusCode.UNAVAILABLE),
    (PeerTimeoutError(who="x", reason="y"), grpc.StatusCode.DEADLINE_EXCEEDED),
]


@pytest.mark.parametrize(("error", "code"), SAMPLES, ids=[type(error).__name__ for error, _ in SAMPLES])
def test_an_error_crosses_the_wire(error: PermitflowError, code: grpc.StatusCode) -> None:
    told = status_of(error)
    assert told[0] is code
    arrived = error_from_status(*told, who="the exchange at here:1")
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    told_facts = {name: value for name, value in error.facts.items() if name != "undelivered"}
    assert arrived.facts == told_facts
    assert all(getattr(arrived, name) == value for name, value in told_facts.items())
    assert arrived.__notes__ == ["reported by the exchange at here:1"]


def test_what_was_not_delivered_stays_at_home() -> None:
    _, _, metadata = status_of(PeerGoneError(who="x", reason="y", undelivered=b"secret rows"))
    assert b"secret" not in metadata[0][1]


@pytest.mark.parametrize("text", ["a" * 100_000, "ä" * 100_000, "\udfff" * 10_000, "𝄞" * 100_000, "\n" * 100_000])
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


def test_of_a_long_error_the_type_the_message_and_the_first_of_each_fact_arrive() -> None:
    known = tuple(f"{'lines' * 40}/{number}" for number in range(10_000))
    arrived = error_from_status(*status_of(UnknownChannelError(channel="orders", known=known)), who="x")
    assert isinstance(arrived, UnknownChannelError)
    assert str(arrived).startswith("unknown channel 'orders'; known channels: lineslines")
    assert arrived.channel == "orders"
    assert len(arrived.known) == 20
    assert all(name.startswith("lines") for name in arrived.known)


@pytest.mark.parametrize("error", [EndOfStream(), errors.WouldBlock(), ValueError("x")], ids=repr)
def test_what_must_not_look_like_an_ordinary_outcome_becomes_an_internal_error(error: Exception) -> None:
    code, details, metadata = status_of(error)
    assert code is grpc.StatusCode.INTERNAL
    assert isinstance(error_from_status(code, details, metadata, who="x"), TransportError)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, PeerGoneError),
        (grpc.StatusCode.CANCELLED, PeerGoneError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, PeerTimeoutError),
        (grpc.StatusCode.UNIMPLEMENTED, TransportError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, TransportError),
        (grpc.StatusCode.INTERNAL, TransportError),
        (None, TransportError),
    ],
)
def test_a_status_of_grpc_itself_says_who_and_why(code: grpc.StatusCode, kind: type[PermitflowError]) -> None:
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
    error = error_from_status(grpc.StatusCode.INTERNAL, "boom", metadata(told), who="x")
    assert type(error) is TransportError


@pytest.mark.parametrize("depth", [300, 700, 2_000, 20_000])
def test_facts_that_are_too_deep_are_not_believed_and_not_fallen_for(depth: int) -> None:
    told = b'{"type": "PeerGoneError", "message": "m", "facts": {"reason": ' + b"[" * depth + b"]" * depth + b"}}"
    assert type(error_from_status(grpc.StatusCode.INTERNAL, "", ((ERROR_KEY, told),), who="x")) in EITHER


def test_a_fact_that_is_none_is_a_text() -> None:
    told = {"type": "PeerGoneError", "message": "m", "facts": {"who": "y", "reason": {"a": "\udcff"}}}
    error = error_from_status(grpc.StatusCode.UNAVAILABLE, "", metadata(told), who="x")
    assert error.facts == {"who": "y", "reason": r"{'a': '\udcff'}"}


def test_a_peer_cannot_overwrite_what_every_error_has() -> None:
    facts = {"who": "y", "reason": "r", "__class__": "z", "args": [1], "add_note": 3, "no name": 4}
    told = {"type": "PeerGoneError", "message": "m", "facts": facts}
    error = error_from_status(grpc.StatusCode.UNAVAILABLE, "", metadata(told), who="x")
    assert error.facts == {"who": "y", "reason": "r"}
    assert error.args == ("m",)


@given(st.binary(max_size=100))
def test_any_bytes_in_the_metadata_are_survived(data: bytes) -> None:
    error = error_from_status(grpc.StatusCode.ABORTED, "d", ((ERROR_KEY, data), ("other", "text")), who="x")
    assert isinstance(error, PermitflowError)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    )
)
def test_any_json_in_the_metadata_is_survived(told: Any) -> None:
    sound = {"type": "PeerGoneError", "message": told, "facts": told}
    for one in (told, sound):
        assert isinstance(error_from_status(None, None, metadata(one), who="x"), PermitflowError)


def test_methods_are_named_by_the_definition() -> None:
    assert GET_STREAM == "/permitflow.wire.v1.ExchangeService/GetStream"
    assert PUT_STREAM == "/permitflow.wire.v1.ExchangeService/PutStream"
