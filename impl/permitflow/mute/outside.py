"""The outside of a pipeline, for demonstrations and tests: a sender of words, and a reader that can stand still."""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from permitflow.mute.sockets import Address, Buffers, Listener, Outlet, connected, sizes_of

WORDS_AT_ONCE = 256


class WordSender:
    """Sends words, one a line, as fast as the kernel takes them; then ends its stream."""

    def __init__(self, words: Iterable[bytes], buffers: Buffers, on_sent: Callable[[], None] = lambda: None) -> None:
        """``on_sent`` is called whenever the kernel has taken bytes."""
        self._words: Iterator[bytes] = iter(words)
        self._buffers, self._on_sent = buffers, on_sent
        self._made_bytes = 0
        self._outlet: Outlet | None = None
        self.sizes = buffers
        self.ended = asyncio.Event()
        """Has the kernel taken everything, or was the connection lost?"""
        self.failure: OSError | None = None

    async def connect(self, address: Address) -> None:
        """Connect and begin.

        Raises:
            OSError: nobody is there.
        """
        made = await connected(address, self._buffers)
        self.sizes = sizes_of(made)
        self._outlet = Outlet(made, on_rest=self._on_rest, on_lost=self._on_lost)
        asyncio.get_running_loop().call_soon(self._send_more)

    @property
    def sent_bytes(self) -> int:
        """Bytes that the kernel has taken."""
        return self._made_bytes - (0 if self._outlet is None else self._outlet.rest_bytes)

    @property
    def is_blocked(self) -> bool:
        """Does the kernel take no more?"""
        return self._outlet is not None and self._outlet.rest_bytes > 0

    def _send_more(self) -> None:
        if self._outlet is None or self.is_blocked or self.ended.is_set():
            return
        text = b"".join(word + b"\n" for word in islice(self._words, WORDS_AT_ONCE))
        if not text:
            self._outlet.finish()
            self.ended.set()
            return
        self._made_bytes += len(text)
        self._outlet.write(text)
        self._on_sent()
        if not self.is_blocked:
            # The loop has a turn between two writes.
            asyncio.get_running_loop().call_soon(self._send_more)

    def _on_rest(self, rest_bytes: int) -> None:
        self._on_sent()
        if not rest_bytes:
            asyncio.get_running_loop().call_soon(self._send_more)

    def _on_lost(self, error: OSError) -> None:
        self.failure = error
        self.ended.set()

    def close(self) -> None:
        """Break the connection off."""
        self.ended.set()
        if self._outlet is not None:
            self._outlet.close()


class CountReader:
    """Listens for a sink, and reads counts; ``stand_still`` and ``go_on`` make it as slow as one likes."""

    def __init__(self, buffers: Buffers, address: Address = ("127.0.0.1", 0)) -> None:
        """Listen; a later connection replaces an earlier one.

        Raises:
            OSError: the address cannot be had.
        """
        self._loop = asyncio.get_running_loop()
        self._listener = Listener(address, buffers, self._on_connection)
        self.address, self.sizes = self._listener.address, self._listener.sizes
        self.counts: Counter[bytes] = Counter()
        """The largest count of each word so far."""
        self.lines = 0
        """Counts received so far."""
        self.counted_bytes = 0
        """Bytes of input that are in the counts: each word, and the end of its line."""
        self.ended = asyncio.Event()
        """Has a sink closed its connection?"""
        self._begun = b""
        self._socket: socket.socket | None = None
        self._is_reading = True

    def _on_connection(self, accepted: socket.socket) -> None:
        self._hang_up()
        self._socket = accepted
        self._begun = b""
        self.ended.clear()
        if self._is_reading:
            self.go_on()

    def stand_still(self) -> None:
        """Read nothing more."""
        self._is_reading = False
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())

    def go_on(self) -> None:
        """Read as fast as possible."""
        self._is_reading = True
        if self._socket is not None:
            self._loop.add_reader(self._socket.fileno(), self.read)

    def read(self, most_bytes: int = 65_536) -> None:
        """Read once, if anything is there; also while standing still."""
        if self._socket is None:
            return
        try:
            data = self._socket.recv(most_bytes)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self._hang_up()
            self.ended.set()
            return
        *lines, self._begun = (self._begun + data).split(b"\n")
        self.lines += len(lines)
        for line in lines:
            word, _, count = line.partition(b"\t")
            # A count that is told again, or is smaller, is known.
            if (more := int(count) - self.counts[word]) > 0:
                self.counts[word] += more
                self.counted_bytes += more * (len(word) + 1)

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """Listen no more, and break the connection off."""
        self._hang_up()
        self._listener.close()
