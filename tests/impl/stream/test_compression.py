"""Which codec two ends agree on: none unless one of them asks, none if one of them forbids, never one they lack."""

from itertools import product

import pytest

from permitflow import ChannelParameters
from permitflow.client import Compression
from permitflow.errors import InvalidParametersError, ParameterMismatchError
from permitflow.flows.permits.agreement import PERMITS
from permitflow.stream.compression import (
    UNCOMPRESSED,
    Codec,
    CompressionAnswer,
    CompressionOffer,
    checked,
    decided,
    offered,
    require_none_in_memory,
    require_offered,
)
from permitflow.stream.frames import Agreement, Get
from permitflow.stream.handshake import PROTOCOL_VERSION
from permitflow.stream.session import DownstreamSession

ALL = tuple(Codec)
AUTO, NONE, LZ4, ZSTD = Compression

AGREED = {
    # What the dialler's user wants, what the acceptor's wants, and what they agree on.
    (AUTO, AUTO): None,
    (AUTO, NONE): None,
    (AUTO, LZ4): Codec.LZ4,
    (AUTO, ZSTD): Codec.ZSTD,
    (NONE, AUTO): None,
    (NONE, NONE): None,
    (NONE, LZ4): None,
    (NONE, ZSTD): None,
    (LZ4, AUTO): Codec.LZ4,
    (LZ4, NONE): None,
    (LZ4, LZ4): Codec.LZ4,
    (LZ4, ZSTD): Codec.ZSTD,
    (ZSTD, AUTO): Codec.ZSTD,
    (ZSTD, NONE): None,
    (ZSTD, LZ4): Codec.LZ4,
    (ZSTD, ZSTD): Codec.ZSTD,
}


def test_compression_needs_one_end_that_asks_and_none_that_forbids() -> None:
    for (dialler, acceptor), codec in AGREED.items():
        answer = decided(offered(dialler, ALL), acceptor, ALL)
        assert answer.codec is codec, (dialler, acceptor)
        asked = dialler.codec or acceptor.codec
        assert bool(answer.refusal) == (asked is not None and answer.codec is None), (dialler, acceptor)
        assert answer.words == (answer.codec or (f"none: {answer.refusal}" if asked else "none"))


def test_no_end_has_to_read_a_codec_that_it_has_not() -> None:
    """Whatever the dialler claims: it may ask for something that it has not offered."""
    some = (ALL, (Codec.LZ4,), (Codec.ZSTD,), ())
    for policy, able, theirs, wanted in product(Compression, some, some, (None, *Codec)):
        answer = decided(CompressionOffer(theirs, wanted), policy, able)
        assert answer.codec is None or (answer.codec in able and answer.codec in theirs), (policy, able, theirs, wanted)


def test_through_shared_memory_nothing_is_compressed() -> None:
    for dialler, acceptor in product(Compression, Compression):
        answer = decided(offered(dialler, ALL), acceptor, ALL, shares_memory=True)
        assert answer.codec is None
        require_none_in_memory(answer)
        assert bool(dialler.codec or acceptor.codec) == (answer.refusal == "both ends share memory")


def test_an_acceptor_that_compresses_shared_memory_is_refused() -> None:
    with pytest.raises(ParameterMismatchError, match="compression must be none where both ends share memory"):
        require_none_in_memory(CompressionAnswer(Codec.ZSTD))


@pytest.mark.parametrize(
    ("policy", "words"),
    [("gzip", "must be one of auto, none, lz4, zstd, not 'gzip'"), ("zstd", "must be a codec of the")],
)
def test_a_codec_that_an_end_lacks_is_refused_at_once(policy: str, words: str) -> None:
    for refuse in (checked, offered):
        with pytest.raises(InvalidParametersError, match=f"compression {words}"):
            refuse(policy, (Codec.LZ4,))


def test_a_peer_that_knows_of_no_compression_compresses_nothing() -> None:
    assert decided(None, ZSTD, ALL).words == "none: the client has not offered it"
    assert require_offered(None, offered(ZSTD, ALL)).words == "none: the peer does not know how to compress"
    assert require_offered(None, offered(AUTO, ALL)) == UNCOMPRESSED


@pytest.mark.parametrize("policy", [NONE, LZ4])
def test_an_acceptor_that_decides_what_was_not_offered_is_refused(policy: Compression) -> None:
    get = Get(PROTOCOL_VERSION, "orders/0", compression=offered(policy, (Codec.LZ4,)))
    session: DownstreamSession[str] = DownstreamSession(get)
    stated = PERMITS.state(ChannelParameters())
    lie = Agreement(PROTOCOL_VERSION, "permits", stated, b"", compression=CompressionAnswer(Codec.ZSTD))
    with pytest.raises(ParameterMismatchError, match="compression must be one of the offered codecs"):
        session.receive(lie)
