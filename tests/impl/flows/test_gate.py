"""The gate's rules without I/O: Flink's own tests as far as this gate has them, and who borrows what.

Flink counts buffers, the gate rows: ``available`` is what the channel has for data that are still to come, ``required``
what Flink wants it to have.
"""

from dataclasses import replace
from functools import partial

import pytest

from permitflow import GateParameters, Kind, Message
from permitflow.errors import (
    InvalidParametersError,
    LocalProtocolError,
    OversizeChunkError,
    OverspendError,
    PermitOverrunError,
    UnexpectedFrameError,
    WouldBlock,
)
from permitflow.flows.gate.core import GATE, Backlog, Gate, GateReceiver, GateSender, Grant
from permitflow.flows.seam import Wishes


def inputs(count: int, exclusive: int, floating: int, cost: int = 1) -> list[GateReceiver[object]]:
    """The inputs of a gate."""
    parameters = GateParameters(inputs=count, exclusive=exclusive, floating=floating, max_chunk_cost=cost)
    gate = Gate(parameters)
    return [GateReceiver(parameters, gate=gate) for _ in range(count)]


def available(member: GateReceiver[object]) -> int:
    """Credit for rows that are still to come."""
    return member.parameters.exclusive + member.borrowed - member.stored


def arrive(member: GateReceiver[object], rows: int) -> None:
    """Rows arrive, after all credit was granted."""
    member.take_feedback()
    member.deliver_many(["row"] * rows, [1] * rows)


def block(member: GateReceiver[object], number: int | None = None) -> None:
    """The barrier arrives and is consumed."""
    member.deliver(Message(Kind.BARRIER, number))
    member.receive_many(1)


# Who borrows what.


def gate_of(member: GateReceiver[object]) -> Gate:
    """The gate that it has joined."""
    return member.gate


def test_credit_that_comes_home_is_shared_in_turn() -> None:
    *three, holder = inputs(4, 2, 3)
    holder.on_announcement(Backlog(3))
    arrive(holder, 3)
    for each in three:
        each.on_announcement(Backlog(8))
        assert available(each) == 2
    holder.on_announcement(Backlog(0))
    for expected in ([3, 2, 2], [3, 3, 2], [3, 3, 3]):
        holder.receive_many(1)
        assert [available(each) for each in three] == expected
    assert [each.free for each in three] == [1, 1, 1]


@pytest.mark.parametrize(
    ("pool", "cost", "backlogs", "shares"), [(10, 1, [8, 1, 8], [5, 1, 4]), (30, 4, [20, 20, 20], [10, 10, 10])]
)
def test_a_large_amount_is_shared_equally_and_the_rest_goes_on(
    pool: int, cost: int, backlogs: list[int], shares: list[int]
) -> None:
    *three, holder = inputs(4, 0, pool, cost)
    holder.on_announcement(Backlog(pool))
    holder.take_feedback()
    for each, backlog in zip(three, backlogs, strict=True):
        each.on_announcement(Backlog(backlog))
    holder.on_announcement(Backlog(0, returned=pool))
    assert [each.borrowed for each in three] == shares


def test_touched_inputs_pass_on_in_the_order_of_their_touches() -> None:
    members, passed = inputs(20, 0, 20)[::-1], list[GateReceiver[object]]()
    for each in members:
        each.when_touched(partial(passed.append, each))
        each.gate.touch(each)
    members[0].gate.pump()
    assert passed == members


# The sender.


def sender(exclusive: int, floating: int = 10, cost: int = 1) -> GateSender[object]:
    """With chunks of one row."""
    return GateSender(GateParameters(exclusive=exclusive, floating=floating, max_chunk_cost=cost))


def offer(end: GateSender[object], kinds: str) -> list[str]:
    """Offer a chunk for each d and a barrier for each b; return what leaves."""
    for kind in kinds:
        end.offer(Kind.CHUNK if kind == "d" else Kind.BARRIER, kind, int(kind == "d"))
    return [str(message.payload) for message in end.take_sendable()]


