"""What was sent and not acknowledged is kept, by positions counted from the beginning of the stream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.carriers.kept import Kept
from permitflow.errors import FalsePositionError


def kept(*messages: str, acknowledged: int = 0) -> Kept[str]:
    all_of_them: Kept[str] = Kept()
    for message in messages:
        all_of_them.keep(message, len(message))
    all_of_them.acknowledge(acknowledged)
    return all_of_them


@given(st.lists(st.one_of(st.none(), st.integers(0, 30))))
def test_it_keeps_what_lies_between_the_two_positions(steps: list[int | None]) -> None:
    """None sends a message; a number acknowledges so many, or is refused."""
    sent, acknowledged, messages = list[str](), 0, kept()
    for step in steps:
        if step is None:
            message = "x" * len(sent)
            assert messages.keep(message, len(message)) == len(sent)
            sent.append(message)
        elif step > len(sent):
            with pytest.raises(FalsePositionError):
                messages.acknowledge(step)
        else:
            assert messages.acknowledge(step) == max(0, step - acknowledged)
            acknowledged = max(acknowledged, step)
        assert [*messages.since(acknowledged)] == sent[acknowledged:]
        assert messages.size_bytes == sum(map(len, sent[acknowledged:]))
        assert (messages.start, messages.end, len(messages)) == (acknowledged, len(sent), len(sent) - acknowledged)


def test_a_peer_gets_what_follows_its_position() -> None:
    assert [*kept("a", "b", "c", "d", acknowledged=1).since(2)] == ["c", "d"]


@pytest.mark.parametrize("position", [0, 3])
def test_a_position_that_cannot_be_is_the_peers_fault(position: int) -> None:
    with pytest.raises(FalsePositionError, match="it has acknowledged 1, and 2 were sent"):
        kept("a", "b", acknowledged=1).since(position)


@pytest.mark.parametrize("position", [0, 2])
def test_what_was_acknowledged_or_never_sent_is_not_here(position: int) -> None:
    with pytest.raises(KeyError):
        kept("a", "b", acknowledged=1)[position]
