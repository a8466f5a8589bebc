"""The outside of a pipeline, for demonstrations and tests: a sender of words, and a reader that can stand still."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from permitflow.carriers.accepting import accepted
from permitflow.mute.sockets import (
    Address,
    BufferedConnection,
    Buffers,
    close_listening,
    connected,
    listening,
    sizes_of,
    transported,
)

WORDS_AT_ONCE = 256


class WordSender(BufferedConnection):
    """Sends words, one a line, as fast as the kernel takes them; then ends its stream."""

    def __init__(self, words: Iterable[bytes], buffers: Buffers, on_sent: Callable[[], None] = lambda: None) -> None:
        """``on_sent`` is called whenever the kernel has taken bytes."""
        self._words: Iterator[bytes] = iter(words)
        self._buffers, self._on_sent = buffers, on_sent
        self._made_bytes = 0
        self.buffer = bytearray(1_024)
        self.sizes = buffers
        self.ended = asyncio.Event()
        """Has the kernel taken everything, or was the connection lost?"""
        self.failure: OSError | None = None

    async def connect(self, address: Address) -> None:
        """Connect and begin.

        Raises:
            OSError: nobody is there.
        """
        made = await connected(address, self._buffers, may_stand_still=True)
        self.sizes = sizes_of(made)
        await transported(self, made)
        self._send_soon()

    def on_made(self, transport: asyncio.Transport) -> None:
        """See ``BufferedConnection``."""
        transport.set_write_buffer_limits(high=0)

    @property
    def sent_bytes(self) -> int:
        """Bytes that the kernel has taken."""
        return self._made_bytes - self.rest_bytes

    @property
    def is_blocked(self) -> bool:
        """Does the kernel take no more?"""
        return self.rest_bytes > 0

    def _send_soon(self) -> None:
        # The loop has a turn between two writes.
        asyncio.get_running_loop().call_soon(self._send_more)

    def _send_more(self) -> None:
        if self.transport is None or self.is_blocked or self.ended.is_set():
            return
        text = b"".join(word + b"\n" for word in islice(self._words, WORDS_AT_ONCE))
        if not text:
            self.ended.set()
            self.transport.close()
            return
        self._made_bytes += len(text)
        self.transport.write(text)
        self._on_sent()
        if not self.is_blocked:
            self._send_soon()

    def resume_writing(self) -> None:
        """See ``asyncio``: the kernel has taken all."""
        self._on_sent()
        self._send_soon()

    def connection_lost(self, error: Exception | None) -> None:
        """See ``asyncio``."""
        if not self.ended.is_set():
            self.failure = error if isinstance(error, OSError) else ConnectionResetError("the source has hung up")
            self.ended.set()

    def close(self) -> None:
        """Break the connection off."""
        self.ended.set()
        self.break_off()


class CountReader(BufferedConnection):
    """Listens for a sink, and reads counts; ``stand_still`` and ``go_on`` make it as slow as one likes."""

    def __init__(self, buffers: Buffers, address: Address = ("127.0.0.1", 0)) -> None:
        """Listen; a later connection replaces an earlier one.

        Raises:
            OSError: the address cannot be had.
        """
        self._buffers = buffers
        self._listening = listening(address, buffers)
        self.address, self.sizes = self._listening.getsockname(), sizes_of(self._listening)
        self.counts: Counter[bytes] = Counter()
        """The largest count of each word so far."""
        self.lines = 0
        """Counts received so far."""
        self.counted_bytes = 0
        """Bytes of input that are in the counts: each word, and the end of its line."""
        self.ended = asyncio.Event()
        """Has a sink closed its connection?"""
        self._begun = b""
        self.buffer = bytearray(65_536)
        self._is_reading = True
        self._accepting = asyncio.create_task(self._accept(), name=f"a reader at {self.address}")

    async def _accept(self) -> None:
        async for connection, _ in accepted(self._listening, lambda reason: None):
            self.break_off()
            await transported(self, connection)

    async def visit(self, address: Address) -> None:
        """Connect to a sink that listens.

        Raises:
            OSError: nobody is there.
        """
        await transported(self, await connected(address, self._buffers))

    def on_made(self, transport: asyncio.Transport) -> None:
        """See ``BufferedConnection``."""
        self._begun = b""
        self.ended.clear()
        if not self._is_reading:
            transport.pause_reading()

    def stand_still(self) -> None:
        """Read nothing more."""
        self._is_reading = False
        if self.transport is not None:
            self.transport.pause_reading()

    def go_on(self) -> None:
        """Read as fast as possible."""
        self._is_reading = True
        if self.transport is not None:
            self.transport.resume_reading()

    def buffer_updated(self, nbytes: int) -> None:
        """See ``asyncio``: counts have come."""
        *lines, self._begun = (self._begun + self.buffer[:nbytes]).split(b"\n")
        self.lines += len(lines)
        for line in lines:
            word, _, count = line.partition(b"\t")
            # A count that is told again, or is smaller, is known.
            if (more := int(count) - self.counts[word]) > 0:
                self.counts[word] += more
                self.counted_bytes += more * (len(word) + 1)

    def connection_lost(self, error: Exception | None) -> None:
        """See ``asyncio``."""
        self.ended.set()

    def close(self) -> None:
        """Listen no more, and break the connection off."""
        self.break_off()
        self._accepting.cancel()
        close_listening(self._listening)
