"""Output that waits for nobody: a server whose log is not read goes on, and counts the lines that it has dropped.

A thread writes.  A pipe holds 64 KiB; a program that wrote more itself would stand still until its reader goes on.
"""

import os
import select
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Thread
from typing import TextIO, cast

_MOST_CHARACTERS = 1 << 20
"""That wait; whatever comes then is dropped."""
_LONGEST_REST_SECONDS = 2.0
"""At the end, for all that waits."""


class _Unblocked:
    """Takes the place of a stream with a descriptor: all of ``TextIO`` that is used for output."""

    def __init__(self, stream: TextIO, dropped: Callable[[int], str], *, tells_errors: bool) -> None:
        self.encoding, self.errors, self.isatty = stream.encoding, stream.errors, stream.isatty
        self._descriptor, self._dropped = stream.fileno(), dropped
        self._waiting = deque[str]()
        self._characters = self._dropped_lines = 0
        self._is_writing = self._is_over = False
        self._tells_errors = tells_errors
        self._error: OSError | None = None
        self._changed = Condition()
        Thread(target=self._write_all, name=f"writing to {stream.name}", daemon=True).start()

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str, /) -> int:
        """Have it written later.

        Raises:
            OSError: what came before could not be written.
            TypeError: it is no text, by which libraries find out what a stream takes.
        """
        if not isinstance(text, str):
            raise TypeError(f"must be a str, not {type(text).__name__}")
        with self._changed:
            self._complain()
            # Once something was dropped, all that waits is written first, then how much was dropped.
            if self._dropped_lines or self._characters >= _MOST_CHARACTERS:
                self._dropped_lines += text.count("\n")
            else:
                self._characters += len(text)
                self._waiting.append(text)
                self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Wait for nothing.

        Raises:
            OSError: as ``write``.
        """
        with self._changed:
            self._complain()

    def _complain(self) -> None:
        error, self._error = self._error, None
        if error is not None and self._tells_errors:
            raise error

    def end(self) -> None:
        """Wait for a while until all is written."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: not (self._waiting or self._dropped_lines or self._is_writing), _LONGEST_REST_SECONDS
            )

    def _write_all(self) -> None:
        missing_lines, last = 0, b"\n"
        while (found := self._next()) is not None:
            text, dropped_lines = found
            note, text_bytes = "", len(encoded := self._encoded(text))
            if missing_lines := missing_lines + dropped_lines:
                # A full disk may have taken half of a line.
                note = ("" if last == b"\n" else "\n") + self._dropped(missing_lines)
            rest = memoryview(self._encoded(note) + encoded)
            try:
                while rest:
                    try:
                        written = os.write(self._descriptor, rest)
                        last, rest = bytes(rest[written - 1 : written]), rest[written:]
                    except BlockingIOError:
                        select.select((), (self._descriptor,), ())
                missing_lines = 0
            except OSError as error:
                if len(rest) <= text_bytes:
                    missing_lines = 0
                missing_lines += bytes(rest[max(0, len(rest) - text_bytes) :]).count(b"\n")
                with self._changed:
                    self._error = error

    def _encoded(self, text: str) -> bytes:
        return text.encode(self.encoding, "backslashreplace")

    def _next(self) -> tuple[str, int] | None:
        """What is to be written next, and how many lines were dropped before it; None: nothing any more."""
        with self._changed:
            self._is_writing = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._dropped_lines or self._is_over)
            if self._waiting:
                text = self._waiting.popleft()
                self._characters -= len(text)
                lines = 0
            elif self._dropped_lines:
                text = ""
                lines, self._dropped_lines = self._dropped_lines, 0
            else:
                return None
            self._is_writing = True
            return text, lines


@contextmanager
def unblocked_output(dropped: Callable[[int], str]) -> Iterator[None]:
    """Let standard output and standard error wait for nobody while the block runs.

    An error of standard output is told by a later write.  One of standard error is not, because whoever logs could
    only say so there: it goes on once there is room.

    Args:
        dropped: the line about so many that are missing on standard output, for who reads it again.
    """
    former, made = (sys.stdout, sys.stderr), list[_Unblocked]()
    try:
        sys.stdout = _unblocked(sys.stdout, dropped, made, tells_errors=True)
        sys.stderr = _unblocked(sys.stderr, dropped_in_words, made, tells_errors=False)
        yield
    finally:
        sys.stdout, sys.stderr = former
        for each in made:
            each.end()


def _unblocked(stream: TextIO, dropped: Callable[[int], str], made: list[_Unblocked], *, tells_errors: bool) -> TextIO:
    try:
        stream.flush()
        stream.fileno()
    except OSError:  # it is gone, or in memory
        return stream
    made.append(new := _Unblocked(stream, dropped, tells_errors=tells_errors))
    return cast(TextIO, new)


def dropped_in_words(lines: int) -> str:
    """The line about so many that are missing."""
    return f"{lines:,} lines are missing here: this output could not be written for a while\n"
