"""Channels share the virtual nodes equally, and nodes move to new channels only."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.dispatch import VNODES, spread
from permitflow.dispatch.mapping import grown
from permitflow.errors import InvalidParametersError


def test_shares_differ_by_at_most_one() -> None:
    for channels in range(1, VNODES + 1):
        shares = Counter(spread(channels))
        assert len(shares) == channels
        assert max(shares.values()) - min(shares.values()) <= 1


@given(st.integers(1, VNODES), st.data())
def test_nodes_move_to_new_channels_only(channels: int, data: st.DataObject) -> None:
    before = spread(channels)
    after = grown(before, data.draw(st.integers(channels, VNODES)))
    assert all(new == old or new >= channels for old, new in zip(before, after, strict=True))


def test_growing_step_by_step_or_at_once_is_the_same() -> None:
    assert grown(grown(spread(2), 3), 5) == spread(5)


def test_the_mapping_is_the_documented_one() -> None:
    # Who spreads rows in another language compares with this.
    assert spread(3, vnodes=8) == (0, 0, 0, 2, 1, 1, 1, 2)


@pytest.mark.parametrize("channels", [0, VNODES + 1])
def test_a_number_of_channels_that_cannot_be_is_refused(channels: int) -> None:
    with pytest.raises(InvalidParametersError, match=f"from 1 to 256, .* not {channels}"):
        spread(channels)


def test_channels_are_not_taken_away() -> None:
    with pytest.raises(InvalidParametersError, match="from 3 to 256"):
        grown(spread(3), 2)
