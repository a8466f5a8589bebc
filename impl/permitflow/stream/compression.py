"""Negotiate the compression of record batches: the client offers codecs, the server decides.

Batches are compressed only if one end asks for it and neither end forbids it.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from permitflow.errors import InvalidParametersError, ParameterMismatchError


class Codec(StrEnum):
    """How a batch of chunks is compressed, as a whole."""

    LZ4 = "lz4"
    """LZ4 frames: little processor time."""
    ZSTD = "zstd"
    """Zstandard: fewer bytes."""


class Compression(StrEnum):
    """What the user of one end asks for."""

    AUTO = "auto"
    """Follow the other end: compress if it asks for that."""
    NONE = "none"
    """Never compress, even if the other end asks for it."""
    LZ4 = "lz4"
    """LZ4, if the other end can read and write it."""
    ZSTD = "zstd"
    """Zstandard, if the other end can read and write it."""

    @property
    def codec(self) -> Codec | None:
        """The codec that this policy asks for; None if it asks for none."""
        return None if self in (Compression.AUTO, Compression.NONE) else Codec(self.value)


class CompressionOffer(NamedTuple):
    """The client's part of the negotiation."""

    codecs: tuple[Codec, ...]
    """The codecs that the client can read and write; codecs unknown to this release are left out."""
    wanted: Codec | None = None
    """The codec that the client asks for."""


class CompressionAnswer(NamedTuple):
    """The server's decision."""

    codec: Codec | None
    """The codec of the chunks that follow; None: they are not compressed."""
    refusal: str = ""
    """Why nothing is compressed, if an end asked for compression."""

    @property
    def words(self) -> str:
        """For statistics."""
        if self.codec is not None:
            return self.codec.value
        return f"none: {self.refusal}" if self.refusal else "none"


UNCOMPRESSED = CompressionAnswer(None)


def offered(policy: Compression | str, able: Collection[Codec]) -> CompressionOffer | None:
    """The client's offer; None if its policy is off, like a peer without compression.

    Args:
        policy: of the client's user.
        able: the codecs that the client can read and write.

    Raises:
        InvalidParametersError: the policy is unknown, or its codec is not installed.
    """
    policy = checked(policy, able)
    if policy is Compression.NONE or not able:
        return None
    return CompressionOffer(tuple(codec for codec in Codec if codec in able), policy.codec)


def checked(policy: Compression | str, able: Collection[Codec]) -> Compression:
    """Check that this end can follow a policy.

    Raises:
        InvalidParametersError: the policy is unknown, or its codec is not installed.
    """
    try:
        policy = Compression(policy)
    except ValueError:
        rule = f"must be one of {', '.join(Compression)}"
        raise InvalidParametersError(name="compression", value=policy, rule=rule) from None
    if policy.codec is not None and policy.codec not in able:
        rule = "must be a codec of the installed pyarrow"
        raise InvalidParametersError(name="compression", value=policy.value, rule=rule)
    return policy


def decided(
    offer: CompressionOffer | None, policy: Compression, able: Collection[Codec], *, shares_memory: bool = False
) -> CompressionAnswer:
    """The server's decision: its own policy first, then the client's; only codecs that both can read and write.

    Args:
        offer: of the client.
        policy: of the server's user.
        able: the codecs that the server can read and write.
        shares_memory: the ends share memory, so that compression gains nothing.
    """
    codec = policy.codec or (offer.wanted if offer is not None else None)
    if codec is None:
        return UNCOMPRESSED
    if shares_memory:
        return CompressionAnswer(None, "both ends share memory")
    if policy is Compression.NONE:
        return CompressionAnswer(None, "the server has switched it off")
    if offer is None:
        return CompressionAnswer(None, "the client has not offered it")
    common = [each for each in offer.codecs if each in able]
    if codec not in common and offer.wanted in common:
        codec = offer.wanted
    if codec not in common:
        return CompressionAnswer(None, f"one end cannot read and write {codec}")
    return CompressionAnswer(codec)


def require_offered(answer: CompressionAnswer | None, offer: CompressionOffer | None) -> CompressionAnswer:
    """Check the server's decision; it may be wrong.

    Raises:
        ParameterMismatchError: the server has chosen a codec that this end has not offered.
    """
    if answer is None:
        asked = offer is not None and offer.wanted is not None
        return CompressionAnswer(None, "the peer does not know how to compress" if asked else "")
    codecs = offer.codecs if offer is not None else ()
    if answer.codec is not None and answer.codec not in codecs:
        raise ParameterMismatchError(
            name="compression",
            ours=", ".join(codecs) or "none",
            theirs=answer.codec.value,
            rule="must be one of the offered codecs",
        )
    return answer


def require_none_in_memory(answer: CompressionAnswer) -> None:
    """Refuse compression over shared memory: the peer could change the bytes while they are checked.

    Raises:
        ParameterMismatchError: the server has chosen a codec for a stream that shares memory.
    """
    if answer.codec is not None:
        rule = "must be none where both ends share memory"
        raise ParameterMismatchError(name="compression", ours="none", theirs=answer.codec.value, rule=rule)