def test_a_backlog_is_announced_alone_where_there_is_no_credit() -> None:
    """Unlike Flink, also with exclusive credit, once it is used up."""
    with_own, without = sender(2), sender(0)
    assert offer(with_own, "d") == ["d"]
    assert with_own.take_announcement() is None
    assert offer(with_own, "ddd") == ["d"]
    assert with_own.take_announcement() == Backlog(2)  # behind what has left
    offer(with_own, "d")
    assert with_own.take_announcement() == Backlog(3)
    assert with_own.take_announcement() is None
    assert offer(without, "d") == []
    assert without.take_announcement() == Backlog(1)
    assert without.take_announcement() is None
    without.on_feedback(Grant(credit=2))
    assert offer(without, "") == ["d"]
    assert offer(without, "dd") == ["d"]
    assert without.take_announcement() == Backlog(1)


def test_a_chunk_says_how_much_credit_it_needs() -> None:
    end = sender(0, cost=3)
    end.offer(Kind.CHUNK, "chunk", 3)
    with pytest.raises(WouldBlock, match="the chunk needs 3 credit; 0 is here"):
        end.send_oldest()


@pytest.mark.parametrize("behind", ["d", "dd", "b", "db"])
def test_what_was_offered_to_a_stopped_sender_leaves_on_resumption(behind: str) -> None:
    end = sender(5)
    assert offer(end, "b" + behind) == ["b"]
    assert (end.is_stopped, end.can_send(), end.sendable(), end.admits([1])) == (True, False, 0, 0)
    with pytest.raises(WouldBlock, match="behind a barrier, which other inputs of the gate have not reached"):
        end.send_oldest()
    end.offer_watermark("w")
    assert not end.can_send_watermark()
    end.on_feedback(Grant(resume=True))
    assert end.can_send()
    assert "".join(offer(end, "")) in (behind + "w", behind)


@pytest.mark.parametrize("is_offered", [True, False], ids=["offered", "only expected"])
def test_credit_for_what_was_withdrawn_goes_back(is_offered: bool) -> None:
    parameters = GateParameters(exclusive=0, floating=4, max_chunk_cost=4)
    end, gate = GateSender[object](parameters), GateReceiver[object](parameters)
    end.expect([3])
    offered = end.offer(Kind.CHUNK, "chunk", 3) if is_offered else None
    announced = end.take_announcement()
    assert announced == Backlog(3)
    gate.on_announcement(announced)
    if offered is None:
        end.expect([])
    else:
        end.withdraw(offered)
    granted = gate.take_feedback()
    assert granted == Grant(credit=3)
    end.on_feedback(granted)
    returned = end.take_announcement()
    assert returned == Backlog(0, returned=3)
    gate.on_announcement(returned)
    assert (end.credit, gate.gate.pool, gate.borrowed) == (0, 4, 0)


def test_credit_that_crosses_what_was_returned_goes_back_too() -> None:
    parameters = GateParameters(exclusive=0, floating=4, max_chunk_cost=4)
    end = GateSender[object](parameters)
    end.on_feedback(Grant(credit=1))  # for a chunk that was withdrawn
    assert end.take_announcement() == Backlog(0, returned=1)
    end.on_feedback(Grant(credit=2))
    assert end.take_announcement() == Backlog(0, returned=2)
    assert end.credit == 0


