"""The steps between sources and sinks: split lines into words, count, and write each word's count as a line."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

from permitflow.errors import SavedCountsError
from permitflow.mute.pipeline import Lines, Sink

_SAVE_AGAIN_SECONDS = 1.0


class WordCount:
    """Counts the words of all lines; each occurrence of a word makes a line ``word<TAB>count`` for one of the sinks.

    A line that comes again, from an origin that repeats what was not acknowledged, is not counted again.  The counts of
    a word only grow: a reader that takes the largest one has the exact count, whatever it reads twice.
    """

    def __init__(self) -> None:
        """Nothing is counted yet; add ``sinks`` before ``take``."""
        self.sinks: list[Sink] = []
        """Each word always goes to the same one."""
        self.counts: Counter[bytes] = Counter()
        self.next_lines: dict[str, int] = {}
        """For each origin, the number of the line that comes next."""

    def take(self, batch: Lines) -> None:
        """Count lines, and write; never waits."""
        known = self.next_lines.get(batch.origin, 0)
        fresh = batch.lines[max(0, known - batch.first) :]
        self.next_lines[batch.origin] = max(known, batch.first + len(batch.lines))
        counts, outputs = self.counts, [bytearray() for _ in self.sinks]
        for line in fresh:
            for word in line.split():
                counts[word] += 1
                outputs[self._sink_of(word)] += b"%s\t%d\n" % (word, counts[word])
        for sink, output in zip(self.sinks, outputs, strict=True):
            if output:
                sink.write(bytes(output))

    def _sink_of(self, word: bytes) -> int:
        return crc32(word) % len(self.sinks) if len(self.sinks) > 1 else 0

    def restate(self, place: int) -> None:
        """Write all counts of the sink at this place, for a reader that may have lost some."""
        of_sink = (item for item in self.counts.items() if self._sink_of(item[0]) == place)
        if text := b"".join(b"%s\t%d\n" % item for item in of_sink):
            self.sinks[place].write(text)

    def save(self, path: Path) -> None:
        """Write all counts to a file, as a whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        counts = {word.decode("latin-1"): count for word, count in self.counts.items()}
        new = path.with_name(f"{path.name}.new")
        new.write_text(json.dumps({"counts": counts, "next_lines": self.next_lines}))
        new.replace(path)

    def load(self, path: Path) -> None:
        """Go on from a file of ``save``, if there is one.

        Raises:
            SavedCountsError: it is something else.
        """
        if not path.exists():
            return
        try:
            saved = json.loads(path.read_text())
            self.counts = Counter({word.encode("latin-1"): int(count) for word, count in saved["counts"].items()})
            self.next_lines = {str(origin): int(line) for origin, line in saved["next_lines"].items()}
        except (ValueError, KeyError, AttributeError, UnicodeError) as error:
            raise SavedCountsError(path=str(path), reason=repr(error)) from error


class Saving:
    """Saves after so many changes, or so many seconds after the first one, and tells who waits for that."""

    def __init__(
        self,
        save: Callable[[], None] | None,
        *,
        after: int = 64,
        seconds: float = 0.05,
        hear: Callable[[dict[str, object]], None] = lambda event: None,
    ) -> None:
        """Nothing has changed yet.

        Args:
            save: makes everything safe; None: it is safe as it is.
            after: changes; fewer than a boundary may leave unacknowledged, else it would wait for the time to pass.
            seconds: the longest that a change waits.
            hear: is called with an event each time that ``save`` fails; it is tried again after a second.
        """
        self.on_saved: list[Callable[[], None]] = []
        """Are called after each time."""
        self._save, self._after, self._seconds, self._hear = save, after, seconds, hear
        self._changes = 0
        self._has_failed = False
        self._timer: asyncio.TimerHandle | None = None

    def note_change(self) -> None:
        """Something has changed that is to be saved."""
        self._changes += 1
        if self._save is None or (self._changes >= self._after and not self._has_failed):
            self.save_now()
        elif self._timer is None:
            self._save_within(self._seconds)

    def _save_within(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self.save_now)

    def save_now(self) -> None:
        """Save, and tell all."""
        self.close()
        try:
            if self._save is not None:
                self._save()
        except OSError as error:
            # Nobody is told: what is not acknowledged comes again, and too much of it mutes.
            self._has_failed = True
            self._hear({"event": "unsaved", "reason": str(error)})
            self._save_within(_SAVE_AGAIN_SECONDS)
            return
        self._changes, self._has_failed = 0, False
        for tell in [*self.on_saved]:
            tell()

    def close(self) -> None:
        """Save no more by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
