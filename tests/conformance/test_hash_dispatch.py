"""The model leads a dispatch by keys through its state graphs: each row, barrier and end goes where the model says."""

from collections import deque
from collections.abc import Sequence

import pytest

from permitflow.dispatch.hash_dispatch import Barrier, ElementPart, End, HashDispatch, Watermark
from permitflow.dispatch.keys import KeyValue, rows_by_key, vnode_of
from permitflow.errors import InvalidParametersError
from permitflow_model.hash_dispatch import SYSTEM, Channel, Kind, Message, Owners, Parameters, State, is_end, is_row
from permitflow_model.kernel.family import Members
from permitflow_model.kernel.queue import Fifo
from permitflow_testing.moves import ActionRefused, Divergence, walk

LOSES = Parameters(nodes=2, channels=2, most_channels=2, rows=2, marks=1, room=1, losses=True)
GROWS = Parameters(nodes=3, channels=1, most_channels=2, rows=2, marks=1, room=1, losses=True)


def key_of(row: Message) -> Sequence[KeyValue]:
    """A row with the virtual node n has the key n; its virtual node is looked up by the dispatch."""
    return [row.node]


class DrivenDispatch:
    """The core of a dispatch, and channels of a few places."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.keys = [next(key for key in range(999) if vnode_of([key], parameters.nodes) == node)
                     for node in range(parameters.nodes)]  # fmt: skip
        self.core: HashDispatch[list[Message]] = HashDispatch(parameters.channels, parameters.nodes)
        self.chunk: list[Message] = []
        """Its rows have their keys instead of their nodes."""
        self.rows = self.marks = self.consumed = 0
        self.left: dict[int, deque[Message]] = {}
        """Of each channel, what it has not got of its part."""
        self.channels = [deque[Message]() for _ in range(parameters.most_channels)]
        self.books = [[0, 0, 0] for _ in range(parameters.most_channels)]
        """Of each consumer: the newest number, marks, ends."""

    def split(self) -> Sequence[list[Message] | None]:
        return rows_by_key(key_of, self.parameters.nodes)(self.chunk, self.core.owners)

    def next_message(self, kind: Kind, node: int = 0) -> Message:
        return Message(kind, self.rows + self.marks + 1, node)

    def take_parts(self) -> None:
        for channel, part in enumerate(self.core.pending):
            if part is not None:
                self.left[channel] = deque(self.messages_of(part))

    def messages_of(self, part: ElementPart[list[Message]]) -> list[Message]:
        match part:
            case Barrier():
                return [Message("barrier", self.rows + self.marks, 0)]
            case Watermark():
                return [Message("watermark", self.rows + self.marks, 0)]
            case End():
                return [Message("end", self.rows + self.marks, 0)]
        return [row._replace(node=self.keys.index(row.node)) for row in part]

    # The upstream.

    def add_row(self, channel: int, node: int) -> None:
        if not (self.core.can_take and self.rows < self.parameters.rows and self.core.owners[node] == channel):
            raise ActionRefused("no row of this channel can be taken")
        self.chunk.append(self.next_message("row", self.keys[node]))
        self.rows += 1

    def take_chunk(self) -> None:
        if not self.chunk:
            raise ActionRefused("there are no rows")
        self.core.take_chunk(self.split())
        self.chunk = []
        self.take_parts()

    def take_mark(self, is_end: bool = False) -> None:
        if self.chunk or (self.marks >= self.parameters.marks and not is_end):
            raise ActionRefused("a chunk is being cut, or enough were taken")

    def take_barrier(self, to: int) -> None:
        self.take_mark()
        opened, taken = self.core.channels, self.rows + self.marks
        try:
            self.core.take_barrier("barrier", to)
        except InvalidParametersError as error:
            raise ActionRefused(str(error)) from error
        for channel in range(opened, to):
            self.books[channel] = [taken, self.marks, 0]
        self.marks += 1
        self.take_parts()

    def take_watermark(self) -> None:
        self.take_mark()
        self.core.take_watermark("watermark")
        self.marks += 1
        self.take_parts()

    def take_end(self) -> None:
        self.take_mark(is_end=True)
        self.core.take_end()
        self.marks += 1
        self.take_parts()

    # The channels.

    def forward(self, channel: int) -> None:
        if not self.core.can_forward(channel) or len(self.channels[channel]) >= self.parameters.room:
            raise ActionRefused("nothing waits, or there is no room")
        self.channels[channel].append(self.left[channel].popleft())
        if not self.left[channel]:
            self.core.forwarded(channel)

    def consume(self, channel: int) -> None:
        if not self.channels[channel] or self.core.lost == channel:
            raise ActionRefused("there is nothing, or nobody")
        message = self.channels[channel].popleft()
        _, marks, ends = self.books[channel]
        self.books[channel] = [message.number, marks + 1 - is_row(message), ends + is_end(message)]
        self.consumed += is_row(message)

    def lose(self, channel: int) -> None:
        if self.chunk or not self.parameters.losses:
            raise ActionRefused("a chunk is being cut")
        self.core.lose(channel)
        self.left = {}

    def done(self) -> None:
        is_finished = self.core.is_over or self.core.lost is not None
        full = [channel for channel, messages in enumerate(self.channels) if messages and channel != self.core.lost]
        if not is_finished or full or any(part is not None for part in self.core.pending):
            raise ActionRefused("it goes on")

    def observe(self) -> State:
        cut = [self.messages_of(part or []) for part in self.split()] if self.chunk else []
        channels = []
        for number, (messages, (read, marks, ends)) in enumerate(zip(self.channels, self.books, strict=True)):
            waits = number < self.core.channels and self.core.pending[number] is not None
            pending = self.left[number] if waits else cut[number] if number < len(cut) else []
            is_gone = self.core.lost == number
            channels.append(Channel(number, Fifo(pending), Fifo(messages), read, marks, ends, is_gone))
        return State(
            owners=Owners(self.core.owners),
            rows=self.rows,
            marks=self.marks,
            consumed=self.consumed,
            is_splitting=bool(self.chunk),
            is_over=self.core.is_over,
            is_lost=self.core.lost is not None,
            channels=Members(channels),
        )


@pytest.mark.parametrize("parameters", [LOSES, GROWS], ids=["loses", "grows"])
def test_a_dispatch_takes_each_step_of_the_model_and_no_other(parameters: Parameters) -> None:
    extent = walk(SYSTEM, DrivenDispatch(parameters), parameters)
    assert extent.states > 1_000
    assert extent.refusals > extent.edges


class TakesTooEarly(HashDispatch[list[Message]]):
    """Takes the next element while channels lack their part of the one before."""

    @property
    def can_take(self) -> bool:
        return self.lost is None and not self.is_over


def test_a_dispatch_that_takes_too_early_is_found() -> None:
    driven = DrivenDispatch(LOSES)
    driven.core = TakesTooEarly(LOSES.channels, LOSES.nodes)
    with pytest.raises(Divergence):
        walk(SYSTEM, driven, LOSES)