def test_a_sender_hears_what_was_consumed_of_borrowed_credit() -> None:
    parameters = GateParameters(exclusive=0, floating=4)
    end, gate = GateSender[object](parameters), GateReceiver[object](parameters)
    end.offer(Kind.CHUNK, "chunk", 3)
    announced = end.take_announcement()
    assert announced is not None
    gate.on_announcement(announced)
    granted = gate.take_feedback()
    assert granted is not None
    end.on_feedback(granted)
    for message in end.take_sendable():
        gate.deliver(message)
    assert (end.sent_mark, end.acknowledged_mark, end.rows_held) == ((3, 0), (0, 0), 3)
    assert end.unsettled() == ("unconsumed rows and barriers", 3)
    gate.receive_many(1)
    assert gate.unsettled()
    told = gate.take_feedback()
    assert told == Grant(consumed=3)
    end.on_feedback(told)
    assert (end.acknowledged_mark, end.unsettled(), end.peak_rows_held, gate.unsettled()) == ((3, 0), None, 3, False)


def test_chunks_that_follow_are_part_of_the_backlog_once() -> None:
    told: list[tuple[str, tuple[int, ...]]] = []
    end: GateSender[object] = GateSender(
        GateParameters(exclusive=0, floating=9, max_chunk_cost=2),
        record=lambda action, arguments, _: told.append((action, arguments)),
    )
    end.expect([2, 1, 2])
    assert end.take_announcement() == Backlog(5)
    end.expect([2, 1, 2, 0])
    assert end.take_announcement() == Backlog(6)
    end.on_feedback(Grant(credit=3))
    assert end.send_now([2, 1, 2]) == 2
    end.offer(Kind.CHUNK, "chunk", 2)
    end.offer(Kind.CHUNK, "not expected", 2)
    assert (end.backlog, end.announced) == (4, 3)
    offered = [arguments[0] for action, arguments in told if action == "OfferData"]
    assert offered == [5, 1, 1]  # each row once: the last chunk has one row that was not expected
    end.expect([2, 0])
    end.expect([])
    assert told[-2:] == [("OfferData", (3,)), ("WithdrawData", (3,))]


def test_a_refused_chunk_leaves_what_is_expected() -> None:
    end = sender(exclusive=0, cost=2)
    end.expect([2, 1])
    with pytest.raises(LocalProtocolError, match="exceeds this channel"):
        end.offer(Kind.CHUNK, "too large", 3)
    assert end.backlog == 3


def test_a_watermark_waits_for_the_one_before_and_costs_no_credit() -> None:
    parameters = GateParameters(exclusive=0, floating=1)
    end, gate = GateSender[object](parameters), GateReceiver[object](parameters)
    for value in ("first", "second", "third"):
        end.offer_watermark(value)
        for message in end.take_sendable():
            gate.deliver(message)
    assert [message.payload for message in gate.receive_many(2)] == ["first"]
    returned = gate.take_feedback()
    assert returned == Grant(watermarks=1)
    end.on_feedback(returned)
    assert [message.payload for message in end.take_sendable()] == ["third"]


# Alignment.


def test_an_only_input_is_resumed_at_once() -> None:
    member: GateReceiver[object] = GateReceiver(GateParameters(inputs=3))
    for number in (1, 2, 3):
        block(member, number)
        assert member.resume_due is False
        member.take_feedback()
    assert member.gate.alignments == 3


def test_barriers_without_numbers_are_counted() -> None:
    first, second = inputs(2, 1, 1)
    block(first)
    block(second)
    assert (gate_of(first).pending, gate_of(first).is_aligned) == (1, True)


def test_inputs_that_have_not_joined_are_waited_for() -> None:
    parameters = GateParameters(inputs=2)
    gate = Gate(parameters)
    block(GateReceiver(parameters, gate=gate), 1)
    assert (gate.is_aligned, gate.awaited) == (False, 1)
    with pytest.raises(LocalProtocolError, match="not all inputs are blocked"):
        gate.align()
    GateReceiver[object](parameters, gate=gate)
    with pytest.raises(LocalProtocolError, match="has all its 2 inputs"):
        GateReceiver[object](parameters, gate=gate)


# Peers that break the rules.


def stopped_peer() -> GateReceiver[object]:
    """Its barrier has come, and nothing may come behind it."""
    member: GateReceiver[object] = GateReceiver(GateParameters(inputs=1), gate=Gate(GateParameters(inputs=1)))
    member.deliver(Message(Kind.BARRIER, 1))
    return member


