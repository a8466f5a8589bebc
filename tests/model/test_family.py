"""A family of equal members says the same as a tuple of them, whatever is done to it."""

from typing import NamedTuple

import pytest

from permitflow_model.kernel.family import Alike, Family, MadeByName, Members, NoMemberError, family
from permitflow_model.kernel.queue import Fifo, Queue, SummedFifo
from permitflow_model.tla_values import format_value, to_tla
from tests.support.shared_pool import SYSTEM, Parameters


class Channel(NamedTuple):
    sent: int
    wire: Queue[int]


IDLE = Channel(0, Fifo())


def sent(channel: Channel, factor: int) -> int:
    return factor * channel.sent


def has_sent(channel: Channel, least: int) -> bool:
    return channel.sent >= least


def send(channel: Channel, more: int) -> Channel:
    return channel._replace(sent=channel.sent + more)


def told(channels: Family[Channel]) -> list[object]:
    """Everything that a model may ask."""
    sums = [channels.sum_of(sent, factor) for factor in (1, 2)]
    truths = [channels.every(has_sent, least) for least in range(5)]
    return [channels.size(), *sums, *truths, *(channels.get(name) for name in range(4))]


def steps(channels: Family[Channel]) -> list[Family[Channel]]:
    made = [channels, channels.put(2, Channel(3, Fifo((1,))))]
    made += [each.map(send, 1) for each in made]
    made += [each.put(0, each.get(2)).map(send, 2) for each in made]
    return made


def test_equal_members_are_a_family_as_any_other() -> None:
    few, many = steps(Members([IDLE] * 4)), steps(Alike(IDLE, 4))
    assert [told(each) for each in many] == [told(each) for each in few]


@pytest.mark.parametrize("name", [-1, 3])
def test_a_member_that_is_not_there_is_refused(name: int) -> None:
    channels = Members([IDLE] * 3)
    for use in (lambda: channels.get(name), lambda: channels.put(name, IDLE)):
        with pytest.raises(NoMemberError, match=f"a family of 3 has no member {name}"):
            use()


@pytest.mark.parametrize("several", [Alike(IDLE, 3), MadeByName(lambda _: IDLE, 3)], ids=["alike", "by name"])
@pytest.mark.parametrize("name", [-1, 3])
def test_a_family_of_any_size_gets_no_new_members(several: Alike[Channel] | MadeByName[Channel], name: int) -> None:
    assert several.put(2, IDLE).size() == 3
    with pytest.raises(NoMemberError, match=f"a family of 3 has no member {name}"):
        several.put(name, IDLE)


def test_one_of_the_equal_ones_is_tried_while_there_are_any() -> None:
    assert [*Members([IDLE] * 3).names()] == [0, 1, 2]
    one = Alike(IDLE, 3).put(1, send(IDLE, 1))
    assert [*Alike(IDLE, 3).names()] == [0]
    assert [*one.names()] == [1, 0]
    assert [*one.put(0, IDLE).names()] == [1, 0, 2]
    assert [*one.put(0, IDLE).put(2, IDLE).names()] == [1, 0, 2]


def test_no_member_is_asked_of_an_empty_rest() -> None:
    all_others = Alike(IDLE, 1).put(0, send(IDLE, 7))
    assert all_others.every(has_sent, 7)
    assert all_others.sum_of(sent, 1) == 7


def test_a_model_starts_with_members_where_their_number_is_known() -> None:
    assert family(IDLE, 3) == Members((IDLE, IDLE, IDLE))
    assert isinstance(SYSTEM.initial(Parameters(channels=2, permits=1, largest=1)).channels, Members)


def test_in_tla_it_is_a_sequence_of_records() -> None:
    in_words = "<<[sent |-> 0, wire |-> <<>>], [sent |-> 1, wire |-> <<5>>]>>"
    queues: tuple[Queue[int], ...] = (Fifo((5,)), SummedFifo[int]().push(5))
    for queue in queues:
        assert format_value(to_tla(Members([IDLE, Channel(1, queue)]))) == in_words


@pytest.mark.parametrize(("name", "can_move"), [("Offer", False), ("End", True)])
def test_the_protocol_can_move_if_one_member_can(name: str, can_move: bool) -> None:
    parameters = Parameters(channels=2, permits=1, largest=2)
    state = SYSTEM.perform("Offer", SYSTEM.initial(parameters), parameters, 0, 2)
    state = SYSTEM.perform("Borrow", state, parameters, 0)
    assert not SYSTEM.can_move(state, parameters)
    arguments = (1, 2) if name == "Offer" else (1,)
    assert SYSTEM.can_move(SYSTEM.perform(name, state, parameters, *arguments), parameters) is can_move
