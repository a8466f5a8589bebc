"""What travels over the Unix socket: messages as they are, and notes of those that lie in the ring.

A header of 16 bytes, then the message unless the ring has it.
"""

import struct
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from permitflow.errors import UndecodableDataError
from permitflow.transports.shared_memory.space import Place

__all__ = ["NoteReader", "inline_header", "place_note"]

_HEADER = struct.Struct("<4sIII")
_INLINE = b"pf:m"
_PLACED = b"pf:r"

_BUFFER_BYTES = 128 << 10


inline_header: Callable[[int], bytes] = partial(struct.Struct("<4sI8x").pack, _INLINE)
"""What goes before a message of so many bytes: a header whose last two numbers are 0."""


def place_note(place: Place) -> bytes:
    """The note of a message in the ring."""
    return _HEADER.pack(_PLACED, place.size, place.offset, place.space)


class _Partial(NamedTuple):
    """A message that is too long for the buffer, and has begun to arrive."""

    content: bytearray
    filled: int


class NoteReader:
    """Takes bytes as the socket gives them, and says which messages are complete.  Does no I/O."""

    def __init__(self, most_bytes: int) -> None:
        """``most_bytes``: a peer that announces a longer message breaks the rules."""
        self._most_bytes = most_bytes
        self._buffer = bytearray(_BUFFER_BYTES)
        self._filled = 0
        self._partial: _Partial | None = None

    @property
    def is_between_messages(self) -> bool:
        """Has nothing of a further message arrived?"""
        return not self._filled and self._partial is None

    def room(self) -> memoryview:
        """Where the next bytes are to be put; as many as fit."""
        if self._partial is not None:
            return memoryview(self._partial.content)[self._partial.filled :]
        return memoryview(self._buffer)[self._filled :]

    def take(self, count: int) -> list[bytes | memoryview | Place]:
        """Note that ``count`` bytes were put into ``room``; the messages that are complete now.

        Raises:
            UndecodableDataError: these are no messages.
        """
        if self._partial is not None:
            return self._take_partial(self._partial, count)
        self._filled += count
        view = memoryview(self._buffer)
        messages: list[bytes | memoryview | Place] = []
        at = 0
        while self._filled - at >= _HEADER.size:
            mark, size, offset, space = _HEADER.unpack_from(view, at)
            if mark == _PLACED:
                messages.append(Place(offset, size, space))
                at += _HEADER.size
                continue
            if mark != _INLINE or size > self._most_bytes:
                raise self._refusal(mark, size)
            end = at + _HEADER.size + size
            if end > self._filled:
                break
            messages.append(bytes(view[at + _HEADER.size : end]))
            at = end
        if at == self._filled:
            self._filled = 0
        else:
            self._keep(view, at)
        return messages

    def _take_partial(self, partial: _Partial, count: int) -> list[bytes | memoryview | Place]:
        filled = partial.filled + count
        if filled < len(partial.content):
            self._partial = partial._replace(filled=filled)
            return []
        self._partial = None
        return [memoryview(partial.content).toreadonly()]

    def _keep(self, view: memoryview, at: int) -> None:
        """Move what is incomplete to where its rest fits behind it."""
        left = self._filled - at
        if left >= _HEADER.size:
            size = _HEADER.unpack_from(view, at)[1]
            if _HEADER.size + size > _BUFFER_BYTES // 2:
                content = bytearray(size)
                filled = left - _HEADER.size
                content[:filled] = view[at + _HEADER.size : self._filled]
                self._partial, self._filled = _Partial(content, filled), 0
                return
        if at:
            view[:left] = bytes(view[at : self._filled])
            self._filled = left

    def _refusal(self, mark: bytes, size: int) -> UndecodableDataError:
        reason = f"it begins with {mark!r} and has {size} bytes, of at most {self._most_bytes}"
        return UndecodableDataError(what="a message over the Unix socket", reason=reason)
