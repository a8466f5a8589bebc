"""A signal's exception while a blocking link writes: whole messages leave, or the link says that it is cut."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from permitflow.transports.shared_memory.blocking_link import BlockingLink, Outgoing
from permitflow.transports.shared_memory.link import MessageSocket
from tests.support.carriers import memory_ends
from tests.support.interrupting import Interrupting, Peer, SignalError

MOST_INTERRUPTED_BYTES = 1 << 20


@pytest.fixture
def links() -> Iterator[tuple[BlockingLink, BlockingLink]]:
    """A writer and a reader."""
    with memory_ends() as ends:
        writer = BlockingLink(ends.writer_socket, ends.writer, most_bytes=MOST_INTERRUPTED_BYTES)
        reader = BlockingLink(ends.reader_socket, ends.reader, most_bytes=MOST_INTERRUPTED_BYTES)
        yield writer, reader
        writer.close()
        reader.close()


def test_a_write_that_is_interrupted_while_it_waits_goes_on_where_it_was(
    links: tuple[BlockingLink, BlockingLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = links
    messages = [Outgoing([bytes([number]) * MOST_INTERRUPTED_BYTES]) for number in range(2)]
    seen: list[bytes] = []

    def interrupted(*_: object) -> bool:
        read_all(reader, seen)  # so that there is room when it goes on
        raise TimeoutError

    monkeypatch.setattr(writer, "_poll", interrupted)
    for message in messages:
        for _ in range(1_000):
            try:
                writer.write(message)
            except TimeoutError:
                assert not writer.is_cut
            else:
                break
    writer.write(messages[-1])  # has left already
    read_all(reader, seen)
    assert seen == [b"".join(message.pieces) for message in messages]


def test_a_write_that_is_interrupted_anywhere_leaves_whole_messages_or_says_that_the_link_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = [bytes([number]) * size for number, size in enumerate((150_000, 100, 150_000, MOST_INTERRUPTED_BYTES, 150_000))]
    cut = set[str]()
    for place in range(10_000):
        with memory_ends() as ends:
            writer = BlockingLink(ends.writer_socket, ends.writer, most_bytes=MOST_INTERRUPTED_BYTES)
            reader = BlockingLink(ends.reader_socket, ends.reader, most_bytes=MOST_INTERRUPTED_BYTES)
            interrupting = Interrupting(place, Peer())
            seen = list[bytes]()
            monkeypatch.setattr(writer, "_poll", room_made(reader, seen, interrupting.peer))
            is_whole = all(written(writer, Outgoing([message]), interrupting) for message in messages)
            read_all(reader, seen)
            writer.close()
            reader.close()
        if is_whole:
            assert seen == messages, interrupting.where
        else:
            cut.add(interrupting.where)
            assert seen == messages[: len(seen)], interrupting.where
        if not interrupting.where:
            break
    assert place > 50, "it was interrupted in too few places"
    assert not {"make_room: call", "make_room: c_return"} & cut


def written(writer: BlockingLink, message: Outgoing, interrupting: Interrupting) -> bool:
    """Write a message, again after an interrupt; false: the link was cut."""
    while not writer.is_cut:
        try:
            interrupting.call(lambda: writer.write(message))
        except SignalError:
            continue
        return True
    return False


def room_made(reader: BlockingLink, seen: list[bytes], peer: Peer) -> Callable[..., bool]:
    """In place of waiting for room: the other end makes some."""

    calls = count()

    def make_room(*_: object) -> bool:
        peer.is_at_work = True
        assert next(calls) < 1_000, "there will never be any"
        read_all(reader, seen)
        peer.is_at_work = False
        return True

    return make_room


def read_all(reader: BlockingLink, seen: list[bytes]) -> None:
    """All that is here."""
    while (message := reader.read_nowait()) is not None or reader.wait(0.001):
        seen.extend([] if message is None else [bytes(message)])


@pytest.mark.parametrize("error", [TimeoutError, KeyboardInterrupt])
def test_nothing_follows_a_message_of_which_nobody_knows_how_much_has_left(
    links: tuple[BlockingLink, BlockingLink], monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    writer, _ = links
    send = MessageSocket._send_now

    def interrupted(link: MessageSocket, pieces: list[bytes]) -> None:
        send(link, pieces)
        raise error

    monkeypatch.setattr(MessageSocket, "_send_now", interrupted)
    with pytest.raises(error):
        writer.write(Outgoing([b"half of it"]))
    assert writer.is_cut
