"""Are record batches compressed on their way?  The dialler says what it can read and write, the acceptor decides.

Nothing is compressed unless one end asks for it and neither forbids it.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from permitflow.errors import InvalidParametersError, ParameterMismatchError

__all__ = [
    "UNCOMPRESSED",
    "Codec",
    "Compression",
    "CompressionAnswer",
    "CompressionOffer",
    "checked",
    "decided",
    "offered",
    "require_none_in_memory",
    "require_offered",
]


class Codec(StrEnum):
    """How a batch of chunks is compressed, as a whole."""

    LZ4 = "lz4"
    """Frames of LZ4: little work."""
    ZSTD = "zstd"
    """Zstandard: fewer bytes."""


class Compression(StrEnum):
    """What the user of one end wants."""

    AUTO = "auto"
    """What the other end asks for; nothing if it asks for nothing."""
    NONE = "none"
    """Nothing is compressed, whoever asks for it."""
    LZ4 = "lz4"
    """LZ4, if the other end can read and write it."""
    ZSTD = "zstd"
    """Zstandard, if the other end can read and write it."""

    @property
    def codec(self) -> Codec | None:
        """What is asked for, if anything is."""
        return None if self in (Compression.AUTO, Compression.NONE) else Codec(self.value)


class CompressionOffer(NamedTuple):
    """What a dialler says."""

    codecs: tuple[Codec, ...]
    """What it can read and write; codecs that are not known here are left out."""
    wanted: Codec | None = None
    """What it asks for."""


class CompressionAnswer(NamedTuple):
    """What the acceptor has decided."""

    codec: Codec | None
    """In which chunks may come from now on; None: none of them is compressed."""
    refusal: str = ""
    """Why not, if somebody has asked."""

    @property
    def words(self) -> str:
        """For statistics."""
        if self.codec is not None:
            return self.codec.value
        return f"none: {self.refusal}" if self.refusal else "none"


UNCOMPRESSED = CompressionAnswer(None)


def offered(policy: Compression | str, able: Collection[Codec]) -> CompressionOffer | None:
    """What a dialler says; None, as a peer that knows of no compression, if it wants none.

    Args:
        policy: what its user wants.
        able: what it can read and write.

    Raises:
        InvalidParametersError: the policy is none, or asks for a codec that is not there.
    """
    policy = checked(policy, able)
    if policy is Compression.NONE or not able:
        return None
    return CompressionOffer(tuple(codec for codec in Codec if codec in able), policy.codec)


def checked(policy: Compression | str, able: Collection[Codec]) -> Compression:
    """A policy that this end can follow.

    Raises:
        InvalidParametersError: it is none, or asks for a codec that is not there.
    """
    try:
        policy = Compression(policy)
    except ValueError:
        rule = f"must be one of {', '.join(Compression)}"
        raise InvalidParametersError(name="compression", value=policy, rule=rule) from None
    if policy.codec is not None and policy.codec not in able:
        rule = "is not part of the pyarrow that is installed here"
        raise InvalidParametersError(name="compression", value=policy.value, rule=rule)
    return policy


def decided(
    offer: CompressionOffer | None, policy: Compression, able: Collection[Codec], *, shares_memory: bool = False
) -> CompressionAnswer:
    """What the acceptor says: its own wish before the dialler's, and only what both can read and write.

    Args:
        offer: of the dialler.
        policy: of the acceptor's user.
        able: what the acceptor can read and write.
        shares_memory: do both ends?  Then there is nothing to gain.
    """
    codec = policy.codec or (offer.wanted if offer is not None else None)
    if codec is None:
        return UNCOMPRESSED
    if shares_memory:
        return CompressionAnswer(None, "both ends share memory")
    if policy is Compression.NONE:
        return CompressionAnswer(None, "it is switched off at the end that was dialled")
    if offer is None:
        return CompressionAnswer(None, "the end that dialled has not offered it")
    common = [each for each in offer.codecs if each in able]
    if codec not in common and offer.wanted in common:
        codec = offer.wanted
    if codec not in common:
        return CompressionAnswer(None, f"one end cannot read and write {codec}")
    return CompressionAnswer(codec)


def require_offered(answer: CompressionAnswer | None, offer: CompressionOffer | None) -> CompressionAnswer:
    """Check what the acceptor decided: it may lie, or be wrong.

    Raises:
        ParameterMismatchError: it has chosen a codec that this end has not offered.
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
            rule="must be one of those that were offered",
        )
    return answer


def require_none_in_memory(answer: CompressionAnswer) -> None:
    """Refuse what would have to be checked in memory that the peer can still change.

    Raises:
        ParameterMismatchError: the acceptor has chosen a codec for a stream that shares memory.
    """
    if answer.codec is not None:
        rule = "must be none where both ends share memory"
        raise ParameterMismatchError(name="compression", ours="none", theirs=answer.codec.value, rule=rule)