@pytest.mark.parametrize("what", ["data", "barrier", "watermark", "backlog"])
def test_nothing_may_come_behind_a_barrier(what: str) -> None:
    peer = stopped_peer()
    deeds = {
        "data": lambda: arrive(peer, 1),
        "barrier": lambda: peer.deliver(Message(Kind.BARRIER, 2)),
        "watermark": lambda: peer.deliver(Message(Kind.WATERMARK, 2)),
        "backlog": lambda: peer.on_announcement(Backlog(1)),
    }
    with pytest.raises(UnexpectedFrameError, match="behind a barrier"):
        deeds[what]()


@pytest.mark.parametrize("said", [Backlog(-1), Backlog(0, returned=3), Backlog(0, returned=-1)])
def test_impossible_announcements_are_refused(said: Backlog) -> None:
    member: GateReceiver[object] = GateReceiver(GateParameters(exclusive=0, floating=9))
    member.on_announcement(Backlog(2))
    member.take_feedback()
    with pytest.raises(UnexpectedFrameError, match="an announcement of backlog"):
        member.on_announcement(said)
    assert member.required == 2


def test_a_chunk_or_watermark_that_may_not_come_is_refused() -> None:
    member: GateReceiver[object] = GateReceiver(GateParameters(exclusive=4, max_chunk_cost=3))
    with pytest.raises(OversizeChunkError):
        member.deliver(Message(Kind.CHUNK, "large", 4))
    member.deliver(Message(Kind.CHUNK, "chunk", 3))
    with pytest.raises(OverspendError) as caught:
        member.deliver_many(["one", "more"], [1, 1])
    assert (caught.value.cost, caught.value.available, member.unconsumed) == (2, 1, 1)
    member.deliver(Message(Kind.WATERMARK, 1))
    with pytest.raises(OverspendError):
        member.deliver(Message(Kind.WATERMARK, 2))


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (Grant(), UnexpectedFrameError),
        (Grant(resume=True), UnexpectedFrameError),
        (Grant(credit=1, revoke=True), UnexpectedFrameError),
        (Grant(credit=11), PermitOverrunError),
        (Grant(credit=-1), PermitOverrunError),
        (Grant(watermarks=1), PermitOverrunError),
        (Grant(consumed=1), PermitOverrunError),
        (Grant(barriers=1), PermitOverrunError),
    ],
)
def test_a_sender_refuses_what_no_gate_says(said: Grant, error: type[Exception]) -> None:
    end = sender(2)
    with pytest.raises(error):
        end.on_feedback(said)
    assert (end.credit, end.is_stopped) == (2, False)


# Parameters.


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        ({"inputs": 0}, "inputs"),
        ({"exclusive": -1}, "exclusive"),
        ({"exclusive": True}, "exclusive"),
        ({"exclusive": 0, "floating": 0}, "floating"),
        ({"exclusive": 4, "max_chunk_cost": 5}, "max_chunk_cost"),
        ({"exclusive": 0, "floating": 5, "inputs": 3, "max_chunk_cost": 3}, "max_chunk_cost"),
    ],
)
def test_numbers_that_cannot_work_are_refused(numbers: dict[str, int], name: str) -> None:
    with pytest.raises(InvalidParametersError) as caught:
        GateParameters(**numbers)
    assert caught.value.name == name


def test_the_largest_chunk_follows_from_the_credit() -> None:
    assert GateParameters(exclusive=8).max_chunk_cost == 4
    assert GateParameters(exclusive=0, floating=1, inputs=9).max_chunk_cost == 1
    assert GateParameters(exclusive=0, floating=9, inputs=2).max_chunk_cost == 5


