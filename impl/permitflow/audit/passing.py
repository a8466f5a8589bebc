"""The messages that pass an end, by their place in the order: what is known of any first ones, without reading most."""

from bisect import bisect_left, bisect_right
from itertools import accumulate

import numpy as np

from permitflow.audit.columns import Codes, Events, Integers
from permitflow.audit.sides import Side
from permitflow.audit.summary import Moment, Passage, passage_of, places_of, tokens_of
from permitflow.errors import TraceUnreadableError

__all__ = ["Passing", "first_disagreement"]


class Passing:
    """All messages that have passed an end at this moment, in order."""

    def __init__(self, side: Side | None, moment: Moment) -> None:
        """None: nothing was recorded there."""
        self._side, self._moment = side, moment
        passages = [getattr(summary, moment) for _, summary in side.parts] if side else []
        self.until = list(accumulate(passages, Passage.then, initial=Passage()))
        """What has passed before each part; and at the end."""
        self._messages = [passage.messages for passage in self.until]
        self._last: tuple[int, Events] | None = None

    @property
    def parts(self) -> int:
        """How many there are."""
        return len(self.until) - 1

    def first(self, count: int) -> Passage | None:
        """The first ``count`` messages; None: there are fewer."""
        if count > self._messages[-1]:
            return None
        part = bisect_right(self._messages, count) - 1
        passage = self.until[part]
        if passage.messages == count:
            return passage
        _, tokens = self.part(part)
        return passage.then(passage_of(tokens[: count - passage.messages]))

    def tokens(self, start: int, count: int) -> Integers:
        """``count`` messages from the one at ``start``; fewer, if there are fewer."""
        part = max(bisect_right(self._messages, start) - 1, 0)
        offset = start - self._messages[part]
        gathered = [np.zeros(0, dtype=np.int64)]
        while part < self.parts and self._messages[part] < start + count:
            gathered.append(self.part(part)[1])
            part += 1
        return np.concatenate(gathered)[offset : offset + count]

    def part(self, number: int) -> tuple[Codes, Integers]:
        """The messages of one part, read again: at which of its events, and which."""
        events = self.events(number)
        places = places_of(events, self._moment)
        return places, tokens_of(events).take(places)

    def events(self, number: int) -> Events:
        """The events of one part; the last one that was read is kept."""
        assert self._side is not None, "what was not recorded has no parts"
        if self._last is None or self._last[0] != number:
            self._last = number, self._side.read(number)
        return self._last[1]

    def changed(self, number: int) -> TraceUnreadableError:
        """The events of a part are not those that were summed up."""
        assert self._side is not None, "what was not recorded has no parts"
        return self._side.changed(number)


def first_disagreement(due: Passing, found: Passing) -> int | None:
    """The first part of ``found`` whose messages are not those that were due; None: there is none.

    Halves the parts again and again, so that few of them are read.
    """

    def differs(parts: int) -> bool:
        return due.first(found.until[parts].messages) != found.until[parts]

    number = bisect_left(range(found.parts + 1), True, key=differs)
    return None if number > found.parts else number - 1
