"""Two ends with different configurations come to one agreement that cannot stick, or are told why not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow import ChannelParameters, Kind, Oversize
from permitflow.errors import InvalidParametersError, ParameterMismatchError
from permitflow.flows.permits.agreement import PERMITS
from permitflow.flows.permits.core import PermitReceiver, PermitSender
from permitflow.flows.permits.parameters import StatedParameters
from permitflow.flows.seam import Wishes
from permitflow.stream.frames import Agreement, Get
from permitflow.stream.handshake import PROTOCOL_VERSION, accept, agree, stated, verify


@st.composite
def parameters(draw: st.DrawFn) -> ChannelParameters:
    """Any valid parameters, tight ones included."""
    rows = draw(st.integers(2, 60))
    batch = draw(st.integers(1, rows - 1))
    clamp = draw(st.integers(1, rows - batch + 1))
    return ChannelParameters(
        row_permits=rows,
        permit_batch=batch,
        max_chunk_cost=clamp,
        barrier_permits=draw(st.integers(1, 4)),
        initial_permits=draw(st.integers(0, rows)),
    )


@given(parameters(), parameters())
def test_no_end_gets_more_than_it_wants(own: ChannelParameters, wanted: ChannelParameters) -> None:
    request = get(wanted)
    agreed = PERMITS.agree(own, PERMITS.state(wanted))
    for name in ("row_permits", "permit_batch", "max_chunk_cost", "barrier_permits", "initial_permits"):
        assert getattr(agreed, name) == min(getattr(own, name), getattr(wanted, name))
    assert agree(own, request) == verify(accept(request, agreed, schema=b""), request) == agreed


@given(parameters(), parameters(), st.lists(st.integers(1, 60), max_size=30))
def test_agreed_parameters_never_get_stuck(own: ChannelParameters, wanted: ChannelParameters, sizes: list[int]) -> None:
    """Without any flush: each chunk leaves although a residue below the batch is held back."""
    agreed = PERMITS.agree(own, PERMITS.state(wanted))
    sender: PermitSender[str] = PermitSender(agreed)
    receiver: PermitReceiver[str] = PermitReceiver(agreed)
    if receiver.ask():
        sender.on_feedback(receiver.take_feedback() or pytest.fail("nothing was granted"))
    for size in sizes:
        sender.offer(Kind.CHUNK, "", min(size, agreed.max_chunk_cost))
        receiver.deliver(sender.send_oldest())
        receiver.try_receive()
        if (permits := receiver.take_feedback(residue=False)) is not None:
            sender.on_feedback(permits)


def get(wanted: ChannelParameters | None = None, version: int = PROTOCOL_VERSION) -> Get:
    return Get(version, "orders/0", **stated(wanted))


def test_a_window_without_batch_brings_a_batch_of_its_own() -> None:
    own = ChannelParameters(row_permits=2048, permit_batch=256)
    agreed = PERMITS.agree(own, StatedParameters(row_permits=80))
    assert (agreed.row_permits, agreed.permit_batch, agreed.max_chunk_cost) == (80, 10, 70)


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        (StatedParameters(row_permits=0), "row_permits"),
        (StatedParameters(row_permits=8, permit_batch=0), "permit_batch"),
        (StatedParameters(row_permits=8, permit_batch=4, max_chunk_cost=0), "max_chunk_cost"),
        (StatedParameters(barrier_permits=0), "barrier_permits"),
        (StatedParameters(initial_permits=-1), "initial_permits"),
    ],
)
def test_wishes_that_cannot_work_are_refused_by_name_and_value(wanted: Wishes, name: str) -> None:
    with pytest.raises(InvalidParametersError) as caught:
        PERMITS.agree(ChannelParameters(), wanted)
    assert caught.value.name == name
    assert caught.value.value == getattr(wanted, name)


@pytest.mark.parametrize(
    ("own", "wanted", "initial_permits"),
    [
        (ChannelParameters(row_permits=8), StatedParameters(), 8),
        (ChannelParameters(row_permits=8), StatedParameters(initial_permits=0), 0),
        (ChannelParameters(row_permits=8, initial_permits=3), StatedParameters(), 3),
        (ChannelParameters(row_permits=8, initial_permits=3), StatedParameters(row_permits=4), 3),
        (ChannelParameters(row_permits=8, initial_permits=3), StatedParameters(row_permits=2), 2),
        (ChannelParameters(row_permits=8, initial_permits=3), StatedParameters(initial_permits=5), 3),
        (ChannelParameters(row_permits=8), StatedParameters(row_permits=99, initial_permits=50), 8),
    ],
    ids=str,
)
def test_the_smaller_number_of_initial_permits_wins(
    own: ChannelParameters, wanted: Wishes, initial_permits: int
) -> None:
    agreed = PERMITS.agree(own, wanted)
    assert agreed.initial_permits == initial_permits
    assert PERMITS.verify(PERMITS.state(agreed), wanted) == agreed


def test_an_acceptor_without_initial_permits_withholds_none() -> None:
    assert PERMITS.verify(HONEST._replace(initial_permits=None), StatedParameters()).initial_permits == 8


def test_splitting_and_whole_chunks_cannot_be_reconciled() -> None:
    with pytest.raises(ParameterMismatchError, match=r"oversize .* 'split', the peer 'whole'"):
        agree(ChannelParameters(), get(ChannelParameters(oversize=Oversize.WHOLE)))


HONEST = StatedParameters(8, 4, 4, 1, "split", 6)


@pytest.mark.parametrize(
    ("lie", "name"),
    [
        ({"row_permits": 9}, "row_permits"),
        ({"max_chunk_cost": 5}, "max_chunk_cost"),
        ({"oversize": "whole"}, "oversize"),
        ({"row_permits": 0}, "row_permits"),
        ({"row_permits": 4}, "permit_batch"),
        ({"row_permits": None}, "row_permits"),
        ({"initial_permits": 7}, "initial_permits"),
        # It knows nothing of initial permits, which means that it withholds none.
        ({"initial_permits": None}, "initial_permits"),
    ],
)
def test_a_lying_acceptor_is_found_out(lie: dict[str, int | str | None], name: str) -> None:
    request = Get(PROTOCOL_VERSION, "orders/0", "permits", HONEST)
    verify(Agreement(PROTOCOL_VERSION, "permits", HONEST, b""), request)
    with pytest.raises(ParameterMismatchError) as caught:
        verify(Agreement(PROTOCOL_VERSION, "permits", HONEST._replace(**lie), b""), request)
    assert caught.value.name == name