@pytest.mark.parametrize("members", [2, 3])
@pytest.mark.parametrize("floating", range(1, 10))
def test_inputs_that_share_the_pool_are_never_all_stuck(floating: int, members: int) -> None:
    """All of them lack one row for their chunk: there is one left in the pool."""
    most = GateParameters(inputs=members, exclusive=0, floating=floating).max_chunk_cost
    assert members * (most - 1) < floating <= members * most


OWN = GateParameters(inputs=2, exclusive=100, floating=50, max_chunk_cost=20)


@pytest.mark.parametrize(
    ("wanted", "agreed"),
    [
        (GATE.wishes(), OWN),
        (GATE.wishes(inputs=3), replace(OWN, inputs=3)),
        (GATE.wishes(exclusive=10), replace(OWN, exclusive=10, max_chunk_cost=5)),
        (GATE.wishes(exclusive=200, floating=900), OWN),
        (GATE.wishes(floating=9), replace(OWN, floating=9)),
        (GATE.wishes(exclusive=0), replace(OWN, exclusive=0, max_chunk_cost=20)),
        (GATE.wishes(3, 0, 4, 2), GateParameters(inputs=3, exclusive=0, floating=4, max_chunk_cost=2)),
    ],
)
def test_the_ends_agree_on_the_smaller_credit_and_the_inputs(wanted: Wishes, agreed: GateParameters) -> None:
    result = GATE.agree(OWN, wanted)
    assert result == agreed
    assert GATE.verify(GATE.state(result), wanted) == agreed


def test_a_gate_lends_an_input_no_more_than_was_agreed_for_it() -> None:
    gate = Gate(GateParameters(exclusive=0, floating=50))
    member: GateReceiver[object] = GateReceiver(GateParameters(exclusive=0, floating=8), gate=gate)
    member.on_announcement(Backlog(30))
    assert (member.borrowed, gate.pool) == (8, 42)


def test_a_group_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidParametersError, match="must be the group of a gate"):
        GATE.receiving(OWN, record=None, group="a group")  # type: ignore[arg-type]  # the refusal itself


# A target for the pool.


def test_the_target_leaves_out_what_exclusive_credit_holds() -> None:
    parameters = GateParameters(inputs=2, exclusive=100, floating=1_000)
    gate = Gate(parameters)
    members = [GateReceiver[object](parameters, gate=gate) for _ in range(2)]
    gate.aim_at(1.0)
    for step in range(100):  # 400 rows a second
        gate.observe(step / 10, 40, is_busy=True)
    both = gate.target
    gate.end_input(members[0])
    for step in range(100, 200):
        gate.observe(step / 10, 40, is_busy=True)
    gate.observe(20, 20, is_busy=True)
    gate.observe(21, 200, is_busy=True)  # the target changes: the exclusive credit of one input has gone
    assert (both, gate.target) == (200, 200)


def test_a_gate_that_adapts_lends_whole_chunks() -> None:
    parameters = GateParameters(inputs=2, exclusive=0, floating=200, max_chunk_cost=40)
    gate = Gate(parameters)
    one, other = (GateReceiver[object](parameters, gate=gate) for _ in range(2))
    gate.aim_at(1.0)
    gate.observe(0.0, 40, is_busy=True)  # a chunk of so many rows
    gate.resize(100)
    for member in (one, other):
        member.on_announcement(Backlog(500))
    assert (one.borrowed, other.borrowed) == (100, 0)
    gate.resize(170)
    assert (one.borrowed, other.borrowed) == (140, 30)


@pytest.mark.parametrize(("exclusive", "least"), [(4, 0), (0, 7)])
def test_a_target_below_the_floor_or_above_the_pool_is_refused(exclusive: int, least: int) -> None:
    gate = Gate(GateParameters(inputs=2, exclusive=exclusive, floating=9, max_chunk_cost=4))
    assert gate.least_target == least
    for target in (least - 1, 10):
        with pytest.raises(InvalidParametersError, match=f"target must be within {least} and 9"):
            gate.resize(target)
    assert gate.target == 9
