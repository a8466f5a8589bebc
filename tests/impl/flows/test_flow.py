"""What every flow shares: its name, how two ends agree on it, parameters by their names, and what both ends count."""

from collections.abc import Callable
from typing import Any

import pytest

from examples.own_flow.xon_xoff import XonXoff
from permitflow import ChannelParameters, Demand, Kind, Oversize, Parameters, SquelchParameters
from permitflow.errors import InvalidParametersError, LocalProtocolError, ParameterMismatchError
from permitflow.flows.demand.core import DEMAND
from permitflow.flows.permits.agreement import PERMITS
from permitflow.flows.seam import Flow, Totals, register
from permitflow.flows.table import flow_named
from permitflow.stream.frames import Agreement, Get
from permitflow.stream.handshake import PROTOCOL_VERSION, agree, stated, verify

FLOWS: dict[str, Parameters] = {
    "permits": ChannelParameters(row_permits=64),
    "squelch": SquelchParameters(high=8, rate=4),
    "demand": Demand(size=4),
    "xon-xoff": XonXoff(64),
}


# By its name.


@pytest.mark.parametrize(
    "name",
    ["", "leaky-bucket", "session", "../permits", "permits.x", "os", "permits\0", "p" * 10_000],
    ids=["none", "unknown", "a module that is no flow", "a path", "dotted", "another package", "no name", "long"],
)
def test_a_flow_that_is_not_there_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(ParameterMismatchError, match="flow must be one that both ends know") as caught:
        flow_named(name)
    assert (caught.value.name, caught.value.theirs) == ("flow", name[:200])
    assert "permits" in str(caught.value.ours)


def test_no_two_flows_have_the_same_name() -> None:
    class Others(Parameters):
        """Of a flow that calls itself as another one does."""

    class Impostor(Flow):
        name = "permits"
        wire = None

        def complete(self, wishes: Any) -> Others:
            return Others()

    with pytest.raises(InvalidParametersError, match="flow is the name of another flow"):
        register(Impostor(), Others)
    assert flow_named("permits") is PERMITS
    assert not hasattr(Others, "flow")


# Between two ends.


def dialled(wanted: Parameters | None) -> Get:
    return Get(PROTOCOL_VERSION, "orders/0", **stated(wanted))


@pytest.mark.parametrize("wanted", FLOWS)
@pytest.mark.parametrize("own", FLOWS)
def test_an_end_that_wants_another_flow_is_refused(own: str, wanted: str) -> None:
    request = dialled(FLOWS[wanted])
    if own == wanted:
        assert agree(FLOWS[own], request) == FLOWS[own]
        return
    with pytest.raises(ParameterMismatchError, match="flow must be that of the channel") as caught:
        agree(FLOWS[own], request)
    assert (caught.value.ours, caught.value.theirs) == (own, wanted)


@pytest.mark.parametrize("own", FLOWS)
def test_an_end_that_does_not_say_gets_what_there_is(own: str) -> None:
    parameters, request = FLOWS[own], dialled(None)
    assert agree(parameters, request) == parameters
    agreement = Agreement(PROTOCOL_VERSION, own, parameters.flow.state(parameters), b"")
    assert verify(agreement, request) == parameters


@pytest.mark.parametrize(
    ("wanted", "flow", "rule"),
    [
        (Demand(), "permits", "must be the requested one"),
        (Demand(), "leaky-bucket", "must be the requested one"),
        (None, "leaky-bucket", "must be one that both ends know"),
        (None, "", "must be one that both ends know"),
    ],
)
def test_an_acceptor_that_names_another_flow_is_not_believed(wanted: Parameters | None, flow: str, rule: str) -> None:
    agreement = Agreement(PROTOCOL_VERSION, flow, PERMITS.state(ChannelParameters()), b"")
    with pytest.raises(ParameterMismatchError, match=rule) as caught:
        verify(agreement, dialled(wanted))
    assert (caught.value.name, caught.value.theirs) == ("flow", flow)


# Parameters by their names.


def test_parameters_are_read_by_their_names() -> None:
    read = PERMITS.parse({"row_permits": 64, "oversize": "whole"})
    assert read == ChannelParameters(row_permits=64, oversize=Oversize.WHOLE)
    assert PERMITS.parse({}) == ChannelParameters()
    assert DEMAND.parse({}) == Demand()
    assert PERMITS.parse(PERMITS.state(read)._asdict()) == read


@pytest.mark.parametrize(
    ("parse", "known"),
    [
        (PERMITS.parse, "row_permits, permit_batch, max_chunk_cost, barrier_permits, oversize"),
        (DEMAND.parse, "size, batch, initial"),
    ],
)
def test_a_parameter_that_a_flow_does_not_have_is_refused(parse: Callable[[dict[str, Any]], Any], known: str) -> None:
    with pytest.raises(InvalidParametersError, match=f"window must be a parameter of flow .*, which has {known}"):
        parse({"window": 7})


# The ends of any flow.


@pytest.mark.parametrize("name", FLOWS)
def test_both_ends_count_the_same(name: str) -> None:
    parameters = FLOWS[name]
    sender, receiver = parameters.flow.outbound(parameters), parameters.flow.inbound(parameters)
    sender.offer(Kind.CHUNK, "abc", 3)
    sender.offer(Kind.BARRIER, "b")
    sender.offer_watermark("w")
    sender.offer(Kind.CHUNK, "", 0)
    came: list[object] = []
    while True:
        for message in sender.take_sendable():
            receiver.deliver(message)
        if (received := receiver.try_receive()) is None:
            break
        came.append(received.payload)
        if (said := receiver.take_feedback()) is not None:
            sender.on_feedback(said)
    assert sender.send_now([2]) == 1
    receiver.deliver_many(["de"], [2])

    assert came == ["abc", "b", "w", ""]
    assert sender.totals == receiver.totals == Totals(chunks=3, rows=5, barriers=1)
    assert (receiver.consumed_chunks, receiver.consumed_rows, receiver.inbox_rows) == (2, 3, 2)


@pytest.mark.parametrize("name", FLOWS)
def test_nothing_can_be_consumed_that_was_not_taken(name: str) -> None:
    receiver = FLOWS[name].flow.inbound(FLOWS[name])
    receiver.deliver_many(["abc"], [3])
    with pytest.raises(LocalProtocolError, match="no message was taken"):
        receiver.consume_many(1)
    assert receiver.receive_many(0) == []
    assert (receiver.inbox_rows, receiver.consumed_chunks) == (3, 0)
