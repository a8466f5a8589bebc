"""The steps between sources and sinks: split lines into words, count, and write each word's count as a line."""

import json
from collections import Counter
from pathlib import Path
from zlib import crc32

from permitflow.errors import PermitflowError
from permitflow.mute.pipeline import Lines, Sink


class SavedCountsError(PermitflowError):
    """A worker's saved state cannot be read; it is not overwritten."""

    path: str
    reason: str
    text = "{path} holds no saved counts: {reason}; move it away to begin with none"


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
            SavedCountsError: the file is something else.
        """
        if not path.exists():
            return
        try:
            saved = json.loads(path.read_text())
            self.counts = Counter({word.encode("latin-1"): int(count) for word, count in saved["counts"].items()})
            self.next_lines = {str(origin): int(line) for origin, line in saved["next_lines"].items()}
        except (ValueError, KeyError, AttributeError, UnicodeError) as error:
            raise SavedCountsError(path=str(path), reason=repr(error)) from error
