"""Reasons arrive, whatever is in them; names that could not are refused where they are given."""

import json
import pickle
from dataclasses import fields, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.errors import (
    ChannelAbortedError,
    InvalidParametersError,
    PeerGoneError,
    PermitflowError,
    SchemaMismatchError,
    StoreWriteError,
)
from permitflow.protocol.compression import CompressionAnswer
from permitflow.protocol.control import ChannelPosition, ChannelState, Positions
from permitflow.protocol.frames import Abort, Agreement, SameHostAnswer
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.traffic import ChannelTraffic, Statistics
from permitflow.transports.arrow import MAX_MESSAGE_BYTES, require_equal_schemas
from permitflow.transports.codec import decode_upstream, encode_upstream
from permitflow.transports.control_codec import decode_reply, encode_reply
from permitflow.transports.texts import MOST_CHARACTERS, require_text, sendable
from permitflow.transports.wire_errors import error_from_status, error_of, said, status_of
from tests.support.peers_by_hand import AGREED

# As Python reads a file name that is no UTF-8.
NAME = b"/data/\xff.csv".decode(errors="surrogateescape")
REASON, ARRIVES = f"cannot read {NAME}", "cannot read /data/?.csv"
texts = st.text(st.characters(exclude_categories=[]), max_size=20)


@given(texts, st.integers(1, 20))
def test_what_is_sent_is_the_beginning_and_utf_8_can_hold_it(text: str, most: int) -> None:
    sent = sendable(text, most)
    require_text("a text", sent)
    assert len(sent) == min(len(text), most)
    kept = text if len(text) <= most else text[: most - 1]
    assert all(one in (another, "?") for one, another in zip(sent, kept, strict=False))


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_a_proper_text_is_sent_as_it_is(text: str) -> None:
    require_text("a text", text)
    assert sendable(text) == text


def test_a_name_that_cannot_travel_is_refused() -> None:
    with pytest.raises(InvalidParametersError, match="channel must be text that UTF-8 can hold"):
        require_text("channel", NAME)


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


def counted(reason: str) -> str:
    numbers: dict[str, Any] = dict.fromkeys((field.name for field in fields(ChannelTraffic)), 0)
    numbers |= {"channel": "c", "state": "broken", "reason": reason, "compressed_streams": {}, "kept": None}
    traffic = ChannelTraffic(**numbers)
    reply = decode_reply(encode_reply(Statistics(0.0, (traffic,))))
    assert isinstance(reply, Statistics)
    return reply.channels[0].reason


@pytest.mark.parametrize("through", [aborted, positioned, counted])
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
    return error_of(said(error), who="the exchange")


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("over", [over_grpc, over_tcp])
def test_an_error_arrives_whatever_is_in_its_words(over: Any, error: Exception) -> None:
    arrived = over(error)
    assert ARRIVES in str(arrived)
    require_text("an error", f"{arrived} {arrived.facts}")


HOSTILE = "\x1b[2Ja\r\n2026-01-01 ERROR forged\x9b1A\u2028\u202eb"
SHOWN = r"\x1b[2Ja\r\n2026-01-01 ERROR forged\x9b1A\u2028\u202eb"


def test_the_words_of_an_error_are_one_printable_line_and_its_facts_are_as_they_came() -> None:
    error = ChannelAbortedError(channel="c", reason=HOSTILE)
    for one in (error, pickle.loads(pickle.dumps(error)), over_grpc(error), over_tcp(error)):
        assert isinstance(one, ChannelAbortedError)
        assert str(one) == one.message == f"channel 'c' was aborted by its sender: {SHOWN}"
        assert one.reason == HOSTILE
    assert str(over_grpc(OSError(HOSTILE))).startswith(f"the stream with the exchange failed: OSError: {SHOWN}")


def test_a_peer_that_tells_an_error_cannot_forge_lines() -> None:
    told = json.dumps({"type": "PeerGoneError", "message": HOSTILE, "facts": {"who": HOSTILE, "reason": ""}}).encode()
    error = error_from_status(None, None, (("permitflow-error-bin", told),), who="x")
    assert (str(error), error.facts["who"]) == (SHOWN, HOSTILE)
    assert SHOWN in str(error_from_status(None, HOSTILE, (), who="x"))


def test_names_of_fields_in_an_error_are_printable() -> None:
    ours, theirs = (pa.schema([pa.field(name, pa.int64())]) for name in ("a", HOSTILE))
    with pytest.raises(SchemaMismatchError) as caught:
        require_equal_schemas(ours=ours, theirs=theirs)
    assert str(caught.value) == f"schemas differ: here a: int64; at the peer {SHOWN}: int64"


def test_why_a_peer_refuses_something_is_printable_in_the_log() -> None:
    same_host, compression = SameHostAnswer(b"", HOSTILE), CompressionAnswer(None, HOSTILE)
    (message,) = encode_upstream([replace(AGREED, same_host=same_host, compression=compression)])
    (agreement,) = decode_upstream(b"".join(message))
    assert isinstance(agreement, Agreement)
    assert agreement.same_host == SameHostAnswer(b"", SHOWN)
    assert agreement.compression == CompressionAnswer(None, SHOWN)


def test_what_only_json_can_say_is_not_taken_over_from_a_peer() -> None:
    told = rb'{"type": "PeerGoneError", "message": "\udcff", "facts": {"who": "\udcff", "reason": ["\udcff"]}}'
    error = error_from_status(None, None, (("permitflow-error-bin", told),), who="x")
    assert isinstance(error, PeerGoneError)
    assert (error.message, error.facts) == ("?", {"who": "?", "reason": ("?",)})
    status = rb'{"code": "INTERNAL", "details": "\udcff", "error": null}'
    assert "failed: ? (gRPC status INTERNAL)" in str(error_of(status, who="x"))
